"""The engine maps its pages before the trainer has freed its own.

What it sees
    The memory saver fails to create pages while the engine resumes, or at its start beside a trainer.
Why it matters
    Both share the card: the order of the calls decides, not the sizes.
What to do
    Release the trainer's memory first, then resume the engine. At its start a lower fraction may do as well.
Sources
    torch_memory_saver; SGLang, resume_memory_occupation.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.failure import SchedulerDead
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import TRAINER_OFFLOAD, lower_fraction, remedies
from kvdiag.diagnosis.rules.rule import Case, Confidence, Finding, Severity, cite, rule


@rule(severity=Severity.CRITICAL, unless=(judgements.without_trainer,))
def check(case: Case) -> Iterator[Finding]:
    found = judgements.unmapped_in_resume(case)
    if not found:
        return
    dead = case.launch.first(SchedulerDead)
    at_start = dead is not None and not case.is_ready and judgements.is_before(found[0].line, dead.line)
    if at_start:
        summary = (
            "The engine could not map its pages at its start: a trainer, or what else runs there, holds the memory"
        )
        why = (
            "What was free when the pool was sized is free no more, or the fraction leaves too little beside the rest."
        )
    else:
        summary = "The engine could not map its pages again: the trainer had not yet freed its own"
        why = "It is the order of the calls; a lower fraction hides it at best."
    yield Finding(
        summary=summary,
        why=why,
        ranks=tuple(dict.fromkeys(e.rank for e in found)),
        evidence=cite(*found[:3], dead if at_start else None),
        remedies=remedies(TRAINER_OFFLOAD, lower_fraction(case, None) if at_start else None),
        confidence=Confidence.LIKELY,
    )
