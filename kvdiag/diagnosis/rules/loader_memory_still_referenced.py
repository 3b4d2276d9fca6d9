"""Loading buffers were alive while the budget was measured.

What it sees
    Far more free memory after the pool than the reserve, with no cap and no low rank; or a pool of a few thousand
    tokens beside tens of GiB free.
Why it matters
    The budget was measured with memory in use that was given back a moment later. The pool stays tiny, and requests
    are refused as too long although the context is not the limit.
    Certain: the pool took its budget to the digit, and more than a GiB came back after it on every rank. Likely: it
    came back, or all ranks show more free than the reserve. Possible: ranks are missing, or the log has no budget.
What to do
    Use a release that collects before it measures (0.5.19 and later). --max-total-tokens cannot help: it only lowers
    the count. A higher fraction covers the fault and overflows once it is fixed.
Sources
    SGLang, pull request 36583: collect before measuring.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.ledger.model import Moment
from kvdiag.diagnosis.rules._formulas import beyond_reserve, gib, worked
from kvdiag.diagnosis.rules._pricing import NEWER_LOADER
from kvdiag.diagnosis.rules.judgements import excess_after_pool, is_short, loader_memory_held, memory_came_back, reserve
from kvdiag.diagnosis.rules.rule import Case, Confidence, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import Bytes, format_gib, format_tokens, to_gib


@rule(severity=Severity.WARNING, releases="..0.5.17")
def check(case: Case) -> Iterator[Finding]:
    if not loader_memory_held(case):
        return
    excess, kept, free = excess_after_pool(case), reserve(case), case.free_at_end
    back = memory_came_back(case)
    idle = back if back is not None else excess if excess is not None else free.available if free is not None else None
    tokens = "" if case.tokens is None else f"The pool holds {format_tokens(case.tokens)} tokens, yet "
    beyond = "" if kept is None else f" beyond the reserve of {format_gib(kept)}"
    stay = "came back after it was made" if back is not None else f"stay free{beyond}"
    tiny = case.tokens is not None and case.tokens <= case.thresholds.pool_tiny_tokens
    yield Finding(
        summary=f"{tokens}{format_gib(idle or 0)} {stay}: loading buffers were counted as in use",
        why="The budget was measured before the loader's buffers were released; the fraction and the"
        " context are innocent.",
        formula=_rise(case, back)
        if back is not None
        else beyond_reserve(case, case.after_pool.available if case.after_pool is not None else None),
        evidence=cite(case.after_pool, case.opening, case.limits, free, figure="kv_tokens", value=case.tokens),
        remedies=(NEWER_LOADER,),
        severity=Severity.WARNING if tiny or is_short(case) else Severity.ADVICE,
        confidence=_confidence(case, back),
        stake=to_gib(idle) or 0.0,
    )


def _confidence(case: Case, back: Bytes | None) -> Confidence:
    """How far the figures close."""
    excess = excess_after_pool(case)
    if back is not None:
        closes = excess is not None and abs(excess) <= case.thresholds.reserve_closes
        return Confidence.CERTAIN if closes and _came_back_everywhere(case) else Confidence.LIKELY
    seen = sum(x.reading(Moment.WEIGHTS_END) is not None for x in case.ledgers)
    ranks = (case.launch.number_of("tp_size") or 1) * (case.launch.number_of("pp_size") or 1)
    return Confidence.LIKELY if excess is not None and seen >= ranks else Confidence.POSSIBLE


def _came_back_everywhere(case: Case) -> bool:
    """Whether each of several ranks shows more free after its pool than at its end."""
    rises = []
    for ledger in case.ledgers:
        pool = ledger.reading(Moment.POOL_END)
        if pool is not None:
            later = [r.available for r in ledger.readings if pool.line.place < r.line.place]
            rises.append(max(later, default=Bytes(0)) - pool.available > case.thresholds.reserve_excess)
    return len(rises) > 1 and all(rises)


def _rise(case: Case, back: Bytes) -> str:
    """The rise on a rank that shows it as large as it is."""
    for ledger in case.ledgers:
        pool = ledger.reading(Moment.POOL_END)
        later = [] if pool is None else [r.available for r in ledger.readings if pool.line.place < r.line.place]
        if pool is not None and later and max(later) - pool.available == back:
            figures = f"{gib(max(later))} − {gib(pool.available)} = {gib(back)}"
            return worked("most free later − free after the pool", figures)
    return "most free later − free after the pool"
