"""The words speak of memory, but of another kind than the device's.

What it sees
    A kernel's on-chip memory, the container's /dev/shm, or a wait for a slow rank that names an overflow as a guess.
Why it matters
    Advice on GPU memory does not apply.
What to do
    What the finding that it belongs to says.
Sources
    The sources of that finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.libraries import KernelResourceShort
from kvdiag.diagnosis.events.pattern import Event
from kvdiag.diagnosis.events.platform import SharedMemoryFull
from kvdiag.diagnosis.rules.judgements import memory_ran_out, slow_load
from kvdiag.diagnosis.rules.rule import Case, Finding, Severity, cite, rule


@rule(severity=Severity.INFO)
def check(case: Case) -> Iterator[Finding]:
    if memory_ran_out(case) is not None:
        return
    signs: list[tuple[list[Event], str, str]] = [
        (list(case.launch.each(KernelResourceShort)), "kernel-shared-memory-limit", "a multiprocessor's own memory"),
        (list(case.launch.each(SharedMemoryFull)), "dev-shm-too-small", "the container's shared memory"),
        (list(slow_load(case)), "slow-rank-in-load", "a wait that ran out"),
    ]
    for found, cause, what in signs:
        if found:
            yield Finding(
                summary=f"It is {what}; GPU memory is not short",
                evidence=cite(*found[:1]),
                part_of=cause,
            )
            return
