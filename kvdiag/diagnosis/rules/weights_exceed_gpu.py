"""The weights physically do not fit while they load.

What it sees
    An overflow of the device before the target's "Load weight end", with nearly everything allocated and little
    reserved.
Why it matters
    The server cannot start on these cards in this layout. --mem-fraction-static plays no part before the pool.
What to do
    More GPUs, offload to the host, or a smaller weight format.
Sources
    SGLang, model_runner.py: load_model(); PyTorch, CUDACachingAllocator.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.overflow import DeviceOutOfMemory
from kvdiag.diagnosis.events.weights import WeightsLoaded
from kvdiag.diagnosis.outcome import Stage
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import knob, more_ranks, smaller_weights
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import format_gib, to_gib


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    sign = judgements.memory_ran_out(case)
    unmapped = judgements.unmapped_in_load(case) if sign is None else []
    if unmapped:
        yield Finding(
            summary="The weights do not fit on the GPU while they load: the memory saver found no page for them",
            why="It happened before the pool is sized, so that --mem-fraction-static has no effect on it.",
            ranks=judgements.ranks_of(unmapped[:64]),
            evidence=cite(*unmapped[:2]) + cite(case.opening),
            remedies=_remedies(case),
            confidence=Confidence.LIKELY,
        )
    if sign is None or judgements.is_trainers(case, sign) or judgements.is_draft_start(case, sign):
        return
    if judgements.stage(case, sign) is not Stage.WEIGHTS:
        return
    if any(judgements.is_before(e.line, sign.line) and e.rank == sign.rank for e in case.launch.each(WeightsLoaded)):
        return
    oom = sign if isinstance(sign, DeviceOutOfMemory) else None
    if oom is not None and _is_little(case, oom):
        return  # another process holds the card, and has a rule of its own
    if judgements.keeps_experts(case) and judgements.ordinary_path(case) is None:
        return  # the number of experts kept on the GPU is the cause, and has a rule of its own
    filled = ""
    if oom is not None and oom.allocated is not None and oom.capacity is not None:
        filled = f": {format_gib(oom.allocated)} of {format_gib(oom.capacity)} were allocated when it stopped"
    yield Finding(
        summary=f"The weights do not fit on the GPU while they load{filled}",
        why="It happened before the pool is sized, so that --mem-fraction-static has no effect on it.",
        ranks=judgements.ranks_of(judgements.overflows(case)[:64]),
        evidence=cite(sign, figure="tried_gib", value=to_gib(oom.tried, 4) if oom is not None else None)
        + cite(case.opening),
        remedies=_remedies(case),
        part_of=_cause(case, oom),
        confidence=Confidence.CERTAIN if oom is not None else _unseen(case),
        stake=to_gib(oom.tried if oom is not None else None) or 0.0,
    )


def _is_little(case: Case, oom: DeviceOutOfMemory) -> bool:
    """Whether this process held too little of the card to say that the weights are what does not fit."""
    if oom.allocated is None or oom.capacity is None or judgements.foreign_memory(case, oom) is None:
        return False
    return oom.allocated < case.thresholds.weights_near_limit * oom.capacity


def _unseen(case: Case) -> Confidence:
    """How sure it is where the error names no figure: less where the checkpoint's share would fit with ease."""
    share, opening = judgements.checkpoint_share(case), case.opening_size
    fits = share is not None and opening is not None and share < case.thresholds.weights_near_limit * opening / 2
    return Confidence.POSSIBLE if fits else Confidence.LIKELY


def _cause(case: Case, oom: DeviceOutOfMemory | None) -> str:
    """What fills the card beside weights that would fit, or makes them so large; "" where it is they alone."""
    if judgements.ordinary_path(case) is not None:
        return "cpu-offload-not-active"
    if judgements.shared_start(case) is not None or judgements.sharing_ranks(case) is not None:
        return "two-ranks-one-gpu"
    return "other-process-on-gpu" if oom is not None and judgements.foreign_memory(case, oom) is not None else ""


def _remedies(case: Case) -> tuple[Remedy, ...]:
    return (
        more_ranks(case),
        smaller_weights(case),
        knob(
            case,
            "--cpu-offload-gb",
            Direction.SET,
            cost="It costs speed: offloaded layers cross the bus each step.",
        ),
    )
