"""The budget: what SGLang may give to its pools, redone from two readings and one fraction."""

from __future__ import annotations

from dataclasses import dataclass

from kvdiag.diagnosis.ledger.sizing import fraction as fractions
from kvdiag.diagnosis.ledger.sizing.arithmetic import Arithmetic
from kvdiag.diagnosis.ledger.sizing.cell import CellSize, cell_size
from kvdiag.diagnosis.ledger.sizing.choice import Candidate, choose, try_way
from kvdiag.diagnosis.ledger.sizing.estimate import HALF_DIGIT, Estimate
from kvdiag.diagnosis.ledger.sizing.inputs import Family, SizingInputs
from kvdiag.diagnosis.ledger.sizing.readings import EXACT, SMALL_BUFFERS, Readings, pool_budget, readings_of
from kvdiag.diagnosis.ledger.sizing.requests import request_table_bytes
from kvdiag.diagnosis.ledger.sizing.ways import spare_states, ways_to_count
from kvdiag.diagnosis.units import GIB

_TELLING = 0.005
"""How wide an implied fraction may lie open and still tell one rule from another."""
FORMULA = "after_weights − opening × (1 − mem_fraction_static)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """SGLang's own arithmetic, redone. GiB and tokens of one rank.

    kv             the pool budget R = after_weights − opening × (1 − f); from the readings alone
    memory_tokens  tokens before --max-total-tokens
    tokens         tokens after caps and page rounding; None when the budget holds none
    error_percent  of `tokens` against the log's count; None without one
    """

    readings: Readings
    fraction: float
    reserve: float
    kv: Estimate
    arithmetic: Arithmetic | None
    cell: CellSize | None
    memory_tokens: Estimate | None
    tokens: Estimate | None
    error_percent: float | None
    candidates: tuple[Candidate, ...] = ()

    @property
    def smallest_fraction(self) -> float:
        """The fraction at which the budget is nothing: 1 − after_weights / opening. Every start needs more."""
        return 1 - self.readings.after_weights.value / self.readings.opening.value


def compute(inputs: SizingInputs) -> Budget | None:
    """The budget of a launch; None when a reading or the fraction is missing."""
    readings = readings_of(inputs.ranks)
    if readings is None or inputs.fraction is None or not 0 < inputs.fraction <= 1:
        return None
    fraction, reason = effective_fraction(inputs, readings)
    kv = pool_budget(readings, fraction)
    cell = cell_size(inputs)
    reserve = readings.opening.value * (1 - fraction)
    ways = tuple(ways_to_count(inputs, fraction, reason, kv.value, cell)) if cell or inputs.family is Family.SWA else ()
    if kv.value <= 0 or not ways:
        return Budget(
            readings=readings,
            fraction=fraction,
            reserve=reserve,
            kv=kv,
            arithmetic=ways[0] if ways else None,
            cell=cell,
            memory_tokens=None,
            tokens=None,
            error_percent=None,
        )
    tried = tuple(try_way(way, kv, inputs) for way in ways)
    chosen = choose(tried, inputs, kv.value, cell)
    tokens = chosen.arithmetic.bounded(kv)
    error = None
    if inputs.tokens:
        error = 100 * (tokens.value / inputs.tokens - 1)
    return Budget(
        readings=readings,
        fraction=fraction,
        reserve=reserve,
        kv=kv,
        arithmetic=chosen.arithmetic,
        cell=cell,
        memory_tokens=chosen.arithmetic.bounded(kv, capped=False),
        tokens=tokens,
        error_percent=error,
        candidates=tuple(one for one in tried if one.arithmetic.likely or one is chosen),
    )


def effective_fraction(inputs: SizingInputs, readings: Readings) -> tuple[float, str]:
    """The fraction in effect, and why it differs from the printed one ("" when it does not).

    A hidden multiplier is believed when the free memory after the pool fits its reserve better than the printed
    fraction's: on the rank with the least memory, pool end ≈ opening × (1 − f).
    """
    assert inputs.fraction is not None
    printed = inputs.fraction
    factors = fractions.hidden_multipliers(
        inputs.release, inputs.platform, inputs.attention_backend, inputs.context_length, inputs.multimodal
    )
    ends = [rank.pool_end for rank in inputs.ranks if rank.pool_end is not None]
    if not factors or not ends or inputs.max_total_tokens is not None:
        return printed, ""
    left = min(ends)
    if inputs.running_requests and inputs.context_length:
        left += request_table_bytes(inputs.running_requests, inputs.context_length) / GIB

    def miss(value: float) -> float:
        return abs(readings.opening.value * (1 - value) - left)

    best = min(factors, key=lambda factor: miss(printed * factor.factor))
    if miss(printed * best.factor) + EXACT < miss(printed) and miss(printed * best.factor) < SMALL_BUFFERS:
        return printed * best.factor, best.reason
    return printed, ""


def implied_fraction(inputs: SizingInputs) -> Estimate | None:
    """The fraction that the log's own pools imply, where it does not print one: 1 − (A − pools) / P.

    No prediction: it is read off the result. Without a line of the pools, the free memory after them tells it, since
    on the rank with least it is P × (1 − f) less the request table. None where neither is known, or a cap is given.
    """
    readings = readings_of(inputs.ranks)
    if readings is None or inputs.max_total_tokens is not None:
        return None
    pools, opening = inputs.pools, readings.opening.value
    if pools.gib is None:
        return _implied_by_end(inputs, opening)
    if pools.gib <= 0:
        return None
    margin = HALF_DIGIT * (pools.figures + (2 if pools.state_gib else 0) + 1) + EXACT
    taken = pools.gib * _charged_share(inputs) + (pools.state_gib or 0.0) + inputs.reserved
    spare = spare_states(inputs)
    taken -= spare
    margin += 0.0 if inputs.release.reaches("0.5.17") is False else spare
    if inputs.draft is not None and inputs.draft.before_pool is True:
        taken += inputs.draft.pool or 0.0  # charged by the target's width: between nothing and twice its size
        margin += inputs.draft.pool or 0.0
    left = readings.after_weights.value - taken
    if left < 0:
        return None
    return Estimate(1 - left / opening, 1 - (left + HALF_DIGIT) / opening, min(1.0, 1 - (left - margin) / opening))


def _charged_share(inputs: SizingInputs) -> float:
    """What the sizing charges for a pool over what the pool stores."""
    cell = cell_size(inputs)
    if cell is None or cell.stored is None or inputs.family not in (Family.DSA, Family.LINEAR):
        return 1.0
    if cell.stored.low * 0.999 <= cell.charged.value <= cell.stored.high * 1.001:
        return 1.0
    return cell.charged.value / cell.stored.value


def _implied_by_end(inputs: SizingInputs, opening: float) -> Estimate | None:
    """By the free memory after the pools, less a request table; None where that leaves too much open."""
    ends = [rank.pool_end for rank in inputs.ranks if rank.pool_end is not None]
    if not ends or inputs.draft is not None:
        return None
    left, open_to = min(ends), SMALL_BUFFERS
    if inputs.running_requests and inputs.context_length:
        left += request_table_bytes(inputs.running_requests, inputs.context_length) / GIB
        open_to = EXACT
    low, high = 1 - (left + open_to) / opening, 1 - (left - HALF_DIGIT) / opening
    return Estimate(1 - left / opening, low, high) if high - low <= _TELLING else None
