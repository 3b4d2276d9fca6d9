"""The engine maps its pages before the trainer has freed its own.

What it sees
    The memory saver fails to create pages while the engine resumes.
Why it matters
    Both share the card: the order of the calls decides, not the sizes.
What to do
    Release the trainer's memory first, then resume the engine.
Sources
    torch_memory_saver; SGLang, resume_memory_occupation.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules.rule import Case, Confidence, Finding, Severity, cite, rule


@rule(severity=Severity.CRITICAL, unless=(judgements.without_trainer,))
def check(case: Case) -> Iterator[Finding]:
    found = judgements.unmapped_in_resume(case)
    if not found:
        return
    yield Finding(
        summary="The engine could not map its pages again: the trainer had not yet freed its own",
        why="It is the order of the calls; a lower fraction hides it at best.",
        ranks=tuple(dict.fromkeys(e.rank for e in found)),
        evidence=cite(*found[:3]),
        confidence=Confidence.LIKELY,
    )
