"""A desktop holds memory of the card.

What it sees
    A desktop's process in the log, and free memory before loading one or two GiB short of the card.
Why it matters
    The desktop needs its share while images move: what is free at the end may be its own.
What to do
    Lower the fraction, or run without a desktop.
Sources
    nvidia-smi: processes of type G.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.platform import DesktopOnGPU
from kvdiag.diagnosis.rules._pricing import lower_fraction, remedies
from kvdiag.diagnosis.rules.judgements import held_by
from kvdiag.diagnosis.rules.rule import Case, Confidence, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import Bytes, format_gib, to_gib


@rule(severity=Severity.ADVICE)
def check(case: Case) -> Iterator[Finding]:
    found, held = case.launch.first(DesktopOnGPU), held_by(case)
    if found is None or (held is not None and held < case.thresholds.desktop_least):
        return
    size = "memory" if held is None else f"about {format_gib(held)}"
    yield Finding(
        summary=f"A desktop ({found.program}) holds {size} of the card",
        evidence=cite(found, case.opening),
        remedies=remedies(lower_fraction(case, None if held is None else Bytes(held))),
        confidence=Confidence.LIKELY,
        stake=to_gib(held) or 0.0,
    )
