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

from collections.abc import Iterator, Sequence

from kvdiag.diagnosis.events.requests import SlotLeak
from kvdiag.diagnosis.rules.judgements import ranks_of
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Evidence, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import format_tokens


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    said = case.launch.each(SlotLeak)
    upgrade = Remedy("upgrade", Direction.SET, to="another version", cost="It costs an upgrade.")
    if said:
        yield Finding(
            summary=_what_is_lost(said),
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


def _what_is_lost(said: Sequence[SlotLeak]) -> str:
    """How many slots of which pool, where the lines print it."""
    for leak in said[:64]:
        states = leak.lost_states
        if not leak.lost and states is not None and states[0]:
            return _counted(*states, "state slots")
        if leak.lost and leak.total:
            return _counted(leak.lost, leak.total, _slots_of(leak.pool or ""))
    return "SGLang reports that slots of the pool belong to no request"


def _slots_of(pool: str) -> str:
    low = pool.lower()
    if "mamba" in low:
        return "state slots"
    if "req_to_token" in low or low == "memory pool":
        return "rows of the request table"
    return "slots of the window pool" if "swa" in low else "slots of the KV pool"


def _counted(lost: int, total: int, what: str) -> str:
    if lost > 0:
        return f"{format_tokens(lost)} of {format_tokens(total)} {what} belong to no request"
    return f"SGLang counts {format_tokens(-lost)} more {what} than there are: some were given back twice"
