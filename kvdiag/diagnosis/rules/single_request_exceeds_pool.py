"""The last running request cannot grow: it alone is larger than the pool.

What it sees
    "No space left for only one request", or that the last request was aborted after all others were pushed back.
Why it matters
    Older releases end the server; newer ones abort the request.
What to do
    Limit the output of a request, or enlarge the pool. Where the window pool alone is full, give it a larger share.
Sources
    SGLang, schedule_batch.py: retract_decode().
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.requests import LastRequestDoesNotFit
from kvdiag.diagnosis.events.serving import DecodeBatch, PrefillBatch
from kvdiag.diagnosis.rules._pricing import eight_bit_kv, knob, raise_by_room, remedies
from kvdiag.diagnosis.rules.judgements import (
    fraction_limits_pool,
    is_before,
    is_eight_bit,
    may_raise_fraction,
    ranks_of,
)
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Evidence, Finding, Remedy, Severity, cite, rule


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    found = case.launch.each(LastRequestDoesNotFit)
    if not found:
        return
    window = _full_window(case, found[0])
    if window is not None:
        used, other = 100 * (window.swa_usage or 0), 100 * (window.usage or 0)
        yield Finding(
            summary=f"The only request left cannot grow: the window pool is full ({used:.0f} %) while the"
            f" full-attention pool stands at {other:.0f} %",
            why="The GPU has not overflowed. The window's share of the pools is too small for it.",
            ranks=ranks_of(found[:64]),
            evidence=cite(*found[:2]) + (Evidence(window.line, "swa token usage", window.swa_usage),),
            remedies=(
                knob(
                    case,
                    "--swa-full-tokens-ratio",
                    Direction.RAISE,
                    cost="It costs full-attention tokens: both pools share one budget.",
                ),
            ),
            confidence=Confidence.LIKELY,
            severity=Severity.WARNING if all(e.survives for e in found) else None,
        )
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


def _full_window(case: Case, event: LastRequestDoesNotFit) -> DecodeBatch | PrefillBatch | None:
    """The last batch before a request was given up, where its window pool is full and the other is not."""
    before = [p for p in case.launch.series.points if p.usage is not None and not is_before(event.line, p.line)]
    last = before[-1] if before else None
    if last is None or last.swa_usage is None or last.usage is None:
        return None
    full = case.thresholds.usage_high
    return last if last.swa_usage >= full > last.usage else None
