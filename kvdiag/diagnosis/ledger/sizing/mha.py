"""MHA and GQA: keys and values of every layer, heads divided over the attention ranks."""

from __future__ import annotations

from kvdiag.diagnosis.ledger.sizing.geometry import Geometry
from kvdiag.diagnosis.ledger.sizing.release import ReleaseRange

FP4_BLOCK = 16
"""Values that share one scale byte-pair in an FP4 pool."""


def element_size(kv_dtype: str | None) -> float:
    """Bytes of one stored value: 2 for bf16/fp16 and "auto", 1 for fp8, ½ for fp4 (its scales come extra).

    Source: model_runner.py, configure_kv_cache_dtype().
    """
    name = (kv_dtype or "auto").lower()
    if "fp4" in name or "float4" in name:
        return 0.5
    if "fp8" in name or "float8" in name or "int8" in name:
        return 1.0
    if "float32" in name or name == "fp32":
        return 4.0
    return 2.0


def heads_per_rank(kv_heads: int, attention_tp: int) -> int:
    """KV heads one rank keeps: divided by the attention ranks, never below one (then they are replicated).

    Source: configs/model_config.py, get_num_kv_heads().
    """
    return max(1, kv_heads // max(1, attention_tp))


def bytes_per_token(
    geometry: Geometry, kv_dtype: str | None, attention_tp: int, pp: int = 1, release: ReleaseRange | None = None
) -> int:
    """Bytes one token takes on one rank: heads × (d_k + d_v) × layers × element size.

    Up to 0.5.6 the width of a key counts twice. FP4 halves the bytes and adds one scale a 16 values.
    Layers are those of the largest pipeline stage when layers divide unevenly.
    Source: 0.3–0.5.6 model_runner.py, profile_max_num_token(); 0.5.7–0.5.10 get_cell_size_per_token();
    0.5.11+ pool_configurator.py, DefaultPoolConfigurator.
    """
    heads = heads_per_rank(geometry.kv_heads, attention_tp)
    layers = stage_layers(geometry.layers, pp)
    value_dim = geometry.value_dim
    if release is not None and release.reaches("0.5.7") is False:
        value_dim = geometry.head_dim
    size = element_size(kv_dtype)
    if size == 0.5:
        plain = heads * (geometry.head_dim + value_dim) * layers
        return plain // 2 + heads * geometry.head_dim * layers * 2 // FP4_BLOCK
    return int(heads * (geometry.head_dim + value_dim) * layers * size)


def stage_layers(layers: int, pp: int) -> int:
    """Layers of the largest pipeline stage.

    Source: distributed/utils.py, get_pp_indices(): what remains goes one each to some stages.
    """
    return -(-layers // max(1, pp))
