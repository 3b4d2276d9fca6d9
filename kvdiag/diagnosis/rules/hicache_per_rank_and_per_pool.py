"""The host tier's size counts for each rank and for each pool.

What it sees
    Several ranks that set up host pools, or a size and several ranks in the command, and a host that runs out.
Why it matters
    Ranks × pools × size is what the host or the container has to hold.
What to do
    Divide the size by the ranks, and by the pools (KV, state, draft, index).
Sources
    SGLang, mem_cache/memory_pool_host.py; its documentation on hierarchical caching.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.failure import ExitCode, Killed
from kvdiag.diagnosis.events.host_memory import HostMemoryShort, HostPool
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import host_tier_knobs
from kvdiag.diagnosis.rules.judgements import killed_from_outside, ranks_in_tensor_group
from kvdiag.diagnosis.rules.rule import Case, Confidence, Finding, Severity, cite, rule


@rule(severity=Severity.WARNING, unless=(judgements.without_host_tier,))
def check(case: Case) -> Iterator[Finding]:
    pools = [p for p in case.launch.each(HostPool) if p.size]
    short, killed = case.launch.first(HostMemoryShort), killed_from_outside(case)
    if short is None and not killed:
        return
    ranks = max(ranks_in_tensor_group(case), len({p.rank for p in pools}))
    size = case.launch.number_of("hicache_size") or 0
    total = sum(p.size or 0 for p in pools) / 1e9
    kinds = len({p.what for p in pools})
    if short is not None and short.wanted is not None:
        if not pools and ranks < 2:
            return
        total = max(total + short.wanted, ranks * short.wanted if not pools else 0)
    elif size:
        total = max(total, size * ranks)
    if not total or (ranks < 2 and kinds < 2):
        return
    alone = short is not None and short.wanted is not None and short.free is not None and short.wanted > short.free
    if alone and not pools:
        return  # one rank's share alone is too large: the count of ranks is not what breaks it
    yield Finding(
        summary=f"The host tier needs {total:,.0f} GB in all: its size counts for each of {ranks} ranks"
        + (f" and {kinds} pools" if kinds > 1 else ""),
        why="Each rank sets up its own; in a container the limit is the container's.",
        evidence=cite(
            *pools[:3], short, *(case.launch.each(ExitCode, Killed)[:1] if killed else ()), *case.launch.commands[:1]
        ),
        remedies=host_tier_knobs(case),
        confidence=Confidence.LIKELY,
    )
