"""Bytes per token on one rank: read off the pool line with bounds, snapped to the model's geometry where it agrees."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kvdiag.diagnosis.ledger.sizing import dsa, mha, mla, swa
from kvdiag.diagnosis.ledger.sizing.estimate import HALF_DIGIT, Estimate
from kvdiag.diagnosis.ledger.sizing.inputs import Family, PrintedPools, SizingInputs
from kvdiag.diagnosis.units import GIB

_SLACK = 2e-4
"""Relative room beyond the printed digits: index tensors and padding rows of a pool."""
_FP4_PRINTED = 8 / 9
"""Share of an FP4 pool that releases up to early 2026 printed: values without their scales."""
LATENT_ROW = 576
"""Values of a latent row: kv_lora_rank 512 + rope 64, the same in every public MLA model from 16B up."""


@dataclass(frozen=True, slots=True)
class CellSize:
    """Bytes per token on one rank.

    charged  what the sizing divides the budget by, before any share of a draft
    stored   what the pool line prints for one token; None without a pool line
    basis    "geometry": the model's shape, confirmed by the pool line; "assumed": the shape alone;
             "inferred": the pool line alone; "printed": a rate the log states
    """

    charged: Estimate
    stored: Estimate | None
    basis: str
    note: str = ""


def printed_cell(pools: PrintedPools, page: int) -> Estimate | None:
    """GiB over tokens of a pool line. The pool has one page more than it counts; each printed size is known to 0.005.

    Source: mem_cache/memory_pool.py, the line "KV Cache is allocated" (rows: size + page_size).
    """
    if not pools.tokens or pools.gib is None or pools.gib <= 0:
        return None
    rows = pools.tokens + page
    margin = HALF_DIGIT * max(1, pools.figures)
    return Estimate(
        pools.gib * GIB / rows,
        max(0.0, pools.gib - margin) * GIB / rows,
        (pools.gib + margin) * GIB / rows,
    )


def cell_size(inputs: SizingInputs) -> CellSize | None:
    """The bytes one token is charged at, from the pool line and the geometry; None when neither tells."""
    printed = printed_cell(inputs.pools, inputs.page_size)
    if inputs.family is Family.DSV4:
        rate = inputs.pools.bytes_per_full_token
        if rate:
            return CellSize(Estimate.exactly(rate), printed, "printed", "the rate the log prints")
        return CellSize(printed, printed, "inferred") if printed else None
    if inputs.family is Family.DSA or (inputs.geometry and inputs.geometry.index_dim):
        return _sparse(inputs, printed)
    shape = _by_geometry(inputs)
    if printed is None:
        if shape is None or inputs.family is Family.SWA:
            return None
        return CellSize(Estimate.exactly(shape), None, "assumed", "the model's public shape; no pool line confirms it")
    if shape is not None:
        if _agrees(shape, printed):
            return CellSize(Estimate.exactly(shape), printed, "geometry")
        if _is_fp4(inputs) and _agrees(shape * _FP4_PRINTED, printed):
            return CellSize(
                Estimate.exactly(shape), printed, "geometry", "the pool line leaves the FP4 scales out (8/9)"
            )
        if inputs.family is Family.LINEAR and inputs.platform == "npu" and printed.value > shape * 1.5:
            return CellSize(
                Estimate.exactly(shape),
                printed,
                "geometry",
                "this build stores every layer but charges the full-attention layers only",
            )
    snapped = _latent(printed) if inputs.family is Family.MLA else None
    if snapped is not None:
        return CellSize(Estimate.exactly(snapped), printed, "geometry", "a whole number of latent rows of 576 values")
    note = (
        ""
        if shape is None or inputs.family is Family.SWA
        else f"the public shape would be {shape:,} B; the pool line decides"
    )
    return CellSize(printed, printed, "inferred", note)


def _by_geometry(inputs: SizingInputs) -> int | None:
    geometry = inputs.geometry
    if geometry is None:
        return None
    if inputs.family is Family.MLA or (inputs.family is None and geometry.kv_lora_rank):
        return mla.bytes_per_token(geometry, inputs.kv_dtype, inputs.pp) if geometry.kv_lora_rank else None
    if not geometry.kv_heads:
        return None
    if geometry.swa_layers and inputs.family is not Family.SWA:
        # the release, or a flag, keeps no pool of its own for the windows: every layer stores every token
        cells = swa.cells(geometry, inputs.kv_dtype, inputs.attention_tp)
        return int(cells.full + cells.window) if inputs.pp == 1 else None
    return mha.bytes_per_token(geometry, inputs.kv_dtype, inputs.attention_tp, inputs.pp, inputs.release)


def _sparse(inputs: SizingInputs, printed: Estimate | None) -> CellSize | None:
    """DSA: stored rows may be larger than charged ones, so the pool line alone would hide an overshoot."""
    fp8 = mha.element_size(inputs.kv_dtype) == 1.0
    if inputs.geometry is not None and inputs.geometry.index_dim:
        for raw in (False, True):
            size = dsa.bytes_per_token(
                inputs.geometry, inputs.kv_dtype, inputs.platform, inputs.release, inputs.pp, raw_rows=raw
            )
            if printed is None:
                return CellSize(Estimate.exactly(size.charged), None, "assumed", "the model's public shape")
            if _agrees(size.stored, printed):
                return CellSize(Estimate.exactly(size.charged), printed, "geometry")
            if _agrees(size.rows, printed):
                note = "the pool line leaves the index keys out"
                return CellSize(Estimate.exactly(size.charged), printed, "geometry", note)
    if printed is None:
        return None
    share, note = 1.0, ""
    if inputs.platform == "npu":
        share, note = 1284 / 1408, "index keys stored in bf16, charged at 132 bytes"
    elif fp8 and inputs.release.reaches("0.5.17") is False:
        share, note = 708 / 788, "FP8 rows of 656 bytes, charged at 576"
    return CellSize(printed.times(share), printed, "inferred", note)


def _latent(printed: Estimate) -> float | None:
    """The only multiple of a latent row, at 2 or 1 byte a value, within the bounds; None when several fit."""
    for size in (2, 1):
        row = LATENT_ROW * size
        first, last = math.ceil(printed.low * (1 - _SLACK) / row), math.floor(printed.high * (1 + _SLACK) / row)
        if first == last and first > 0:
            return float(first * row)
    return None


def _agrees(shape: float, printed: Estimate) -> bool:
    return printed.low * (1 - _SLACK) <= shape <= printed.high * (1 + _SLACK)


def _is_fp4(inputs: SizingInputs) -> bool:
    return mha.element_size(inputs.kv_dtype) == 0.5
