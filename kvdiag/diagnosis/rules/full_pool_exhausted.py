"""The full-attention pool is at its end.

What it sees
    A batch line with a token usage of 1.00.
Why it matters
    No token is left: running requests wait, or are pushed back and computed again.
What to do
    Fewer running requests, more tokens, or a host tier.
Sources
    SGLang, scheduler_metrics_mixin.py: the batch lines.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.serving import DecodeBatch, Retraction
from kvdiag.diagnosis.rules._pricing import fewer_requests, host_tier, remedies
from kvdiag.diagnosis.rules.judgements import fullest
from kvdiag.diagnosis.rules.rule import Case, Evidence, Finding, Severity, rule


@rule(severity=Severity.WARNING)
def check(case: Case) -> Iterator[Finding]:
    batch = fullest(case)
    if batch is None or batch.usage is None or batch.usage < case.thresholds.usage_full:
        return
    idle_window = batch.swa_usage is not None and batch.swa_usage < case.thresholds.swa_idle
    held = (batch.preallocated_usage if isinstance(batch, DecodeBatch) else None) or 0.0
    promised = held >= batch.usage / 2  # a decode node keeps room for requests whose KV still arrives
    several = "s" if batch.running != 1 else ""
    yield Finding(
        summary=f"The KV pool is full (usage {batch.usage:.2f})"
        + (f" at {batch.running} running request{several}" if batch.running else "")
        + (f": {held:.2f} of it is kept for requests that still arrive" if promised else ""),
        why="The GPU has not overflowed: the pool's tokens are all in use.",
        evidence=(Evidence(batch.line, "token usage", batch.usage),),
        severity=Severity.WARNING if idle_window or case.launch.has(Retraction) else Severity.ADVICE,
        remedies=remedies(
            fewer_requests(case) if batch.running != 1 or promised else None,  # one cannot be fewer
            host_tier(case),
        ),
    )
