"""The image encoder's work does not fit beside the pool.

What it sees
    An overflow in a frame of the visual module.
Why it matters
    Images are encoded outside the pool, and a large one needs GiB at once.
What to do
    Lower the fraction; or, where that would cost much of the pool, encode fewer images in one pass and shrink large
    ones.
Sources
    SGLang, managers/mm_utils.py; models with a vision tower.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import knob, lower_fraction, remedies
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import Bytes, format_gib, to_gib

_DEAR = 0.2  # of the pool, or a tenth of the card where the pool is not known
_SINCE = "0.5.7"  # limits of the encoder's passes; the processor's are one release older


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    sign = judgements.memory_ran_out(case)
    if sign is None or judgements.site(case, sign) != "vision" or judgements.is_trainers(case, sign):
        return
    if judgements.stage(case, sign) == "weights":
        return
    tried = getattr(sign, "tried", None)
    missing = judgements.shortage(case, sign)
    lower = lower_fraction(case, missing)
    limits = _limits_of_images(case)
    yield Finding(
        summary="Encoding an image overflows" + ("" if tried is None else f": {format_gib(tried)} were asked for"),
        why="The encoder works outside the pool, in what the fraction leaves.",
        ranks=judgements.ranks_of(judgements.overflows(case)[:64]),
        evidence=cite(sign, figure="tried_gib", value=to_gib(tried, 4)),
        remedies=remedies(*limits, lower) if _is_dear(case, lower, missing) else remedies(lower, *limits),
        confidence=Confidence.LIKELY,
        stake=to_gib(tried) or 0.0,
    )


def _is_dear(case: Case, lower: Remedy | None, missing: Bytes | None) -> bool:
    """Whether room for the encoder would take a large part of the pool: most is free of cost by smaller passes."""
    tokens = None if lower is None else lower.effect.get("kv_tokens")
    if tokens is not None and tokens.before and tokens.after is not None:
        return tokens.before - tokens.after > _DEAR * tokens.before
    whole = case.opening_size or case.card
    return missing is not None and bool(whole) and 2 * missing > _DEAR * (whole or 0)


def _limits_of_images(case: Case) -> tuple[Remedy, ...]:
    """What makes the encoder's passes smaller, in the releases that have it."""
    if case.launch.releases.reaches(_SINCE) is False:
        return ()
    patches = "SGLANG_VLM_MAX_PATCHES_PER_VIT"
    now = case.launch.value(patches)
    return (
        Remedy(
            patches,
            Direction.LOWER if now else Direction.SET,
            before=str(now) if now else None,
            cost="It costs time: the images of a batch are encoded in several passes.",
            note="Not every model has it, and no single image is divided.",
        ),
        knob(
            case,
            "--mm-process-config",
            Direction.SET,
            cost="It costs detail: images with more pixels are scaled down.",
            note="With max_pixels of images: for one large image, which no pass is divided for.",
        ),
    )
