"""The device overflows while the target's pools are made.

What it sees
    An overflow between the end of the target's load and the end of its pools, which no table or draft explains.
Why it matters
    The server does not start. The pool was sized, and then something took the room: another process, a buffer outside
    the budget, or a pool that is larger than what it was charged for.
What to do
    Lower the fraction by what was missing; look for other processes on the card.
Sources
    SGLang, model_runner.py: init_memory_pool().
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.overflow import DeviceOutOfMemory
from kvdiag.diagnosis.outcome import Stage
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import knob, lower_fraction, remedies
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import Bytes, format_apart, to_gib


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    sign = judgements.memory_ran_out(case)
    if sign is None or judgements.is_trainers(case, sign) or judgements.is_draft_start(case, sign):
        return
    if judgements.stage(case, sign) is not Stage.KV_CACHE or judgements.is_draft_pool(case, sign):
        return
    place = judgements.site(case, sign)
    if place not in (None, "mamba_pool"):
        return
    if isinstance(sign, DeviceOutOfMemory) and judgements.table_rows(case, sign) is not None:
        return
    tried, free = getattr(sign, "tried", None), getattr(sign, "free", None)
    wanted, there = format_apart(tried or Bytes(0), free or Bytes(0))
    asked = "" if tried is None else f": {wanted} were asked for"
    beside = "" if free is None else f" with {there} free"
    need = Bytes(max(0, tried - (free or 0))) if tried is not None else None
    what = "KV pool" if place is None else "pool of states"
    yield Finding(
        summary=f"The device overflows while the {what} is made{asked}{beside}",
        why="The pool was sized to what was free; since then something else took part of it.",
        ranks=judgements.ranks_of(judgements.overflows(case)[:64]) or (sign.rank,),
        evidence=cite(sign, case.after_weights, case.opening, figure="tried_gib", value=to_gib(tried, 4)),
        remedies=remedies(
            # The buffer that failed may be one of many, and the pool is to leave something beside it.
            lower_fraction(case, judgements.room_for(case, tried, free) if need else need),
            knob(case, "--max-total-tokens", Direction.SET, cost="It costs KV tokens above the cap.")
            if place is None
            else knob(case, "--max-mamba-cache-size", Direction.SET, cost="It costs state slots."),
        ),
        part_of="wsl-hidden-driver-memory" if tried is not None and free is not None and tried <= free else "",
        confidence=Confidence.LIKELY,
        stake=to_gib(need) or 0.0,
    )
