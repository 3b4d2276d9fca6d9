"""Ranks finish reading the checkpoint at different times, and a fixed wait runs out.

What it sees
    "there are other ranks that didn't finish loading", and no overflow anywhere in the log.
Why it matters
    The message suggests an overflow. Without one, a slow disk, a cold cache or a slow node is what is left.
What to do
    Read the checkpoint from local or cached storage, or raise --dist-timeout.
Sources
    SGLang, model_runner.py: load_model(), the barrier after loading (0.4.3 and later).
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules._pricing import knob, starting_value
from kvdiag.diagnosis.rules.judgements import ranks_of, slow_load
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Severity, cite, rule


@rule(severity=Severity.CRITICAL, releases="0.4.3..")
def check(case: Case) -> Iterator[Finding]:
    waits = slow_load(case)
    if not waits:
        return
    yield Finding(
        summary="A rank waited for the others to finish loading, and the wait ran out; nothing in the log overflowed",
        why='SGLang\'s line says "e.g., OOM", but no rank of this log reports one: a slow disk or node is as likely.',
        ranks=ranks_of(waits),
        evidence=cite(*waits[:4]),
        remedies=(
            knob(
                case,
                "--dist-timeout",
                Direction.RAISE,
                to="3600",
                cost="It costs time: a rank that really died is noticed later.",
                note=starting_value("an hour", 'which rank prints its "Load weight end" last, and when'),
            ),
        ),
        confidence=Confidence.LIKELY,
    )
