"""A kernel needs more on-chip memory than the GPU has.

What it sees
    "out of resource: shared memory, Required: A, Hardware limit: B".
Why it matters
    It speaks of memory, but of a multiprocessor's own, some tens or hundreds of KiB. Neither the fraction nor
    /dev/shm has anything to do with it.
What to do
    Another attention backend, or a build with smaller tiles for this card.
Sources
    Triton, runtime/errors.py: OutOfResources.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.libraries import KernelResourceShort
from kvdiag.diagnosis.rules._pricing import knob
from kvdiag.diagnosis.rules.judgements import ranks_of
from kvdiag.diagnosis.rules.rule import Case, Direction, Finding, Remedy, Severity, cite, rule


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    found = case.launch.each(KernelResourceShort)
    if not found:
        return
    first = found[0]
    # Threads, registers and columns of tensor memory are counted otherwise.
    unit = " bytes" if first.resource in ("shared memory", None) else ""
    figures = f": {first.required:,}{unit} against {first.limit:,}" if first.required and first.limit else ""
    yield Finding(
        summary=f"A kernel needs more {first.resource or 'on-chip memory'} than this GPU has{figures}",
        why="It is memory of a multiprocessor, not of the device: the fraction and /dev/shm play no part.",
        ranks=ranks_of(found[:64]),
        evidence=cite(*found[:2], figure="required", value=first.required),
        remedies=(
            knob(case, "--attention-backend", Direction.SET, cost="It costs a comparison of speed between backends."),
            Remedy("upgrade", Direction.SET, to="a build with tiles for this card", cost="It costs an upgrade."),
        ),
    )
