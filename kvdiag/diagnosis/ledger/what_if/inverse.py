"""Inverse questions: the fraction that starts, that leaves so much free, that holds so many tokens."""

from __future__ import annotations

from collections.abc import Callable

from kvdiag.diagnosis.ledger.sizing.free_memory import HIGHEST, end_free, least_on_the_way, lowest_free
from kvdiag.diagnosis.ledger.sizing.limits import cap_binds
from kvdiag.diagnosis.ledger.sizing.sizing import Sizing
from kvdiag.diagnosis.ledger.what_if.change import Change
from kvdiag.diagnosis.ledger.what_if.forward import (
    CannotTell,
    Launch,
    NoFraction,
    free_of,
    lowest_of,
    tokens_of,
    with_fraction,
)
from kvdiag.diagnosis.units import STEP

_STEPS = round(HIGHEST / STEP)


def smallest_start(sizing: Sizing, launch: Launch) -> float | None:
    """The smallest fraction in steps of 0.001 that gets a pool; None when none does."""
    return _first_step(lambda fraction: with_fraction(sizing, launch, fraction).tokens() > 0)


def largest_with_free(sizing: Sizing, base: Launch, launch: Launch, wanted: float | None) -> float | None:
    """The largest fraction in steps of 0.001 that starts and leaves so much free; None when none does."""
    start = smallest_start(sizing, launch)
    if wanted is None or start is None or end_free(sizing.inputs) is None or cap_binds(sizing.inputs):
        return None

    lowest = lowest_free(sizing.inputs)

    def too_much(fraction: float) -> bool:
        then = with_fraction(sizing, launch, fraction)
        free, on_the_way = free_of(sizing, base, then), lowest_of(sizing, base, then)
        if free is None or free < wanted - 1e-9:
            return True
        if lowest is None or on_the_way is None:
            return False
        return on_the_way < least_on_the_way(sizing.inputs, lowest, wanted) - 1e-9

    first = _first_step(too_much)
    if first is None and launch.arithmetic.cap is not None:
        return None  # the cap sets the pool, whatever the fraction
    most = HIGHEST if first is None else round(first - STEP, 3)
    return most if most >= start else None


def fraction_asked(sizing: Sizing, base: Launch, launch: Launch, change: Change) -> float | None:
    """The fraction a change asks for, directly or turned round. Raises NoFraction when none does."""
    if change.mem_fraction_static is not None:
        return change.mem_fraction_static
    if change.free_gib is not None:
        return _for_free(sizing, base, launch, change.free_gib)
    if change.tokens is not None:
        return _for_tokens(sizing, base, launch, change.tokens)
    return None


def _for_free(sizing: Sizing, base: Launch, launch: Launch, wanted: float) -> float:
    end = end_free(sizing.inputs)
    if end is None:
        raise CannotTell("the log does not reach the end of the start, so the free memory there is not known")
    if cap_binds(sizing.inputs) and launch.arithmetic.cap is not None:
        raise CannotTell("--max-total-tokens sets the pool, so the fraction moves no free memory")
    most = largest_with_free(sizing, base, launch, wanted)
    if most is None:
        start = smallest_start(sizing, launch)
        least = "no fraction starts" if start is None else f"the smallest that starts is {start:.3f}"
        raise NoFraction(f"no feasible fraction leaves {wanted:.2f} GiB free at the end: {least}")
    return most


def _for_tokens(sizing: Sizing, base: Launch, launch: Launch, wanted: int) -> float:
    cap = launch.arithmetic.cap
    if cap is not None and cap < wanted:
        raise NoFraction(f"no feasible fraction: --max-total-tokens {cap:,} keeps the pool below {wanted:,} tokens")
    found = _first_step(lambda fraction: tokens_of(sizing, base, with_fraction(sizing, launch, fraction)) >= wanted)
    if found is None:
        most = tokens_of(sizing, base, with_fraction(sizing, launch, HIGHEST))
        raise NoFraction(f"no feasible fraction: even {HIGHEST} gives about {most:,} tokens, not {wanted:,}")
    free = free_of(sizing, base, with_fraction(sizing, launch, found))
    if free is not None and free < 0:
        raise NoFraction(
            f"no feasible fraction: {wanted:,} tokens need {found:.3f}, and {-free:.2f} GiB more than the card has"
        )
    return found


def _first_step(holds: Callable[[float], bool]) -> float | None:
    """The first multiple of 0.001 up to 0.99 for which a claim holds that, once true, stays true."""
    low, high = 1, _STEPS + 1
    while low < high:
        middle = (low + high) // 2
        if holds(round(middle * STEP, 3)):
            high = middle
        else:
            low = middle + 1
    return None if low > _STEPS else round(low * STEP, 3)
