"""The limit of a request's length was taken from the smaller window pool.

What it sees
    Requests refused at a length near full tokens × window ratio, while the full-attention pool holds far more.
Why it matters
    Prompts are refused at a fraction of the real capacity. The context length is not the limit.
What to do
    Upgrade; until then raise --swa-full-tokens-ratio.
Sources
    SGLang, pull request 26607, prefill node of a disaggregated pair.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.kv_pool import DeepSeekV4Budget, DeepSeekV4Pools, SlidingWindowPool
from kvdiag.diagnosis.events.requests import RequestTooLong
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import knob
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule


def window_tokens(case: Case) -> tuple[int, int] | None:
    """Tokens of the full and of the window pool: as printed, else by the ratio."""
    for pool in case.launch.each(SlidingWindowPool):
        if pool.full_tokens and pool.swa_tokens:
            return pool.full_tokens, pool.swa_tokens
    for pools in case.launch.each(DeepSeekV4Pools):
        if pools.full and pools.swa:
            return pools.full, pools.swa
    ratio = case.launch.number_of("swa_full_tokens_ratio")
    for budget in case.launch.each(DeepSeekV4Budget):
        if budget.tokens:
            return budget.tokens, round(budget.tokens * (ratio or 0.1))
    if ratio and case.tokens:
        return case.tokens, round(case.tokens * ratio)
    return None


@rule(severity=Severity.WARNING, unless=(judgements.without_window,))
def check(case: Case) -> Iterator[Finding]:
    tokens = window_tokens(case)
    refused = [e for e in case.launch.each(RequestTooLong) if e.limit]
    if tokens is None or not refused:
        return
    full, window = tokens
    limit = refused[0].limit or 0
    if window >= full or not 0.97 * window - 512 <= limit <= 1.02 * window:
        return
    yield Finding(
        summary=f"Requests are refused above {limit:,} tokens, the size of the window pool ({window:,}); the"
        f" full-attention pool holds {full:,}",
        why="The smaller pool was taken as the limit of a request's length.",
        evidence=cite(
            *refused[:2], *case.launch.each(SlidingWindowPool, DeepSeekV4Pools)[:1], figure="limit", value=limit
        ),
        remedies=(
            Remedy("upgrade", Direction.SET, to="a build after pull request 26607", cost="It costs an upgrade."),
            knob(
                case,
                "--swa-full-tokens-ratio",
                Direction.RAISE,
                cost="It costs full-attention tokens: the window pool takes a larger share.",
            ),
        ),
        confidence=Confidence.LIKELY,
    )
