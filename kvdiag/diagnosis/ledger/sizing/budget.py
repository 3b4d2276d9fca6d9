"""The budget: what SGLang may give to its pools, redone from two readings and one fraction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kvdiag.diagnosis.ledger.sizing import draft as drafts
from kvdiag.diagnosis.ledger.sizing import fraction as fractions
from kvdiag.diagnosis.ledger.sizing import swa
from kvdiag.diagnosis.ledger.sizing.arithmetic import Arithmetic
from kvdiag.diagnosis.ledger.sizing.cell import LATENT_ROW, CellSize, cell_size
from kvdiag.diagnosis.ledger.sizing.estimate import HALF_DIGIT, Estimate
from kvdiag.diagnosis.ledger.sizing.inputs import Family, RankMemory, SizingInputs
from kvdiag.diagnosis.ledger.sizing.linear import DEFAULT_RATIO
from kvdiag.diagnosis.ledger.sizing.mha import element_size
from kvdiag.diagnosis.ledger.sizing.requests import request_table_bytes
from kvdiag.diagnosis.units import GIB

FORMULA = "after_weights − opening × (1 − mem_fraction_static)"
EXACT = 0.13
"""GiB: what is allocated between the printed reading and SGLang's own (rotary tables, LoRA, torchao) at most."""

_RESERVE = 0.5
"""GiB that index tensors and request tables take at most between a reserve and the reading after the pool."""
_CLEARLY = 0.12
"""GiB by which a way that the wording rules out must be nearer than the likely ones: more than small buffers take."""
_OVERSHOOT = 0.1
"""GiB by which a pool may come out larger than the readings around it show: what was freed meanwhile."""
_INDISTINGUISHABLE = 0.02
"""GiB: two ways of counting this near each other are not told apart by printed digits."""


@dataclass(frozen=True, slots=True)
class Readings:
    """The two readings the sizing reduces over all ranks, in GiB, and the ranks that set them."""

    opening: Estimate
    after_weights: Estimate
    opening_rank: str
    smallest_rank: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way a release may have counted, the tokens it gives, and whether the log's count agrees."""

    arithmetic: Arithmetic
    tokens: Estimate
    fits: bool | None


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


def readings_of(ranks: Iterable[RankMemory]) -> Readings | None:
    """Opening and after-weights as SGLang reduces them: each the minimum over the ranks, independently.

    A rank without an opening reading has it from after-weights + "mem usage".
    Source: model_runner.py, init_torch_distributed() and profile_max_num_token(): get_available_gpu_memory(
    distributed=True) reduces with MIN over the world.
    """
    openings: list[tuple[float, float, str]] = []
    after: list[tuple[float, str]] = []
    for rank in ranks:
        if rank.opening is not None:
            openings.append((rank.opening, HALF_DIGIT, rank.id))
        elif rank.after_weights is not None and rank.usage is not None:
            openings.append((rank.after_weights + rank.usage, 2 * HALF_DIGIT, rank.id))
        if rank.after_weights is not None:
            after.append((rank.after_weights, rank.id))
    if not openings or not after:
        return None
    opening, margin, opening_rank = min(openings)
    lowest, smallest = min(after)
    if opening <= 0:
        return None
    return Readings(Estimate.around(opening, margin), Estimate.around(lowest, HALF_DIGIT), opening_rank, smallest)


def pool_budget(readings: Readings, fraction: float) -> Estimate:
    """R = A − P × (1 − f), in GiB; negative where SGLang refuses to start.

    Source: 0.3–0.5.10 profile_max_num_token(); 0.5.11+ _profile_available_bytes().
    """
    return readings.after_weights.minus(readings.opening.times(1 - fraction))


def compute(inputs: SizingInputs) -> Budget | None:
    """The budget of a launch; None when a reading or the fraction is missing."""
    readings = readings_of(inputs.ranks)
    if readings is None or inputs.fraction is None or not 0 < inputs.fraction <= 1:
        return None
    fraction, reason = effective_fraction(inputs, readings)
    kv = pool_budget(readings, fraction)
    cell = cell_size(inputs)
    reserve = readings.opening.value * (1 - fraction)
    ways = tuple(_ways(inputs, fraction, reason, kv.value, cell)) if cell or inputs.family is Family.SWA else ()
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
    tried = tuple(_try(way, kv, inputs) for way in ways)
    chosen = _choose(tried, inputs, kv.value, cell)
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

    def miss(value: float) -> float:
        return abs(readings.opening.value * (1 - value) - left)

    best = min(factors, key=lambda factor: miss(printed * factor.factor))
    if miss(printed * best.factor) + EXACT < miss(printed) and miss(printed * best.factor) < _RESERVE:
        return printed * best.factor, best.reason
    return printed, ""


def _ways(inputs: SizingInputs, fraction: float, reason: str, kv: float, cell: CellSize | None) -> Iterable[Arithmetic]:
    """Every way a release of the range may have counted, the most likely first."""
    family = inputs.family or Family.OTHER
    base = Arithmetic(
        family=family,
        fraction=fraction,
        cell=cell.charged if cell else Estimate.exactly(0.0),
        page=inputs.page_size,
        cap=inputs.max_total_tokens,
        reserved=inputs.reserved,
        assumptions=(reason,) if reason else (),
    )
    if family is Family.SWA:
        ways = list(_window_ways(inputs, base, cell))
    elif family is Family.LINEAR:
        ways = [_with_states(inputs, base, kv)]
    else:
        ways = [base]
    return _draft_ways(inputs, ways)


def _window_ways(inputs: SizingInputs, base: Arithmetic, cell: CellSize | None) -> Iterable[Arithmetic]:
    pools = inputs.pools
    if pools.tokens and pools.swa_tokens and pools.full_gib and pools.swa_gib:
        geometry = inputs.geometry
        sizes = swa.WindowCells(
            pools.full_gib * GIB / (pools.tokens + inputs.page_size),
            pools.swa_gib * GIB / (pools.swa_tokens + inputs.page_size),
            geometry.layers if geometry else 0,
            geometry.swa_layers if geometry else 0,
        )
    elif inputs.geometry is not None and inputs.geometry.swa_layers and (cell is None or inputs.swa_ratio is not None):
        sizes = swa.cells(inputs.geometry, inputs.kv_dtype, inputs.attention_tp)
    elif cell is not None:
        # one total for both pools: bytes of a reported token at this ratio, which is all the budget needs
        yield replace(base, assumptions=(*base.assumptions, "the ratio of both pools stays as it is"))
        return
    else:
        return
    ratio = inputs.swa_ratio
    if pools.tokens and pools.swa_tokens:
        observed = pools.swa_tokens / pools.tokens
        if ratio is None or abs(observed - ratio) > 0.01 + inputs.page_size / pools.tokens:
            ratio = observed
    ratio = 0.8 if ratio is None else ratio
    by_requests = _window_by_requests(inputs, ratio)
    if by_requests is not None:
        yield replace(
            base,
            window=sizes,
            ratio=ratio,
            split=swa.SplitRule.REQUEST_CAP,
            window_tokens=by_requests,
            cell=_joined(sizes, ratio, cell),
        )
        return
    for rule in swa.rule_for(inputs.release) or (swa.SplitRule.JOINT,):
        if rule in (swa.SplitRule.UNIFORM, swa.SplitRule.DOUBLE_COUNT) and not sizes.full_layers:
            continue
        yield replace(base, window=sizes, ratio=ratio, split=rule, cell=_joined(sizes, ratio, cell))


def _window_by_requests(inputs: SizingInputs, ratio: float) -> int | None:
    """Tokens of a window pool that requests size: prefix cache off, a limit given, and not the ratio asked for."""
    if inputs.radix_cache or inputs.max_running_requests is None or inputs.release.reaches("0.5.14") is False:
        return None
    if inputs.swa_ratio is None or abs(ratio - inputs.swa_ratio) < 0.02:
        return None
    return inputs.pools.swa_tokens


def _joined(sizes: swa.WindowCells, ratio: float, cell: CellSize | None) -> Estimate:
    """F + ratio·S with the relative bounds of the pool line."""
    value = sizes.full + ratio * sizes.window
    if cell is None or cell.stored is None or cell.stored.value <= 0:
        return Estimate.exactly(value)
    scale = value / cell.stored.value
    return Estimate(value, cell.stored.low * scale, cell.stored.high * scale)


def _with_states(inputs: SizingInputs, base: Arithmetic, kv: float) -> Arithmetic:
    """States first: as the log prints them, else by the ratio."""
    pools = inputs.pools
    by_slots = inputs.max_mamba_cache_size is not None or (
        not inputs.radix_cache and inputs.max_running_requests is not None
    )
    printed = pools.state_gib
    if printed is not None:
        charged = printed + (pools.speculative_state_gib or 0.0)
        slots = pools.state_slots
        if slots and inputs.release.reaches("0.5.17") is not True:
            charged *= slots / (slots + 1)  # one slot more is allocated than charged, before 0.5.17
        return replace(base, state=charged, state_of=kv, state_scales=not by_slots)
    ratio = DEFAULT_RATIO if inputs.mamba_ratio is None else inputs.mamba_ratio
    return replace(
        base,
        state=max(0.0, kv) * ratio / (1 + ratio),
        state_of=kv,
        state_scales=True,
        assumptions=(*base.assumptions, f"states take {ratio:g} / (1 + {ratio:g}) of the budget"),
    )


def _draft_ways(inputs: SizingInputs, ways: list[Arithmetic]) -> Iterable[Arithmetic]:
    """With a draft: tokens added for it (0.4.3–0.5.6), its share in the cell (0.5.14 and later), or neither."""
    draft = inputs.draft
    if draft is None:
        yield from ways
        return
    extra = drafts.headroom(draft.algorithm, inputs.max_running_requests, draft.steps, draft.top_k, draft.draft_tokens)
    early = draft.before_pool is True
    adds = False if early else drafts.adds_headroom(inputs.release)
    hybrid = inputs.family is Family.SWA
    charges = drafts.is_charged(inputs.release, draft.before_pool, draft.algorithm, hybrid)
    for way in ways:
        charged = _charge_draft(inputs, way)
        added = replace(way, headroom=extra) if extra else None
        # what the release does, what it may do, and, where only the wording names it, what its neighbours do
        ranked = (
            (way, charges is not True and adds is not True),
            (charged, charges is not False),
            (added, adds is not False),
        )
        likely = [option for option, may in ranked if may and option is not None]
        yield from likely or [way]
        if inputs.release.exact is None:
            unlikely = [option for option, may in ranked if not may and option is not None and not early]
            yield from (replace(option, likely=False) for option in unlikely if option not in (likely or [way]))


def _charge_draft(inputs: SizingInputs, way: Arithmetic) -> Arithmetic | None:
    """The cell with a draft's share: by layers where the model's shape is known, else by the draft's own pool line."""
    draft = inputs.draft
    assert draft is not None
    if way.window is not None and way.window.full_layers:
        share = drafts.charged_cell(way.window.full, way.window.full_layers, draft.layers) - way.window.full
        sizes = replace(way.window, full=way.window.full + share)
        return replace(way, window=sizes, cell=way.cell.plus(share))
    layers = inputs.geometry.layers if inputs.geometry is not None else _latent_layers(inputs, way)
    if layers:
        cell = drafts.charged_cell(way.cell.value, layers, draft.layers)
        return replace(way, cell=way.cell.times(cell / way.cell.value)) if way.cell.value else None
    if draft.pool and draft.tokens:
        share = draft.pool * GIB / (draft.tokens + inputs.page_size)
        if way.window is not None:
            return replace(way, window=replace(way.window, full=way.window.full + share), cell=way.cell.plus(share))
        return replace(way, cell=way.cell.plus(share))
    return None


def _latent_layers(inputs: SizingInputs, way: Arithmetic) -> int:
    """Layers of an unknown MLA model by its bytes per token: whole rows of 576 values; 0 where they do not divide."""
    if inputs.family is not Family.MLA:
        return 0
    row = LATENT_ROW * element_size(inputs.kv_dtype)
    layers = round(way.cell.value / row)
    return layers if layers and abs(way.cell.value / row - layers) < 0.05 else 0


def _try(way: Arithmetic, kv: Estimate, inputs: SizingInputs) -> Candidate:
    tokens = way.bounded(kv)
    if not inputs.tokens:
        return Candidate(way, tokens, None)
    gap = abs(tokens.value - inputs.tokens) * way.bytes_per_reported_token / GIB
    near = tokens.low <= inputs.tokens <= tokens.high or gap <= EXACT
    return Candidate(way, tokens, near)


def _choose(tried: tuple[Candidate, ...], inputs: SizingInputs, kv: float, cell: CellSize | None) -> Candidate:
    """The way of counting that the readings around the pool show; without them, the one that fits the log's count.

    A likely way goes before one that the wording rules out, and the order of likelihood before a small difference.
    """
    if len(tried) == 1:
        return tried[0]
    by_readings = _taken_by_pool(inputs)
    if by_readings is not None:
        residual = [by_readings - _pool_gib(one.arithmetic, one.tokens.value, kv, cell) for one in tried]
        close = [n for n, rest in enumerate(residual) if -_OVERSHOOT <= rest <= _RESERVE]
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


def implied_fraction(inputs: SizingInputs) -> Estimate | None:
    """The fraction that the log's own pools imply, where it does not print one: 1 − (A − pools) / P.

    No prediction: it is read off the result. None without readings or pools, and where a cap sets the pool.
    """
    readings = readings_of(inputs.ranks)
    pools = inputs.pools
    if readings is None or pools.gib is None or pools.gib <= 0 or inputs.max_total_tokens is not None:
        return None
    taken = pools.gib + (pools.state_gib or 0.0)
    margin = HALF_DIGIT * (pools.figures + (2 if pools.state_gib else 0) + 1) + EXACT
    left = readings.after_weights.value - taken
    opening = readings.opening.value
    if left < 0:
        return None
    return Estimate(1 - left / opening, 1 - (left + HALF_DIGIT) / opening, min(1.0, 1 - (left - margin) / opening))
