"""On a device with shared memory, "free" leaves out what the page cache would give back.

What it sees
    A device with shared memory and a release before 0.5.4, which asks the driver for what is free.
Why it matters
    Weights just read lie in the page cache and count as used: the budget comes out far too small.
What to do
    Upgrade to 0.5.4 or later, which asks the host for available memory.
Sources
    SGLang, pull request 10075.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules.judgements import unified_device
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule


@rule(severity=Severity.ADVICE, releases="..0.5.3")
def check(case: Case) -> Iterator[Finding]:
    found = unified_device(case)
    if found is None or case.launch.releases.reaches("0.5.4") is not False:
        return
    yield Finding(
        summary="This release counts the page cache as used memory on a device that shares its memory with the host",
        evidence=cite(found, case.opening),
        remedies=(Remedy("upgrade", Direction.SET, to="0.5.4 or later", cost="It costs an upgrade."),),
        confidence=Confidence.LIKELY,
    )
