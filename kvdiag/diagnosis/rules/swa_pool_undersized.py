"""The window pool is smaller than a window and a page: nothing is ever admitted.

What it sees
    Tokens × window ratio, aligned down to pages, below window + page.
Why it matters
    The warm-up request waits for ever at a use of zero. It looks like a network hang.
What to do
    Raise the cap that makes the pool so small, or --swa-full-tokens-ratio.
Sources
    SGLang, mem_cache/swa_memory_pool.py; refused at start since 0.5.21.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from kvdiag.diagnosis.events.kv_pool import DeepSeekV4Pools, SlidingWindowPool
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._formulas import worked
from kvdiag.diagnosis.rules._pricing import knob, remedies
from kvdiag.diagnosis.rules.judgements import cap
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Severity, cite, rule


@rule(severity=Severity.CRITICAL, unless=(judgements.without_window,))
def check(case: Case) -> Iterator[Finding]:
    found: list[SlidingWindowPool | DeepSeekV4Pools] = [
        *case.launch.each(SlidingWindowPool),
        *case.launch.each(DeepSeekV4Pools),
    ]
    if not found:
        return
    last = max(found, key=lambda e: e.line.place)
    tokens = last.swa_tokens if isinstance(last, SlidingWindowPool) else last.swa
    deepseek = isinstance(last, DeepSeekV4Pools)
    page = case.launch.number_of("page_size") or (256 if deepseek else 1)
    window = case.launch.number_of("sliding_window_size") or 128
    if tokens is None or tokens >= window + page:
        return
    ratio = case.launch.number_of("swa_full_tokens_ratio") or (0.1 if deepseek else 0.8)
    wanted = math.ceil((window + page) / page) * page
    least = math.ceil(wanted / ratio / page) * int(page)
    yield Finding(
        summary=f"The window pool holds {tokens:,} tokens, less than a window and a page ({window + page:,.0f}): no"
        " request is ever admitted",
        formula=worked(
            "tokens × ratio, aligned down to pages, against window + page",
            f"{tokens:,} against {window:g} + {page:g}",
        ),
        evidence=cite(last, figure="swa_tokens", value=tokens),
        remedies=remedies(
            knob(
                case, "--max-total-tokens", Direction.RAISE, to=str(least), cost="It costs the memory of those tokens."
            )
            if cap(case) is not None or case.launch.number_of("max_total_tokens")
            else None,
            knob(case, "--swa-full-tokens-ratio", Direction.RAISE, cost="It costs full-attention tokens."),
        ),
        confidence=Confidence.LIKELY,
    )
