"""A pool of one family does not fit in its share of the budget, and SGLang refuses to start.

What it sees
    SGLang's own refusals for state caches, state checkpoints, window pools and unified pools.
Why it matters
    The server does not start. Most of these pools lie within the static budget, so that a larger one helps; the state
    checkpoints lie outside it, and need a smaller one.
What to do
    Fewer running requests, whose states and windows the pool must hold, or slots for one where not even those fit; then
    the fraction, in the direction that the pool asks for.
Sources
    SGLang, pool configurators (0.5.13 and later): the messages name their own remedies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from kvdiag.diagnosis.events.failure import PoolRefused
from kvdiag.diagnosis.rules._pricing import knob, lower_fraction, raise_fraction, remedies
from kvdiag.diagnosis.rules.judgements import below_zero, memory_ran_out, ranks_of
from kvdiag.diagnosis.rules.rule import Case, Direction, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import to_gib

_OUTSIDE = ("mamba checkpoints",)
_SETTINGS = ("argument missing", "sliding window ratio")


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    below = below_zero(case)  # the weights alone are larger than the budget: that is the cause, with a rule of its own
    found = [e for e in case.launch.each(PoolRefused) if e.what not in _SETTINGS and e not in below]
    if not found:
        return
    first = found[0]
    if first.what in _OUTSIDE:
        turn = lower_fraction(case, first.size)
    else:
        turn = None if memory_ran_out(case) is not None else raise_fraction(case, _fraction_with_room(case, first))
    beside = _of_requests(case, first)
    yield Finding(
        summary=f"The pool for {first.what} does not fit in its share of the budget",
        why="It lies outside the static budget." if first.what in _OUTSIDE else "It lies within the static budget.",
        ranks=ranks_of(found[:64]),
        evidence=cite(*found[:2], figure="available_gib", value=to_gib(first.available, 4)),
        remedies=remedies(turn, beside) if turn is not None and turn.to else remedies(beside, turn),
    )


def _of_requests(case: Case, refused: PoolRefused) -> Remedy:
    """Fewer requests at once; slots for one where not even that many fit."""
    slots, each = refused.slots, refused.ratio
    if slots is None or each is None or not 0 <= slots < each:
        return knob(case, "--max-running-requests", Direction.LOWER, cost="It costs concurrency: others wait.")
    least = math.ceil(each)
    return knob(
        case,
        "--max-mamba-cache-size",
        Direction.RAISE,
        to=str(least),
        cost="It costs KV tokens: states and tokens share one budget.",
        note=f"One request takes {least} slots, and {slots} fit into the states' share.",
    )


def _fraction_with_room(case: Case, refused: PoolRefused) -> float | None:
    """The fraction that leaves only what is wanted outside the budget; None where it would give the pools no more."""
    opening, after = case.opening_size, case.after_weights
    if opening is None or after is None:
        return None
    room = after.available - case.wanted_range[1]
    if room <= (refused.available or 0):
        return None
    return math.floor((1 - case.wanted_range[1] / opening) * 1000) / 1000
