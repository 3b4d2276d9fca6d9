"""Free memory at the end: how much is wanted, and the fractions that start and that keep it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kvdiag.diagnosis.cards import may_be_unified
from kvdiag.diagnosis.ledger.sizing.budget import Budget
from kvdiag.diagnosis.ledger.sizing.inputs import SizingInputs
from kvdiag.diagnosis.ledger.sizing.limits import lost_gib
from kvdiag.diagnosis.ledger.sizing.requests import request_table_bytes, rows_at
from kvdiag.diagnosis.units import GIB, STEP, Bytes, floor_step

HIGHEST = 0.99
_TINY = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Fractions:
    """Fractions worth naming; None where the log cannot carry them, with the reason in `why`.

    starts_from   smallest multiple of 0.001 with which SGLang gets a pool
    keeps_wanted  largest one that leaves the wanted free memory at the end
    fits          largest one with which memory does not run out before the end; None where none below 0.99 does
    """

    starts_from: float | None
    keeps_wanted: float | None
    fits: float | None = None
    why: str = ""


def wanted_free(inputs: SizingInputs) -> float | None:
    """GiB wanted free at the end, by the card's size: its printed capacity, else the free memory before loading."""
    card = _smallest_card(inputs)
    if card is None:
        return None
    unnamed = all(rank.capacity is None for rank in inputs.ranks)
    shared = inputs.unified_memory or (unnamed and may_be_unified(Bytes(round(card * GIB))))
    return inputs.wanted.on(card, shared)


def needed_free(inputs: SizingInputs) -> float | None:
    """GiB that prefill, logits and the allocator want at the end: a launch is judged by it.

    Where host and GPU share one memory more is wanted before a change may take it, for the host's sake; yet what a
    launch has is not too little on that account.
    """
    card = _smallest_card(inputs)
    return None if card is None else inputs.wanted.on(card)


def _smallest_card(inputs: SizingInputs) -> float | None:
    cards = [rank.capacity if rank.capacity is not None else rank.opening for rank in inputs.ranks]
    return min((card for card in cards if card is not None), default=None)


def end_free(inputs: SizingInputs) -> float | None:
    """GiB free at the end on the rank with least; None when the launch did not get there."""
    ends = [rank.end for rank in inputs.ranks if rank.end is not None]
    return min(ends) if ends else None


def lowest_free(inputs: SizingInputs) -> float | None:
    """The lowest free memory on the way from the pool to the end, over all ranks."""
    lows = [rank.lowest for rank in inputs.ranks if rank.lowest is not None]
    return min(lows) if lows else None


def least_on_the_way(inputs: SizingInputs, lowest: float, wanted: float) -> float:
    """How low free memory may get before the end: until it is thin there, or as low as this log already went."""
    return min(lowest, wanted * inputs.wanted.thin)


def growth_outside(inputs: SizingInputs, budget: Budget) -> float:
    """GiB that a draft's pool and the request table take from the reserve for each GiB more of budget.

    Up to 0.5.13 a draft keeps as many tokens as the target and nobody budgets them: c_draft / c. The table grows with
    the tokens between the bounds of SGLang's own estimate: 512 rows for each full-length request that fits.
    """
    draft, way = inputs.draft, budget.arithmetic
    if way is None or budget.kv.value <= 0 or way.bytes_per_reported_token <= 0:
        return 0.0
    each = table_growth(inputs)
    if draft is not None and draft.pool and draft.tokens and draft.before_pool is not True:
        each += draft.pool * GIB / (draft.tokens + inputs.page_size)
    share = max(0.0, way.kv_gib(budget.kv.value)) / budget.kv.value if way.state_scales else 1.0
    return each / way.bytes_per_reported_token * share


def table_growth(inputs: SizingInputs) -> float:
    """Bytes by which the request table grows a token, where SGLang counts its rows from the tokens."""
    if not inputs.tokens or not inputs.context_length:
        return 0.0
    rows = [rows_at(inputs, count) for count in (inputs.tokens, inputs.tokens + inputs.context_length)]
    if rows[0] is None or rows[1] is None:
        return 0.0
    tables = [request_table_bytes(count, inputs.context_length) for count in (rows[0], rows[1])]
    return (tables[1] - tables[0]) / inputs.context_length


def printed_share(inputs: SizingInputs, budget: Budget) -> float:
    """What the fraction in effect is divided by to get the one to set: below 1 where a hidden multiplier acts."""
    return inputs.fraction / budget.fraction if inputs.fraction else 1.0


def smallest_start(inputs: SizingInputs, budget: Budget) -> float | None:
    """The smallest multiple of 0.001 whose budget holds at least one page of tokens; None when none does."""
    share = printed_share(inputs, budget)
    steps = math.floor(budget.smallest_fraction * share / STEP + _TINY) + 1
    opening, after = budget.readings.opening.value, budget.readings.after_weights.value
    lost = lost_gib(inputs, budget)
    for step in range(max(1, steps), 1001):
        fraction = step * STEP / share
        if fraction > 1:
            return None
        kv = after - opening * (1 - fraction)
        if kv > _TINY and (budget.arithmetic is None or budget.arithmetic.tokens(kv - lost) > 0):
            return round(step * STEP, 3)
    return None


def fraction_for_free(inputs: SizingInputs, budget: Budget, free: float) -> float | None:
    """The fraction that leaves `free` GiB at the end, exactly: f + (E − X) / (P · (1 + growth)).

    Linear as long as the tail (graphs, workspaces) is what it was. None without a reading at the end.
    """
    end = end_free(inputs)
    if end is None:
        return None
    return budget.fraction + (end - free) / (budget.readings.opening.value * (1 + growth_outside(inputs, budget)))


def fractions(inputs: SizingInputs, budget: Budget, capped: bool, wanted: float | None) -> Fractions:
    """The smallest fraction that starts and the largest that keeps the wanted free memory."""
    start = smallest_start(inputs, budget)
    if wanted is None or end_free(inputs) is None:
        return Fractions(starts_from=start, keeps_wanted=None, why="the log does not show the free memory at the end")
    if capped:
        return Fractions(
            starts_from=start, keeps_wanted=None, why="--max-total-tokens sets the pool, whatever the fraction"
        )
    exact = fraction_for_free(inputs, budget, wanted)
    edge = fraction_for_free(inputs, budget, 0.0)
    assert exact is not None and edge is not None
    lowest = lowest_free(inputs)
    if lowest is not None:
        # memory that comes back before the end does not help a capture that comes before it
        per_gib = 1 / (budget.readings.opening.value * (1 + growth_outside(inputs, budget)))
        exact = min(exact, budget.fraction + (lowest - least_on_the_way(inputs, lowest, wanted)) * per_gib)
        edge = min(edge, budget.fraction + lowest * per_gib)
    share = printed_share(inputs, budget)
    exact *= share
    most = min(HIGHEST, floor_step(exact))
    last = floor_step(edge * share)
    fits = last if last < HIGHEST else None
    if start is None or most < start:
        return Fractions(
            starts_from=start,
            keeps_wanted=None,
            fits=fits,
            why=f"no feasible fraction: {wanted:.2f} GiB free at the end needs {floor_step(exact):.3f},"
            + (f" and the start needs {start:.3f}" if start is not None else " and no fraction holds a page"),
        )
    way = budget.arithmetic
    if way is not None and way.cap is not None:
        kv = budget.readings.after_weights.value - budget.readings.opening.value * (
            1 - most / printed_share(inputs, budget)
        )
        if way.tokens(kv, capped=False) >= way.cap:
            return Fractions(
                starts_from=start, keeps_wanted=None, why="--max-total-tokens would set the pool before that"
            )
    return Fractions(starts_from=start, keeps_wanted=most, fits=fits)
