"""The host tier needs buffers on the GPU.

What it sees
    An overflow right after the host pools are set up, before the server is ready, with a page size of 1.
Why it matters
    Tokens are gathered on the GPU before they are copied; those buffers come out of what the fraction leaves.
What to do
    A larger --page-size, or a lower fraction.
Sources
    SGLang, issue 5372; managers/cache_controller.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.host_memory import HostPool
from kvdiag.diagnosis.events.ready import FiredUp
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import knob, lower_fraction, remedies, starting_value
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import to_gib


@rule(severity=Severity.CRITICAL, unless=(judgements.without_host_tier,))
def check(case: Case) -> Iterator[Finding]:
    sign, pool = judgements.memory_ran_out(case), case.launch.last(HostPool)
    if sign is None or pool is None or not judgements.is_before(pool.line, sign.line):
        return
    last = case.launch.series.last
    if case.launch.has(FiredUp) or (last is not None and judgements.is_before(last.line, sign.line)):
        return
    if (case.launch.number_of("page_size") or 1) > 1:
        return
    tried = getattr(sign, "tried", None)
    yield Finding(
        summary="The host tier's transfer buffers on the GPU do not fit",
        evidence=cite(pool, sign, figure="tried_gib", value=to_gib(tried, 4)),
        remedies=remedies(
            knob(
                case,
                "--page-size",
                Direction.RAISE,
                to="64",
                cost="It costs some reuse of short prefixes.",
                note=starting_value("the page most backends take", "that the start goes past the host tier"),
            ),
            lower_fraction(case, tried),
        ),
        confidence=Confidence.LIKELY,
    )
