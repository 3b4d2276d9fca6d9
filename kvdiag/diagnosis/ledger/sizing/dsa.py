"""DSA (DeepSeek-V3.2, GLM-5): the latent row and an index key beside it; some releases charge less than they store."""

from __future__ import annotations

from dataclasses import dataclass

from kvdiag.diagnosis.ledger.sizing.geometry import Geometry
from kvdiag.diagnosis.ledger.sizing.mha import element_size, stage_layers
from kvdiag.diagnosis.ledger.sizing.release import ReleaseRange

_QUANT_BLOCK = 128
_PACKED_EXTRA = 80
"""Bytes an FP8 row has beyond kv_lora_rank + rope: 16 of scales, and the rotary part kept in bf16 (64 more)."""


LATENT_ROW = 576
"""Values of a latent row: kv_lora_rank 512 + rope 64, of every public sparse model."""
_INDEX_KEY = 132
"""Bytes of an index key: 128 of FP8 and a scale of 4."""
_INDEX_KEY_NPU = 256


@dataclass(frozen=True, slots=True)
class SparseCell:
    """Bytes a token takes on one rank: as the sizing charges it, as the pools store it, and its rows alone."""

    charged: int
    stored: int
    rows: int


def bytes_per_token(
    geometry: Geometry,
    kv_dtype: str | None,
    platform: str | None,
    release: ReleaseRange,
    pp: int = 1,
    raw_rows: bool = False,
) -> SparseCell:
    """Latent row and index key over the layers of a stage.

    Index key: 128 + 4 bytes a layer; NPU builds store it in bf16 (256 bytes) and charge 132.
    FP8 rows take 656 bytes (512 + 16 + 128), unless the trtllm backend or ROCm tilelang keeps them raw (576);
    charged at 576 until 0.5.15, at 656 since 0.5.17: before, an FP8 pool overshoots its budget by 788/708.
    Source: get_cell_size_per_token() (0.5.7–0.5.10), pool_configurator.py (0.5.11+);
    calculate_mla_kv_cache_dim() for the stored row.
    """
    layers = stage_layers(geometry.layers, pp)
    row = geometry.kv_lora_rank + geometry.rope_dim
    index = geometry.index_dim + geometry.index_dim // _QUANT_BLOCK * 4
    size = element_size(kv_dtype)
    charged_row = stored_row = int(row * size)
    if size == 1.0 and not raw_rows:
        stored_row = row + _PACKED_EXTRA
        if release.reaches("0.5.17") is not False:
            charged_row = stored_row
    stored_index = geometry.index_dim * 2 if platform == "npu" else index
    return SparseCell((charged_row + index) * layers, (stored_row + stored_index) * layers, stored_row * layers)


def layer_rows(kv_dtype: str | None, platform: str | None) -> tuple[tuple[int, int], ...]:
    """The sizes in bytes that a layer's latent row and its index key may have in a pool, the likeliest first.

    Source: as bytes_per_token().
    """
    key = _INDEX_KEY_NPU if platform == "npu" else _INDEX_KEY
    packed, raw, wide = (LATENT_ROW + _PACKED_EXTRA, key), (LATENT_ROW, key), (LATENT_ROW * 2, key)
    if kv_dtype in (None, "auto"):
        return wide, packed, raw
    return (packed, raw) if element_size(kv_dtype) == 1.0 else (wide,)
