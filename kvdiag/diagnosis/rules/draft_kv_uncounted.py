"""The draft's KV pools, with the target's token count, are not in the budget.

What it sees
    An overflow while a draft's pool is built, after the target's pool; with a multi-layer draft free memory falls in
    equal steps before it.
Why it matters
    Each draft layer repeats the target's tokens. With several of them the reserve is used up pool by pool.
What to do
    Cap --max-total-tokens by pool bytes / (target's + drafts' bytes a token), or lower the fraction. The default
    fraction may be higher than the one that failed.
Sources
    SGLang, speculative/multi_layer_eagle_worker.py; issue 31588.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.kv_pool import PoolEnd
from kvdiag.diagnosis.ledger.model import Moment
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import lower_fraction, remedies
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Effect, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import Bytes, to_gib


@rule(severity=Severity.CRITICAL, unless=(judgements.without_draft,))
def check(case: Case) -> Iterator[Finding]:
    sign = judgements.memory_ran_out(case)
    if sign is None or not judgements.is_draft_pool(case, sign):
        return
    tried, free = getattr(sign, "tried", None), getattr(sign, "free", None)
    need = None if tried is None else judgements.missing(case, free, Bytes(2 * tried))  # K and V
    tokens = case.tokens
    capped = _cap(case, sign.rank, tried) if tokens else None
    yield Finding(
        summary="A draft model's KV pool overflows: it repeats the target's tokens, and no budget holds room for it",
        why="The pool was sized for the target's layers alone.",
        evidence=cite(*case.launch.each(PoolEnd)[:4], sign, figure="tried_gib", value=to_gib(tried, 4)),
        remedies=remedies(
            Remedy(
                "--max-total-tokens",
                Direction.SET,
                to=None if capped is None else str(capped),
                effect={} if capped is None else {"kv_tokens": Effect(tokens, capped)},
                cost="It costs KV tokens, as many as the drafts' pools need.",
                note=""
                if capped is None
                else "(pool + free after it − wanted) / what a token takes in the target and the"
                " drafts seen; drafts that the log does not reach need more.",
            ),
            lower_fraction(case, need),
        ),
        confidence=Confidence.LIKELY,
        stake=to_gib(tried) or 0.0,
    )


def _cap(case: Case, rank: str, tried: Bytes | None) -> int | None:
    """Tokens for which the target's pool and those of the drafts seen, with the one that failed, fit beside what is
    wanted free: the room of both over what a token takes in all of them."""
    ledger = next((x for x in case.ledgers if x.rank == rank), None)
    after = None if ledger is None else ledger.reading(Moment.POOL_END)
    if ledger is None or after is None or not ledger.kv_size or not ledger.kv_tokens or not tried:
        return None
    drafts = [p.size for p in ledger.draft_pools if p.size is not None]
    each = max(drafts, default=Bytes(2 * tried))  # what failed is one of two equal halves, K or V
    taken = ledger.kv_size + sum(drafts) + each
    room = ledger.kv_size + after.available - case.wanted_range[0]
    share = room / taken
    return round(ledger.kv_tokens * share) if 0 < share < 1 else None
