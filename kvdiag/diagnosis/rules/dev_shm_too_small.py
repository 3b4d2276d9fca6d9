"""/dev/shm is full.

What it sees
    An error while a shared memory segment is created in /dev/shm, a bus error outside the reading of weights (also as
    an exit code, -7 or 135), or "No space left on device" without a path.
Why it matters
    Communicators and loaders share data there. Containers get 64 MiB unless told otherwise.
What to do
    --shm-size, --ipc=host, or a memory volume for the pod. Where no path is named, look at both: `df /dev/shm` and
    `df` of the caches. It is not a kernel's shared memory, and no GPU is short.
Sources
    NCCL, "Troubleshooting: shared memory"; container runtimes' documentation.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.platform import SharedMemoryFull
from kvdiag.diagnosis.rules._pricing import starting_value
from kvdiag.diagnosis.rules.judgements import ranks_of
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    signs = case.launch.each(SharedMemoryFull)
    in_file = any(e.in_weight_file for e in signs)  # then a parent's exit code tells of the same bus error
    found = [e for e in signs if not (in_file and e.by_signal)]
    if not found:
        return
    unclear = all(e.or_disk for e in found)
    told = [e for e in found if not e.by_signal and not e.or_disk]
    if told:
        summary = "/dev/shm is full: a shared memory segment could not be created"
    elif not unclear:
        summary = "A bus error: most likely /dev/shm is full, and a shared memory segment could not grow"
    else:
        summary = "No space left on a device: /dev/shm or the disk; the log does not say which"
    yield Finding(
        summary=summary,
        why="It is the container's shared memory, not the GPU's and not a kernel's.",
        ranks=ranks_of(found[:64]),
        evidence=cite(*found[:2], figure="size", value=found[0].size),
        remedies=(
            Remedy(
                "--shm-size",
                Direction.RAISE,
                to=None if unclear else "32g",
                cost="It costs host memory, as far as it is used.",
                note="Only where `df /dev/shm` shows it full; otherwise make room on the disk."
                if unclear
                else starting_value("what communicators of eight ranks take with room to spare", "df /dev/shm"),
            ),
            Remedy(
                "--ipc", Direction.SET, to="host", cost="It costs the container's isolation from the host's segments."
            ),
        ),
        confidence=Confidence.CERTAIN if told else Confidence.POSSIBLE if unclear else Confidence.LIKELY,
    )
