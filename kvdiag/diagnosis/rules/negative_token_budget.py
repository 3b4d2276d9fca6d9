"""The budget for tokens came out below zero.

What it sees
    SGLang says that --max-total-tokens is larger than a profiled value that is negative, or prints a negative number
    of tokens.
Why it matters
    After weights and reserve less than nothing is left. The cap named in that line is not the cause.
What to do
    Treat it as weights that exceed the static budget: find out why they are large, or raise --mem-fraction-static.
Sources
    SGLang, model_runner.py: profile_max_num_token(), init_memory_pool().
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.cuda_graph import GraphBegin, GraphEnd
from kvdiag.diagnosis.events.kv_pool import KVPoolAllocated, MaxTotalTokensTooLarge, PoolEnd
from kvdiag.diagnosis.events.progress import CaptureProgress
from kvdiag.diagnosis.events.ready import FiredUp, ServerLimits
from kvdiag.diagnosis.rules._formulas import beyond_reserve
from kvdiag.diagnosis.rules._pricing import more_ranks, raise_above, remedies
from kvdiag.diagnosis.rules.judgements import is_before, memory_ran_out, minimum_fraction, ranks_of
from kvdiag.diagnosis.rules.rule import Case, Finding, Severity, cite, rule


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    lines = [
        e
        for e in case.launch.each(MaxTotalTokensTooLarge)
        if e.profiled is not None and e.profiled < 0 and not _start_went_on(case, e)
    ]
    printed: list[KVPoolAllocated | ServerLimits] = [
        *case.launch.each(KVPoolAllocated),
        *case.launch.each(ServerLimits),
    ]
    pools = [e for e in printed if e.tokens is not None and e.tokens < 0]
    if not lines and not pools:
        return
    profiled = lines[0].profiled if lines else pools[0].tokens
    minimum = minimum_fraction(case)
    yield Finding(
        summary=f"The token budget is negative ({profiled:,}): weights and reserve together are larger than the memory",
        why="The line names --max-total-tokens, which is not the cause: the profiled value itself is below zero.",
        formula=beyond_reserve(
            case, case.after_weights.available if case.after_weights is not None else None, "after_weights"
        ),
        ranks=ranks_of([*lines, *pools]),
        evidence=cite(*lines[:2], *pools[:2], figure="kv_tokens", value=profiled)
        + cite(case.opening, case.after_weights),
        remedies=remedies(
            None if memory_ran_out(case) is not None else raise_above(case, minimum),
            more_ranks(case),
        ),
    )


def _start_went_on(case: Case, line: MaxTotalTokensTooLarge) -> bool:
    """Whether the start came further: a draft's pool, profiled after the target's, takes the target's tokens anyway."""
    later = case.launch.each(CaptureProgress, GraphBegin, GraphEnd, PoolEnd, ServerLimits, FiredUp)
    return any(line.rank in ("", e.rank) and is_before(line.line, e.line) for e in later)
