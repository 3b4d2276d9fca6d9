"""A foreign process holds memory of a card.

What it sees
    Free memory before loading far below the card's size, or an overflow's message that lists another process with
    several GiB.
Why it matters
    What it holds is missing from the budget, and from the slack while it grows.
What to do
    Stop it, or lower the fraction so that both fit.
Sources
    SGLang, model_runner.py: init_torch_distributed(); PyTorch, the list of processes in its message.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.overflow import DeviceOutOfMemory
from kvdiag.diagnosis.events.platform import is_of_a_job
from kvdiag.diagnosis.outcome import Stage
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._formulas import gib, worked
from kvdiag.diagnosis.rules._pricing import OTHERS, TRAINER_OFFLOAD, lower_fraction, remedies
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import format_gib, to_gib


@rule(severity=Severity.WARNING)
def check(case: Case) -> Iterator[Finding]:
    for oom in judgements.overflows(case):
        foreign = judgements.foreign_memory(case, oom)
        if foreign is None or judgements.is_trainers(case, oom) or judgements.unmapped_in_resume(case):
            continue  # the other process is the trainer, or it overflowed itself
        in_a_job = is_of_a_job(oom.line)
        yield Finding(
            summary=f"Another process holds {format_gib(foreign)} of GPU {oom.gpu if oom.gpu is not None else 0}",
            why="What it holds is missing from the budget and from the slack."
            + (" The engine runs within a training job, whose other workers share the GPU." if in_a_job else ""),
            ranks=(oom.rank,),
            evidence=cite(oom, figure="held_gib", value=to_gib(foreign, 4)),
            remedies=remedies(
                TRAINER_OFFLOAD
                if in_a_job
                else Remedy(OTHERS, Direction.REMOVE, cost="It costs the other program its GPU."),
                None if _is_before_the_pool(case, oom) else lower_fraction(case, judgements.shortage(case, oom)),
            ),
            severity=Severity.CRITICAL,
            confidence=Confidence.LIKELY,
            stake=to_gib(foreign) or 0.0,
        )
        return
    held, card = judgements.held_before_start(case), judgements.printed_card(case)
    if held is None or card is None or case.opening is None:
        return
    line = judgements.card_line(case)
    yield Finding(
        summary=f"{format_gib(held)} of the card were in use before loading:"
        f" {format_gib(case.opening.available)} were free",
        why="Another process, or what is left of a dead one, holds it. The budget is a share of what was free.",
        formula=worked(
            "card − free before loading − this process's own start",
            f"{gib(card)} − {gib(case.opening.available)} − {gib(card - case.opening.available - held)} = {gib(held)}",
        ),
        evidence=(*cite(line, figure="capacity_gib", value=to_gib(card, 4)), *cite(case.opening)),
        remedies=remedies(
            Remedy(OTHERS, Direction.REMOVE, cost="It costs the other program its GPU."),
            lower_fraction(case, None) if judgements.memory_ran_out(case) is not None else None,
        ),
        severity=Severity.ADVICE if case.is_ready else Severity.WARNING,
        confidence=Confidence.LIKELY,
        stake=to_gib(held) or 0.0,
    )


def _is_before_the_pool(case: Case, oom: DeviceOutOfMemory) -> bool:
    """Whether it overflowed while weights loaded: the fraction plays no part before the pool."""
    return judgements.stage(case, oom) in (Stage.ARGUMENTS, Stage.DISTRIBUTED, Stage.WEIGHTS)
