"""A new release changed a default, and the same command leaves another amount of memory.

What it sees
    Two starts of the upload with the same given arguments, different releases, and different free memory at the end.
Why it matters
    Nothing in the command explains the change: graph sizes or reserves have another default.
What to do
    Name the changed default and set it.
Sources
    SGLang, server_args.py: defaults by release.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules.judgements import known_release
from kvdiag.diagnosis.rules.rule import Case, Confidence, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import format_gib, to_gib


@rule(severity=Severity.INFO, unless=(judgements.without_earlier_start,))
def check(case: Case) -> Iterator[Finding]:
    now, given = known_release(case), _given(case)
    if now is None or not given or case.free_at_end is None:
        return
    for before in reversed(case.earlier):
        then = known_release(before)
        if then is None or then == now or before.free_at_end is None or _given(before) != given:
            continue
        change = case.free_at_end.available - before.free_at_end.available
        if abs(change) < case.thresholds.default_moved:
            return
        yield Finding(
            summary=f"The same command leaves {format_gib(case.free_at_end.available)} with {now} and"
            f" {format_gib(before.free_at_end.available)} with {then}",
            evidence=cite(case.free_at_end, before.free_at_end),
            confidence=Confidence.LIKELY,
            stake=abs(to_gib(change) or 0.0),
        )
        return


def _given(case: Case) -> dict[str, object]:
    return {name: argument.value for name, argument in case.launch.arguments.items() if argument.origin == "given"}
