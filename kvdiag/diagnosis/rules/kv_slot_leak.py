"""Slots of the pool are lost in a faulty version.

What it sees
    SGLang's leak message, or a use that does not return to 0 with nothing running and the prefix cache off.
Why it matters
    The pool shrinks until nothing is admitted. More memory only delays it.
What to do
    Another version; check for evictable entries of the prefix cache first, which are no leak.
Sources
    SGLang, scheduler.py: check_memory().
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.requests import SlotLeak
from kvdiag.diagnosis.rules.judgements import ranks_of
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Evidence, Finding, Remedy, Severity, cite, rule


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    said = case.launch.each(SlotLeak)
    upgrade = Remedy("upgrade", Direction.SET, to="another version", cost="It costs an upgrade.")
    if said:
        yield Finding(
            summary="SGLang reports that slots of the pool belong to no request",
            why="It is a fault of the accounting: more memory only delays the end.",
            ranks=ranks_of(said[:64]),
            evidence=cite(*said[:2]),
            remedies=(upgrade,),
        )
        return
    last = case.launch.series.last
    if last is None or case.launch.value("disable_radix_cache") is not True:
        return
    if last.running == 0 and last.queued == 0 and (last.usage or 0) > case.thresholds.usage_idle:
        yield Finding(
            summary=f"With nothing running and the prefix cache off, {100 * (last.usage or 0):.0f} % of the"
            " pool stay in use",
            evidence=(Evidence(last.line, "token usage", last.usage),),
            remedies=(upgrade,),
            severity=Severity.WARNING,
            confidence=Confidence.POSSIBLE,
        )
