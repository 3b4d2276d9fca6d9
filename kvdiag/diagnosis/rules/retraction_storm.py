"""The pool is full: requests are pushed back and computed again.

What it sees
    "Retract requests" again and again.
Why it matters
    Work is thrown away and repeated; throughput collapses. The GPU has not overflowed.
What to do
    Fewer running requests, a higher --schedule-conservativeness, more tokens, or a host tier.
Sources
    SGLang, scheduler.py: update_running_batch().
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules._pricing import fewer_requests, host_tier, knob, more_conservative, raise_by_room, remedies
from kvdiag.diagnosis.rules.judgements import (
    cap,
    fraction_limits_pool,
    may_raise_fraction,
)
from kvdiag.diagnosis.rules.rule import Case, Direction, Evidence, Finding, Severity, cite, rule
from kvdiag.diagnosis.traffic import retractions_of


@rule(severity=Severity.WARNING)
def check(case: Case) -> Iterator[Finding]:
    found = retractions_of(case.launch)
    pushed = found.requests + found.untold
    if found.times < case.thresholds.retractions:
        return
    series = case.launch.series
    at = "" if series.peak_running is None else f", with up to {series.peak_running} running"
    yield Finding(
        summary=f"Requests were pushed back {found.times} times ({pushed} requests){at}: the KV pool is too"
        " small for them",
        why="Pushed-back requests are computed again. It is pressure on tokens, not an overflow of the GPU.",
        evidence=cite(found.events[0], found.events[-1])
        + ((Evidence(series.last.line),) if series.last is not None else ()),
        remedies=remedies(
            fewer_requests(case),
            more_conservative(case),
            host_tier(case),
            knob(case, "--max-total-tokens", Direction.RAISE, cost="It costs the memory of the added tokens.")
            if cap(case) is not None
            else None,
            raise_by_room(case) if fraction_limits_pool(case) and may_raise_fraction(case) else None,
        ),
    )
