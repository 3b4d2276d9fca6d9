"""Ten GB of host memory are always kept back.

What it sees
    A refusal of the host tier whose free figure is larger than what is asked for (releases up to 0.4.9 print the free
    memory before the reserve is taken off).
Why it matters
    The line contradicts itself unless one knows of the reserve.
What to do
    Subtract 10 GB from what is free before choosing the size.
Sources
    SGLang, mem_cache/memory_pool_host.py: the reserve.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.host_memory import HostMemoryShort
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._formulas import worked
from kvdiag.diagnosis.rules._pricing import host_tier_knobs
from kvdiag.diagnosis.rules.rule import Case, Finding, Severity, cite, rule


@rule(severity=Severity.WARNING, releases="..0.4.9", unless=(judgements.without_host_tier,))
def check(case: Case) -> Iterator[Finding]:
    for short in case.launch.each(HostMemoryShort):
        if short.wanted is None or short.free is None or short.free < short.wanted:
            continue
        yield Finding(
            summary=f"{short.free:,.2f} GB are free and {short.wanted:,.2f} GB asked for, yet refused: 10"
            " GB are kept back",
            formula=worked(
                "free − 10 GiB against asked for, in GB",
                f"{short.free:.2f} − 10.74 = {short.free - 10.74:.2f} against {short.wanted:.2f}",
            ),
            evidence=cite(short, figure="free_gb", value=round(short.free, 2)),
            remedies=host_tier_knobs(case),
        )
        return
