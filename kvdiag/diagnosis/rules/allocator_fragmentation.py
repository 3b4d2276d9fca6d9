"""The allocator holds enough memory unused, but not in one piece.

What it sees
    Reserved-but-unallocated memory that covers the request, and no setting that lets segments grow.
Why it matters
    The request failed although the process held enough: the pieces are too small.
What to do
    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (PYTORCH_HIP_… or PYTORCH_NPU_ALLOC_CONF on those devices). Only
    then: the hint is printed in every message.
Sources
    PyTorch, "CUDA semantics: memory management".
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.overflow import DeviceOutOfMemory
from kvdiag.diagnosis.outcome import Stage
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._formulas import gib, worked
from kvdiag.diagnosis.rules._pricing import lower_fraction, remedies
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import format_gib, to_gib

_OF_ROCM = 'Many builds for ROCm lack it: they print "expandable_segments not supported on this platform" and go on.'
_VARIABLES = {"NPU": "PYTORCH_NPU_ALLOC_CONF", "HIP": "PYTORCH_HIP_ALLOC_CONF"}


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    oom = judgements.fragmented(case)
    held = None if oom is None else judgements.held_unused(oom)
    if oom is None or held is None or oom.tried is None:
        return
    yield Finding(
        summary=f"{format_gib(held)} lay reserved but unused when {format_gib(oom.tried)} were asked for",
        why="The allocator held enough, but not in one piece.",
        formula=worked("reserved but unallocated ≥ asked for", f"{gib(held)} ≥ {gib(oom.tried)}"),
        ranks=(oom.rank,),
        evidence=cite(oom, figure="reserved_unallocated_gib", value=to_gib(held, 4)),
        remedies=remedies(
            Remedy(
                _VARIABLES.get(oom.device or "", "PYTORCH_CUDA_ALLOC_CONF"),
                Direction.SET,
                to="expandable_segments:True",
                cost="It costs a little speed, and does not go together with every memory saver.",
                note=_OF_ROCM if oom.device == "HIP" else "",
            ),
            lower_fraction(case, oom.tried) if oom.device == "HIP" and not _is_before_the_pool(case, oom) else None,
        ),
        confidence=Confidence.LIKELY,
        severity=Severity.WARNING if judgements.capture_overflow(case) is not None else Severity.CRITICAL,
        stake=to_gib(oom.tried) or 0.0,
    )


def _is_before_the_pool(case: Case, oom: DeviceOutOfMemory) -> bool:
    return judgements.stage(case, oom) in (Stage.ARGUMENTS, Stage.DISTRIBUTED, Stage.WEIGHTS)
