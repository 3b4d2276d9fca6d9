"""Window layers were added to a figure that already contains them.

What it sees
    A sliding-window model whose pools are well below the budget, with far more free memory after them than the
    reserve, in a build of early 2026. Certain where the count of tokens is that of the double count and of no other;
    likely in 0.5.8 itself; possible where the log leaves the release open, with nothing else to explain the gap.
Why it matters
    The pool is too small and memory stays unallocated. Two token counts, full and window, are normal.
What to do
    Upgrade to 0.5.9 or later.
Sources
    SGLang, pull request 18039; seen in 0.5.8.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.ledger.sizing.swa import SplitRule
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._formulas import beyond_reserve
from kvdiag.diagnosis.rules.judgements import excess_after_pool, has_window, low_ranks, stages_in_pipeline
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import format_gib, to_gib


@rule(severity=Severity.ADVICE, releases="0.5.8", unless=(judgements.without_window,))
def check(case: Case) -> Iterator[Finding]:
    excess, opening = excess_after_pool(case), case.opening_size
    if not has_window(case) or excess is None or opening is None or low_ranks(case) or stages_in_pipeline(case) > 1:
        return
    if excess <= max(case.thresholds.reserve_excess, case.thresholds.reserve_excess_share * opening):
        return
    confidence = _confidence(case)
    if confidence is None:
        return
    yield Finding(
        summary=f"The pools leave {format_gib(excess)} beyond the reserve: window layers were counted twice",
        formula=beyond_reserve(
            case, case.after_pool.available if case.after_pool is not None else None, "free after the pools"
        ),
        evidence=cite(case.after_pool, case.opening),
        remedies=(Remedy("upgrade", Direction.SET, to="0.5.9 or later", cost="It costs an upgrade."),),
        confidence=confidence,
        stake=to_gib(excess) or 0.0,
    )


def _confidence(case: Case) -> Confidence | None:
    """How far the arithmetic closes; None where it says something else."""
    sizing, releases = case.sizing, case.launch.releases
    budget = sizing.budget if sizing is not None else None
    if sizing is None or budget is None:
        return None
    fits = [c.arithmetic.split for c in budget.candidates if c.fits]
    if SplitRule.DOUBLE_COUNT in fits:
        return Confidence.CERTAIN if set(fits) == {SplitRule.DOUBLE_COUNT} else Confidence.POSSIBLE
    if sizing.limit.fault != "swa-cell-double-count":
        return None
    return Confidence.LIKELY if releases.within("0.5.8", "0.5.9") else Confidence.POSSIBLE
