"""The image encoder's work does not fit beside the pool.

What it sees
    An overflow in a frame of the visual module.
Why it matters
    Images are encoded outside the pool, and a large one needs GiB at once.
What to do
    Lower the fraction, or limit the patches of one pass.
Sources
    SGLang, managers/mm_utils.py; models with a vision tower.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import lower_fraction, remedies
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import format_gib, to_gib


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    sign = judgements.memory_ran_out(case)
    if sign is None or judgements.site(case, sign) != "vision" or judgements.is_trainers(case, sign):
        return
    if judgements.stage(case, sign) == "weights":
        return
    tried = getattr(sign, "tried", None)
    yield Finding(
        summary="Encoding an image overflows" + ("" if tried is None else f": {format_gib(tried)} were asked for"),
        why="The encoder works outside the pool, in what the fraction leaves.",
        ranks=judgements.ranks_of(judgements.overflows(case)[:64]),
        evidence=cite(sign, figure="tried_gib", value=to_gib(tried, 4)),
        remedies=remedies(
            lower_fraction(case, judgements.shortage(case, sign)),
            Remedy(
                "SGLANG_VLM_MAX_PATCHES_PER_VIT",
                Direction.SET,
                cost="It costs time: an image with more patches is encoded in several passes.",
            ),
        ),
        confidence=Confidence.LIKELY,
        stake=to_gib(tried) or 0.0,
    )
