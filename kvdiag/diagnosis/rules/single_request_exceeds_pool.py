"""The last running request cannot grow: it alone is larger than the pool.

What it sees
    "No space left for only one request", or that the last request was aborted after all others were pushed back.
Why it matters
    Older releases end the server; newer ones abort the request.
What to do
    Limit the output of a request, or enlarge the pool.
Sources
    SGLang, schedule_batch.py: retract_decode().
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.requests import LastRequestDoesNotFit
from kvdiag.diagnosis.rules._pricing import eight_bit_kv, knob, raise_by_room, remedies
from kvdiag.diagnosis.rules.judgements import fraction_limits_pool, is_eight_bit, may_raise_fraction, ranks_of
from kvdiag.diagnosis.rules.rule import Case, Direction, Finding, Remedy, Severity, cite, rule


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    found = case.launch.each(LastRequestDoesNotFit)
    if not found:
        return
    yield Finding(
        summary="The only request left cannot grow: it alone needs more tokens than the pool has",
        why="Nothing else runs any more that could be pushed back. The GPU has not overflowed, and nothing leaks.",
        ranks=ranks_of(found[:64]),
        evidence=cite(*found[:2]) + cite(case.limits, figure="kv_tokens", value=case.tokens),
        remedies=remedies(
            None if is_eight_bit(case) else eight_bit_kv(case),
            knob(case, "--context-length", Direction.LOWER, cost="It costs requests longer than the new length."),
            raise_by_room(case) if fraction_limits_pool(case) and may_raise_fraction(case) else None,
            None
            if found[0].survives
            else Remedy(
                "upgrade",
                Direction.SET,
                to="0.5.10 or later",
                cost="It costs an upgrade; then only the request is aborted.",
            ),
        ),
        severity=Severity.WARNING if all(e.survives for e in found) else None,
    )
