"""The process that overflowed is not the engine.

What it sees
    An overflow printed by a trainer's process, or beside its lines only.
Why it matters
    The engine's flags do not act on it.
What to do
    Look at the other program's own settings.
Sources
    The process names that a trainer's launcher prints before each line.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.platform import MemorySaver, TrainerLine
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules.rule import Case, Confidence, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import to_gib


@rule(severity=Severity.CRITICAL, unless=(judgements.without_trainer,))
def check(case: Case) -> Iterator[Finding]:
    for oom in judgements.overflows(case):
        if not judgements.is_trainers(case, oom):
            continue
        speaker = case.launch.first(TrainerLine, MemorySaver)
        who = judgements.trainer_beside(case, oom) or "a trainer"
        yield Finding(
            summary=f"The process that overflowed is {who}, not the serving engine",
            why="--mem-fraction-static and the allocator's settings of the engine do not act on it.",
            evidence=cite(oom, speaker, figure="tried_gib", value=to_gib(oom.tried, 4)),
            confidence=Confidence.LIKELY,
        )
        return
