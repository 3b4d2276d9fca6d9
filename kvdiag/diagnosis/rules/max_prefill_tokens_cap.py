"""A second budget a batch binds: --max-prefill-tokens.

What it sees
    Prefill batches whose new tokens stay just under the limit, with requests waiting and no smaller chunk.
Why it matters
    Prefill is slower than the pool allows; the pool is not the limit.
What to do
    Raise --max-prefill-tokens.
Sources
    SGLang, schedule_policy.py: PrefillAdder; the default is 16384.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.serving import PrefillBatch
from kvdiag.diagnosis.rules._pricing import knob, starting_value
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Evidence, Finding, Severity, rule

DEFAULT_LIMIT = 16_384


@rule(severity=Severity.ADVICE)
def check(case: Case) -> Iterator[Finding]:
    limits, launch = case.limits, case.launch
    limit = (limits.max_prefill_tokens if limits else None) or int(
        launch.number_of("max_prefill_tokens") or DEFAULT_LIMIT
    )
    chunk = (limits.chunked_prefill_size if limits else None) or launch.number_of("chunked_prefill_size")
    if chunk and 0 < chunk <= limit:
        return
    batches = [p for p in launch.series.points if isinstance(p, PrefillBatch) and p.new_tokens]
    # A full chunk is as large as the limit where both are equal: then neither binds more than the other.
    most = limit if chunk else limit - 1
    near = [p for p in batches if 0.9 * limit <= (p.new_tokens or 0) <= most]
    if len(near) < 2 or max(p.new_tokens or 0 for p in batches) > limit or not any(p.queued for p in near):
        return
    yield Finding(
        summary=f"{len(near)} prefill batches stay just under {limit:,} new tokens while requests wait",
        why="--max-prefill-tokens binds, not the pool.",
        evidence=tuple(Evidence(p.line, "new_tokens", p.new_tokens) for p in near[:3]),
        remedies=(
            knob(
                case,
                "--max-prefill-tokens",
                Direction.RAISE,
                to=str(2 * limit),
                cost="It costs memory for activations: a batch may be twice as large.",
                note=starting_value("twice the present limit", "that prefill batches still fit in what is free"),
            ),
        ),
        confidence=Confidence.LIKELY,
    )
