"""A request of thousands of GiB is a corrupted size, not a shortage.

What it sees
    An overflow that asks for more than a TiB, or for more than an exabyte.
Why it matters
    No memory setting can serve it: a length or a shape is wrong.
What to do
    Look for the tensor whose size is wrong; try another release.
Sources
    SGLang, issue 27351; PyTorch, "Tried to allocate more than 1EB memory".
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules.judgements import overflows
from kvdiag.diagnosis.rules.rule import Case, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import format_gib, to_gib


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    for oom in overflows(case):
        if oom.tried is None or oom.tried < case.thresholds.bogus_request:
            continue
        yield Finding(
            summary=f"A request of {format_gib(oom.tried)} is a corrupted size, not a shortage",
            why="No card has that much: a length or a shape is wrong.",
            ranks=(oom.rank,),
            evidence=cite(oom, figure="tried_gib", value=to_gib(oom.tried, 4)),
        )
        return
