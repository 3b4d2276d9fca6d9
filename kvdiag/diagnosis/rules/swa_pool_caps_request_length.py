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

from kvdiag.diagnosis.events.kv_pool import DeepSeekV4Pools, SlidingWindowPool
from kvdiag.diagnosis.events.requests import RequestTooLong
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import knob
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule


@rule(severity=Severity.WARNING, unless=(judgements.without_window,))
def check(case: Case) -> Iterator[Finding]:
    tokens = judgements.window_tokens(case)
    refused = [e for e in case.launch.each(RequestTooLong) if e.limit]
    if tokens is None or not refused or not judgements.is_windows_limit(case, refused[0].limit or 0):
        return
    full, window = tokens
    limit = refused[0].limit or 0
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
