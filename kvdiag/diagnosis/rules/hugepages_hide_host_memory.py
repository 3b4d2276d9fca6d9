"""Reserved huge pages are not "available" memory.

What it sees
    A refusal of the host tier, and huge pages reserved on the host.
Why it matters
    The check reads available memory, which leaves the reserve out, although it may be free.
What to do
    Reserve fewer huge pages, or leave room beside them.
Sources
    SGLang, issue 34972; Linux, proc(5): MemAvailable.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.host_memory import HostMemoryShort
from kvdiag.diagnosis.events.platform import HugePages
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import host_tier_knobs
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule


@rule(severity=Severity.WARNING, unless=(judgements.without_host_tier,))
def check(case: Case) -> Iterator[Finding]:
    pages, short = case.launch.first(HugePages), case.launch.first(HostMemoryShort)
    if pages is None or short is None or pages.pages == 0:
        return
    yield Finding(
        summary="Huge pages are reserved on the host, and memory reserved for them does not count as available",
        evidence=cite(pages, short, figure="pages", value=pages.pages),
        remedies=(
            Remedy("vm.nr_hugepages", Direction.LOWER, cost="It costs the programs that use huge pages their reserve."),
            *host_tier_knobs(case),
        ),
        confidence=Confidence.LIKELY,
    )
