"""The trainer's tensor over the whole vocabulary does not fit.

What it sees
    An overflow in a trainer's process that asks for many GiB at once.
Why it matters
    It is the training step, not the engine: tokens × vocabulary × bytes of the logits.
What to do
    Fewer tokens on each GPU in the trainer. The engine's flags do not act on it.
Sources
    The trainer's own documentation on tokens per GPU.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.platform import OTHER_ENGINES
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import format_gib, to_gib


@rule(severity=Severity.CRITICAL, unless=(judgements.without_trainer,))
def check(case: Case) -> Iterator[Finding]:
    for oom in judgements.overflows(case):
        if not judgements.is_trainers(case, oom) or (oom.tried or 0) < case.thresholds.trainer_request:
            continue
        if (judgements.trainer_beside(case, oom) or "").startswith(OTHER_ENGINES):
            continue
        yield Finding(
            summary=f"The trainer asks for {format_gib(oom.tried or 0)} at once: its logits over the whole vocabulary",
            why="They take tokens × vocabulary × bytes. The training step overflows: no flag of the engine acts on it.",
            evidence=cite(oom, figure="tried_gib", value=to_gib(oom.tried, 4)),
            remedies=(
                Remedy("max-tokens-per-gpu", Direction.LOWER, cost="It costs training speed: smaller micro-batches."),
            ),
            confidence=Confidence.LIKELY,
            stake=to_gib(oom.tried) or 0.0,
        )
        return
