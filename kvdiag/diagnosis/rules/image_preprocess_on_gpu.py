"""Image tensors are made on GPU 0 by helper processes.

What it sees
    An overflow in a frame of the fast image processor.
Why it matters
    GPU 0 grows while images come in. Limits of the encoder do not act on it.
What to do
    --disable-fast-image-processor, which is slower; leave room on GPU 0.
Sources
    SGLang, multimodal/processors/base_processor.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import knob, lower_fraction, remedies
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import to_gib


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    sign = judgements.memory_ran_out(case)
    if sign is None or "image_processor" not in judgements.sites(case, sign):
        return
    tried = getattr(sign, "tried", None)
    yield Finding(
        summary="Images are prepared on the GPU by a helper process, and that overflows",
        why="The fast image processor works on GPU 0, outside the pool and outside the encoder's limits.",
        evidence=cite(sign, figure="tried_gib", value=to_gib(tried, 4)),
        remedies=remedies(
            knob(
                case,
                "--disable-fast-image-processor",
                Direction.SET,
                cost="It costs speed: images are prepared on the host.",
            ),
            lower_fraction(case, tried),
        ),
        confidence=Confidence.LIKELY,
    )
