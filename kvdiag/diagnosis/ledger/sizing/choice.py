"""Which way of counting a log shows: by the readings around its pool, else by its count of tokens."""

from __future__ import annotations

from dataclasses import dataclass

from kvdiag.diagnosis.ledger.sizing.arithmetic import Arithmetic
from kvdiag.diagnosis.ledger.sizing.cell import CellSize
from kvdiag.diagnosis.ledger.sizing.estimate import Estimate
from kvdiag.diagnosis.ledger.sizing.inputs import SizingInputs
from kvdiag.diagnosis.ledger.sizing.readings import EXACT, SMALL_BUFFERS
from kvdiag.diagnosis.ledger.sizing.requests import request_table_bytes
from kvdiag.diagnosis.units import GIB

_CLEARLY = 0.12
"""GiB by which a way that the wording rules out must be nearer than the likely ones: more than small buffers take."""
_OVERSHOOT = 0.1
"""GiB by which a pool may come out larger than the readings around it show: what was freed meanwhile."""
_INDISTINGUISHABLE = 0.02
"""GiB: two ways of counting this near each other are not told apart by printed digits."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way a release may have counted, the tokens it gives, and whether the log's count agrees."""

    arithmetic: Arithmetic
    tokens: Estimate
    fits: bool | None


def try_way(way: Arithmetic, kv: Estimate, inputs: SizingInputs) -> Candidate:
    tokens = way.bounded(kv)
    if not inputs.tokens:
        return Candidate(way, tokens, None)
    gap = abs(tokens.value - inputs.tokens) * way.bytes_per_reported_token / GIB
    near = tokens.low <= inputs.tokens <= tokens.high or gap <= EXACT
    return Candidate(way, tokens, near)


def choose(tried: tuple[Candidate, ...], inputs: SizingInputs, kv: float, cell: CellSize | None) -> Candidate:
    """The way of counting that the readings around the pool show; without them, the one that fits the log's count.

    A likely way goes before one that the wording rules out, and the order of likelihood before a small difference.
    """
    if len(tried) == 1:
        return tried[0]
    by_readings = _taken_by_pool(inputs)
    if by_readings is not None:
        residual = [by_readings - _pool_gib(one.arithmetic, one.tokens.value, kv, cell) for one in tried]
        close = [n for n, rest in enumerate(residual) if -_OVERSHOOT <= rest <= SMALL_BUFFERS]
        if close:
            return _first_of([(tried[n], abs(residual[n])) for n in close])
    if not inputs.tokens:
        return tried[0]
    count = inputs.tokens
    fitting = [one for one in tried if one.fits]
    if not fitting:
        return tried[0]
    return _first_of(
        [(one, abs(one.tokens.value - count) * one.arithmetic.bytes_per_reported_token / GIB) for one in fitting]
    )


def _first_of(options: list[tuple[Candidate, float]]) -> Candidate:
    """The first likely one whose distance is about the smallest; another where that is clearly nearer."""
    nearest = min(distance for _, distance in options)
    likely = [option for option in options if option[0].arithmetic.likely]
    if likely and min(distance for _, distance in likely) <= nearest + _CLEARLY:
        options = likely
        nearest = min(distance for _, distance in likely)
    return next(one for one, distance in options if distance <= nearest + _INDISTINGUISHABLE)


def _taken_by_pool(inputs: SizingInputs) -> float | None:
    """GiB between the readings before and after the target's pool, less the request table; the least of all ranks."""
    drops = [
        rank.after_weights - rank.pool_end
        for rank in inputs.ranks
        if rank.after_weights is not None and rank.pool_end is not None
    ]
    if not drops:
        return None
    table = 0
    if inputs.running_requests and inputs.context_length:
        table = request_table_bytes(inputs.running_requests, inputs.context_length)
    return min(drops) - table / GIB


def _pool_gib(way: Arithmetic, tokens: float, kv: float, cell: CellSize | None) -> float:
    """GiB that the target's pools store for so many tokens, request states included."""
    stored = cell.stored.value if cell is not None and cell.stored is not None else way.bytes_per_reported_token
    return tokens * stored / GIB + way.state_gib(kv)
