"""The window pool is nearly empty while the full-attention pool is full.

What it sees
    A batch line with "full token usage: 1.00" and a "swa token usage" under 0.1.
Why it matters
    The window pool holds memory that the full pool could use.
What to do
    Lower --swa-full-tokens-ratio.
Sources
    SGLang, pool configurator of sliding-window models.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import knob
from kvdiag.diagnosis.rules.judgements import fullest
from kvdiag.diagnosis.rules.rule import Case, Direction, Evidence, Finding, Severity, rule


@rule(severity=Severity.WARNING, unless=(judgements.without_window,))
def check(case: Case) -> Iterator[Finding]:
    batch = fullest(case)
    if batch is None or batch.swa_usage is None or batch.usage is None:
        return
    if batch.usage < case.thresholds.usage_full or batch.swa_usage >= case.thresholds.swa_idle:
        return
    yield Finding(
        summary=f"The full-attention pool is full while the window pool stands at {100 * batch.swa_usage:.0f} %",
        why="Both come out of one budget: the window pool keeps what the full pool lacks.",
        evidence=(Evidence(batch.line, "swa token usage", batch.swa_usage),),
        remedies=(
            knob(
                case,
                "--swa-full-tokens-ratio",
                Direction.LOWER,
                cost="It costs window tokens: shared prefixes of window layers are kept for fewer requests.",
            ),
        ),
        part_of="",
    )
