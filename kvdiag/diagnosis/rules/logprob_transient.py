"""Scores over the whole vocabulary for many tokens do not fit.

What it sees
    An overflow in the logits step.
Why it matters
    Scores of prompt tokens take tokens × vocabulary × 4 bytes at once, outside every budget.
What to do
    Ask for log probabilities of a shorter range, use smaller prefill chunks, or a newer build.
Sources
    SGLang, layers/logits_processor.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import lower_fraction, remedies, smaller_chunk
from kvdiag.diagnosis.rules.rule import Case, Confidence, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import format_gib, to_gib


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    sign = judgements.memory_ran_out(case)
    if sign is None or judgements.site(case, sign) != "logits" or judgements.is_trainers(case, sign):
        return
    if judgements.capture_overflow(case) is not None:
        return
    tried, free = getattr(sign, "tried", None), getattr(sign, "free", None)
    need = judgements.room_for(case, tried, free)
    yield Finding(
        summary="Scores over the vocabulary do not fit"
        + ("" if tried is None else f": {format_gib(tried)} were asked for"),
        why="They take tokens × vocabulary × 4 bytes at once.",
        ranks=judgements.ranks_of(judgements.overflows(case)[:64]),
        evidence=cite(sign, figure="tried_gib", value=to_gib(tried, 4)),
        remedies=remedies(
            smaller_chunk(case, sign),
            lower_fraction(case, need),
        ),
        confidence=Confidence.LIKELY,
        stake=to_gib(tried) or 0.0,
    )
