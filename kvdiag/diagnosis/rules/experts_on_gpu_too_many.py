"""More experts are kept on the GPU than it can hold.

What it sees
    A number of GPU experts in the command, and an overflow while the weights load, with the offload wrapper active.
Why it matters
    The server does not start: the experts that stay on the card do not fit beside the rest.
What to do
    Keep fewer experts on the GPU.
Sources
    The offload wrapper's documentation on expert placement.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.outcome import Stage
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import knob
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Severity, cite, rule

_FLAG = "kt_num_gpu_experts"


@rule(severity=Severity.CRITICAL, unless=(judgements.without_offload,))
def check(case: Case) -> Iterator[Finding]:
    sign = judgements.memory_ran_out(case)
    if not judgements.keeps_experts(case) or sign is None or judgements.ordinary_path(case) is not None:
        return
    if judgements.stage(case, sign) is not Stage.WEIGHTS or judgements.is_draft_start(case, sign):
        return
    yield Finding(
        summary=f"{case.launch.number_of(_FLAG):g} experts a layer on the GPU do not fit beside the other weights",
        evidence=cite(sign),
        remedies=(
            knob(
                case,
                "--kt-num-gpu-experts",
                Direction.LOWER,
                cost="It costs speed: more experts are computed on the host.",
            ),
        ),
        confidence=Confidence.LIKELY,
    )
