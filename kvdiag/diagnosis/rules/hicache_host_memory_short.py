"""The host tier does not fit in the host's memory.

What it sees
    "Not enough host memory available".
Why it matters
    The server does not start. No GPU is short of memory, and no GPU flag helps.
What to do
    Lower --hicache-size or --hicache-ratio. Each rank takes its own share, and 10 GB are always kept back.
Sources
    SGLang, mem_cache/memory_pool_host.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.host_memory import HostMemoryShort
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import host_tier_knobs
from kvdiag.diagnosis.rules.judgements import ranks_of
from kvdiag.diagnosis.rules.rule import Case, Finding, Severity, cite, rule


@rule(severity=Severity.CRITICAL, unless=(judgements.without_host_tier,))
def check(case: Case) -> Iterator[Finding]:
    found = case.launch.each(HostMemoryShort)
    if not found:
        return
    first = found[0]
    figures = ""
    if first.wanted is not None and first.free is not None:
        figures = f": {first.wanted:,.2f} GB are asked for, {first.free:,.2f} GB count as free"
    yield Finding(
        summary=f"The host tier does not fit in the host's memory{figures}",
        why="It is memory of the host, in units of 10^9 bytes; GPU flags do not change it.",
        ranks=ranks_of(found[:64]),
        evidence=cite(*found[:2], figure="wanted_gb", value=None if first.wanted is None else round(first.wanted, 2)),
        remedies=host_tier_knobs(case),
    )
