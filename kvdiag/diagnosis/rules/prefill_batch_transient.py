"""Too many new tokens were prefilled at once.

What it sees
    An overflow whose last line before it is a large prefill batch.
Why it matters
    Activations grow with the new tokens of a batch; this one did not fit in what was left.
What to do
    Lower --chunked-prefill-size or --max-prefill-tokens. Fewer running requests do not help.
Sources
    SGLang, scheduler.py: the prefill budget; its documentation, "Hyperparameter Tuning".
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import FASTER_STEPS, knob, lower_fraction, remedies, smaller_chunk
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Evidence, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import format_gib, to_gib


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    sign = judgements.memory_ran_out(case)
    batch = None if sign is None else judgements.large_prefill_before(case, sign)
    if sign is None or batch is None or judgements.site(case, sign) is not None or judgements.is_trainers(case, sign):
        return
    if judgements.capture_overflow(case) is not None:
        return
    tried, free = getattr(sign, "tried", None), getattr(sign, "free", None)
    asked = "" if tried is None else f": it asked for {format_gib(tried)}"
    need = judgements.room_for(case, tried, free)
    yield Finding(
        summary=f"A prefill batch of {batch.new_tokens or 0:,} new tokens overflows{asked}",
        why="Activations grow with the new tokens of a batch; the number of running requests does not matter here.",
        ranks=judgements.ranks_of(judgements.overflows(case)[:64]),
        evidence=(
            Evidence(batch.line, "new_tokens", batch.new_tokens),
            *cite(sign, figure="tried_gib", value=to_gib(tried, 4)),
        ),
        remedies=remedies(
            smaller_chunk(case, sign, batch.new_tokens),
            knob(case, "--max-prefill-tokens", Direction.LOWER, cost=f"It costs {FASTER_STEPS}."),
            lower_fraction(case, need),
        ),
        confidence=Confidence.LIKELY,
        stake=to_gib(tried) or 0.0,
    )
