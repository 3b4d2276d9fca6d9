"""A decode node pre-allocates for arriving requests and fills its pool.

What it sees
    On the decode node of a disaggregated pair: no space left for one request, or "KV cache is full" at
    pre-allocation.
Why it matters
    Tokens promised to requests that still arrive are missing for those that run.
What to do
    Raise the reserve for each request, and run fewer at once.
Sources
    SGLang, disaggregation/decode.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.requests import LastRequestDoesNotFit, PreallocationFull
from kvdiag.diagnosis.rules._pricing import knob
from kvdiag.diagnosis.rules.judgements import ranks_of
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    full = case.launch.each(PreallocationFull)
    decode = case.launch.value("disaggregation_mode") == "decode"
    last = case.launch.each(LastRequestDoesNotFit) if decode else []
    if not full and not last:
        return
    yield Finding(
        summary="The decode node has promised its pool to requests that still arrive",
        why="Running requests cannot grow while slots are held for others.",
        ranks=ranks_of([*full, *last][:64]),
        evidence=cite(*full[:2], *last[:2]),
        remedies=(
            knob(case, "--max-running-requests", Direction.LOWER, cost="It costs concurrency: others wait."),
            knob(
                case,
                "--num-reserved-decode-tokens",
                Direction.RAISE,
                cost="It costs concurrency: each request holds more.",
            ),
            Remedy(
                "SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION",
                Direction.RAISE,
                cost="It costs concurrency: more output is expected of each request.",
            ),
        ),
        confidence=Confidence.CERTAIN if full else Confidence.LIKELY,
    )
