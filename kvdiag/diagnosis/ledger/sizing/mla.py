"""MLA: one latent vector a token and layer, the same on every tensor-parallel rank."""

from __future__ import annotations

from kvdiag.diagnosis.ledger.sizing.geometry import Geometry
from kvdiag.diagnosis.ledger.sizing.mha import FP4_BLOCK, element_size, stage_layers


def bytes_per_token(geometry: Geometry, kv_dtype: str | None, pp: int = 1) -> int:
    """Bytes one token takes on one rank: (kv_lora_rank + rope) × layers × element size. TP does not divide it.

    DeepSeek-V3 and Kimi-K2 (61 layers): 576 × 61 × 2 = 70,272 B.
    Source: 0.3–0.5.6 model_runner.py, profile_max_num_token(); 0.5.7–0.5.10 get_cell_size_per_token();
    0.5.11+ pool_configurator.py, DefaultPoolConfigurator.
    """
    width = geometry.kv_lora_rank + geometry.rope_dim
    layers = stage_layers(geometry.layers, pp)
    size = element_size(kv_dtype)
    if size == 0.5:
        return width * layers // 2 + width // FP4_BLOCK * layers
    return int(width * layers * size)
