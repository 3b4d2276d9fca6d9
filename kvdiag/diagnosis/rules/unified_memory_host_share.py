"""CPU and GPU share one memory.

What it sees
    A device whose memory is the host's: GB10, Thor, Jetson.
Why it matters
    Tables, page cache and other programs of the host lower what counts as free, and an overflow may end in a kill.
What to do
    Do not reserve twice, and read MemAvailable; rules for discrete cards do not apply.
Sources
    SGLang, utils/common.py: available memory of integrated devices is the host's (0.5.4 and later).
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules.judgements import unified_device
from kvdiag.diagnosis.rules.rule import Case, Finding, Severity, cite, rule


@rule(severity=Severity.INFO)
def check(case: Case) -> Iterator[Finding]:
    found = unified_device(case)
    if found is None:
        return
    yield Finding(
        summary="CPU and GPU share one memory on this device: what the host uses is missing from the GPU's free memory",
        why="Page cache and tables of the host move the figures from one start to the next.",
        evidence=cite(found, case.opening),
    )
