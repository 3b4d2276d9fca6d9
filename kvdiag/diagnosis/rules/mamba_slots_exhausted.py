"""No state slot was left for a request at admission.

What it sees
    The assertion that names the mamba cache or its ping-pong index.
Why it matters
    The server ends. Tokens may be plentiful: it is the states that ran out.
What to do
    Raise --max-mamba-cache-size, or lower --max-running-requests. The ratio that the message names is ignored while
    the size is pinned.
Sources
    SGLang, mem_cache/memory_pool.py: HybridReqToTokenPool.alloc() (0.5.7 and later).
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.requests import StateSlotsExhausted
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import knob, remedies
from kvdiag.diagnosis.rules.judgements import ranks_of
from kvdiag.diagnosis.rules.rule import Case, Direction, Finding, Severity, cite, rule


@rule(severity=Severity.CRITICAL, releases="0.5.7..", unless=(judgements.without_state,))
def check(case: Case) -> Iterator[Finding]:
    found = case.launch.each(StateSlotsExhausted)
    if not found:
        return
    pinned = case.launch.number_of("max_mamba_cache_size")
    yield Finding(
        summary="A request found no state slot, and the server ended",
        why="The message names --mamba-full-memory-ratio, which is ignored here: --max-mamba-cache-size pins the slots."
        if pinned
        else "Tokens are not the limit: the states of linear-attention layers ran out.",
        ranks=ranks_of(found),
        evidence=cite(*found[:2]),
        remedies=remedies(
            knob(case, "--max-mamba-cache-size", Direction.RAISE, cost="It costs KV tokens: both share one budget."),
            knob(case, "--max-running-requests", Direction.LOWER, cost="It costs concurrency: others wait."),
            None
            if pinned
            else knob(
                case, "--mamba-full-memory-ratio", Direction.RAISE, cost="It costs KV tokens: both share one budget."
            ),
        ),
    )
