"""The driver layer under Windows holds memory that no query shows.

What it sees
    A Linux under Windows (or its impossible "memory in use" of 17179869184 GiB), and an allocation that fails although
    enough is shown as free.
Why it matters
    Free memory proves nothing there. expandable_segments may break.
What to do
    Smaller single buffers, or a native system.
Sources
    PyTorch's message under WSL; NVIDIA, "CUDA on WSL".
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.overflow import DeviceOutOfMemory
from kvdiag.diagnosis.events.platform import WindowsSubsystem
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import knob
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import GIB

IMPOSSIBLE = 1_000_000 * GIB


@rule(severity=Severity.WARNING)
def check(case: Case) -> Iterator[Finding]:
    sign = judgements.memory_ran_out(case)
    if sign is None:
        return
    oom = sign if isinstance(sign, DeviceOutOfMemory) else None
    under = case.launch.first(WindowsSubsystem)
    absurd = oom is not None and (oom.in_use or 0) > IMPOSSIBLE
    if under is None and not absurd:
        return
    enough = oom is not None and oom.tried is not None and oom.free is not None and oom.free >= oom.tried
    over = oom is not None and oom.allocated is not None and oom.capacity is not None and oom.allocated > oom.capacity
    state = "mamba_pool" in judgements.sites(case, sign)
    if not (enough or over or state):
        return
    yield Finding(
        summary="An allocation fails although enough is shown as free: the driver under Windows holds"
        " memory out of sight",
        evidence=cite(under, sign),
        remedies=(
            *(
                (
                    knob(case, "--max-mamba-cache-size", Direction.SET, cost="It costs state slots."),
                    knob(case, "--mamba-full-memory-ratio", Direction.LOWER, cost="It costs state slots."),
                )
                if state
                else ()
            ),
            Remedy("platform", Direction.SET, to="native Linux", cost="It costs a move of the installation."),
        ),
        confidence=Confidence.LIKELY,
    )
