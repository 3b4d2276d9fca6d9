"""Free memory fell between two samples, and nothing of this server took it.

What it sees
    A refusal for want of a pool although the printed figures leave room. What is missing in a start that went on is
    booked as unexplained, and told in the verdict.
Why it matters
    It fails on some days only: another start or another program takes memory at the same time.
What to do
    Start one server after the other, or raise the fraction for the case that it happens again.
Sources
    SGLang, model_runner.py: the budget is measured after loading, seconds after the line is printed.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._formulas import beyond_reserve
from kvdiag.diagnosis.rules._pricing import OTHERS, raise_fraction, remedies
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import format_gib, to_gib


@rule(severity=Severity.WARNING)
def check(case: Case) -> Iterator[Finding]:
    lost = judgements.vanished_before_pool(case)
    if lost is None:
        return
    refused = judgements.refusals(case)
    yield Finding(
        summary=f"At least {format_gib(lost)} vanished between the end of loading and the sizing of the pool",
        why="The printed figures leave room for a pool, yet SGLang found none: something else took memory in between.",
        formula=beyond_reserve(
            case, case.after_weights.available if case.after_weights is not None else None, "after_weights"
        ),
        evidence=cite(case.after_weights, case.opening, *refused[:1]),
        remedies=remedies(
            Remedy(OTHERS, Direction.REMOVE, cost="It costs waiting: one start after the other."),
            raise_fraction(case, None, "Only where starts cannot be kept apart."),
        ),
        confidence=Confidence.POSSIBLE,
        stake=to_gib(lost) or 0.0,
    )
