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
    need = Bytes(tried - free) if tried is not None and free is not None else None
    tokens = case.tokens
    capped = None
    if tokens and tried and case.after_pool is not None:
        steps = max(1, len(case.launch.each(PoolEnd, rank=sign.rank)))
        capped = round(tokens * max(0.5, 1 - (need or 0) / (tried * (steps + 1))))
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
            ),
            lower_fraction(case, need),
        ),
        confidence=Confidence.LIKELY,
        stake=to_gib(tried) or 0.0,
    )
