"""Every way a release of the log's range may have counted, with the launch's numbers in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kvdiag.diagnosis.ledger.sizing import draft as drafts
from kvdiag.diagnosis.ledger.sizing import swa
from kvdiag.diagnosis.ledger.sizing.arithmetic import Arithmetic
from kvdiag.diagnosis.ledger.sizing.cell import LATENT_ROW, CellSize
from kvdiag.diagnosis.ledger.sizing.estimate import Estimate
from kvdiag.diagnosis.ledger.sizing.inputs import Family, SizingInputs
from kvdiag.diagnosis.ledger.sizing.linear import DEFAULT_RATIO
from kvdiag.diagnosis.ledger.sizing.mha import element_size
from kvdiag.diagnosis.units import GIB


def ways_to_count(
    inputs: SizingInputs, fraction: float, reason: str, kv: float, cell: CellSize | None
) -> Iterable[Arithmetic]:
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
        charged = printed - spare_states(inputs)
        slot = (printed - (pools.speculative_state_gib or 0.0)) / (pools.state_slots + 1) if pools.state_slots else 0.0
        fixed = _fixed_states(inputs)
        if pools.speculative_state_gib and not fixed:
            slot += pools.speculative_state_gib / ((inputs.running_requests or 0) + 1)
        before = inputs.release.within("0.5.7", "0.5.13") is True and 0 < fixed < kv
        return replace(
            base,
            state=charged,
            state_of=kv,
            state_scales=not by_slots,
            state_fixed=fixed,
            state_after=fixed if before else 0.0,
            state_slot=0.0 if by_slots else slot,
        )
    ratio = DEFAULT_RATIO if inputs.mamba_ratio is None else inputs.mamba_ratio
    return replace(
        base,
        state=max(0.0, kv) * ratio / (1 + ratio),
        state_of=kv,
        state_scales=True,
        assumptions=(*base.assumptions, f"states take {ratio:g} / (1 + {ratio:g}) of the budget"),
    )


def _fixed_states(inputs: SizingInputs) -> float:
    """GiB of draft tokens' states that a larger budget does not change: the given limit runs, not the slots."""
    pools, given, running = inputs.pools, inputs.max_running_requests, inputs.running_requests
    if not pools.speculative_state_gib or given is None or running is None:
        return 0.0
    by_limit = running == max(1, given // max(1, inputs.dp if inputs.dp_attention else 1))
    if not by_limit:
        return 0.0
    spare = pools.speculative_state_gib / (running + 1) if inputs.release.reaches("0.5.17") is not True else 0.0
    return pools.speculative_state_gib - spare


def spare_states(inputs: SizingInputs) -> float:
    """GiB of request states that are allocated and not charged: one slot, and one request's draft states, up to 0.5.15.

    Source: 0.5.3–0.5.15 mem_cache/memory_pool.py, MambaPool.__init__(): size + 1; charged since 0.5.17.
    """
    pools, running = inputs.pools, inputs.running_requests
    if not pools.state_gib or not pools.state_slots or inputs.release.reaches("0.5.17") is True:
        return 0.0
    drafts = pools.speculative_state_gib or 0.0
    spare = (pools.state_gib - drafts) / (pools.state_slots + 1)
    return spare + (drafts / (running + 1) if running else 0.0)


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
    if draft.has_path is False:
        charges = False
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
