"""Offload flags were accepted, but the plain GPU path holds the experts.

What it sees
    An offload flag in the command, a line that names the ordinary expert method, no line of an offload worker, and an
    overflow while loading.
Why it matters
    Everything is loaded onto the GPU after all. A smaller number of GPU experts changes nothing while the wrapper is
    not active.
What to do
    Use a build in which the wrapper is active, and check that it supports the checkpoint's format.
Sources
    SGLang, layers/quantization; the offload wrappers' own documentation.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.outcome import Stage
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules.rule import Case, Confidence, Finding, Severity, cite, rule


@rule(severity=Severity.CRITICAL, unless=(judgements.without_offload,))
def check(case: Case) -> Iterator[Finding]:
    method, sign = judgements.ordinary_path(case), judgements.memory_ran_out(case)
    if method is None or sign is None or judgements.stage(case, sign) is not Stage.WEIGHTS:
        return
    yield Finding(
        summary=f"Offload is asked for, but {method.method} loads the experts onto the GPU",
        why="Keeping fewer experts on the GPU changes nothing while the wrapper is not active.",
        evidence=cite(method, sign),
        confidence=Confidence.LIKELY,
    )
