"""Geometry: the shape of a model's attention layers, from its config.json or from a table of public models."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """What one token's attention state is made of. Layers and heads are of the whole model, before TP and PP.

    layers          layers that keep keys and values for every token (full attention); with MLA, every layer
    kv_lora_rank    set for latent attention (MLA); `rope_dim` is the rotary part stored beside it
    index_dim       set for sparse attention (DSA): the indexer's key width
    swa_layers      layers that keep a window of tokens only, in a pool of their own
    linear_layers   layers that keep one state a request instead of keys and values
    draft_layers    layers of the model's own draft (MTP), beside the others
    """

    name: str
    layers: int
    kv_heads: int = 0
    head_dim: int = 0
    v_head_dim: int | None = None
    kv_lora_rank: int = 0
    rope_dim: int = 0
    index_dim: int = 0
    swa_layers: int = 0
    swa_kv_heads: int = 0
    swa_head_dim: int = 0
    swa_window: int = 0
    linear_layers: int = 0
    linear_key_heads: int = 0
    linear_value_heads: int = 0
    linear_key_dim: int = 128
    linear_value_dim: int = 128
    convolution: int = 4
    hidden: int = 0
    vocabulary: int = 0
    draft_layers: int = 0

    @property
    def value_dim(self) -> int:
        """Width of a value head; that of a key head unless the model says otherwise."""
        return self.v_head_dim or self.head_dim

    @property
    def all_layers(self) -> int:
        """Every layer of the model."""
        return self.layers + self.swa_layers + self.linear_layers


def _gqa(name: str, layers: int, heads: int, dim: int, hidden: int, vocabulary: int) -> Geometry:
    return Geometry(name=name, layers=layers, kv_heads=heads, head_dim=dim, hidden=hidden, vocabulary=vocabulary)


def _mla(name: str, layers: int, hidden: int, vocabulary: int, index_dim: int = 0) -> Geometry:
    return Geometry(
        name=name,
        layers=layers,
        kv_lora_rank=512,
        rope_dim=64,
        index_dim=index_dim,
        hidden=hidden,
        vocabulary=vocabulary,
    )


def _gdn(name: str, layers: int, heads: int, value_heads: int, hidden: int, vocabulary: int) -> Geometry:
    """A model of which every fourth layer is full attention (256 wide), the others gated delta nets."""
    return Geometry(
        name=name,
        layers=layers // 4,
        kv_heads=heads,
        head_dim=256,
        linear_layers=layers - layers // 4,
        linear_key_heads=16,
        linear_value_heads=value_heads,
        hidden=hidden,
        vocabulary=vocabulary,
    )


def _gpt_oss(name: str, layers: int) -> Geometry:
    return Geometry(
        name=name,
        layers=layers // 2,
        kv_heads=8,
        head_dim=64,
        swa_layers=layers // 2,
        swa_kv_heads=8,
        swa_head_dim=64,
        swa_window=128,
        hidden=2880,
        vocabulary=201_088,
    )


def _gemma4(name: str, full: int, window: int, heads: int, swa_heads: int) -> Geometry:
    return Geometry(
        name=name,
        layers=full,
        kv_heads=heads,
        head_dim=512,
        swa_layers=window,
        swa_kv_heads=swa_heads,
        swa_head_dim=256,
        swa_window=1024,
        vocabulary=262_144,
    )


PUBLIC_MODELS: tuple[tuple[str, Geometry], ...] = (
    # The first pattern found in the model's path counts, so the longer name stands before the shorter.
    # Figures: the config.json each model's publisher provides.
    (r"deepseek.?v4", Geometry(name="DeepSeek-V4", layers=0)),  # sized from the rates its log prints
    (r"deepseek.?v3[._]2", _mla("DeepSeek-V3.2", 61, 7168, 129_280, index_dim=128)),
    (r"deepseek.?(v3|r1)(?!.*distill)", _mla("DeepSeek-V3", 61, 7168, 129_280)),
    (r"deepseek.?(coder.?)?v2.*lite", _mla("DeepSeek-V2-Lite", 27, 2048, 102_400)),
    (r"deepseek.?(coder.?)?v2", _mla("DeepSeek-V2", 60, 5120, 102_400)),
    (r"kimi.?k2", _mla("Kimi-K2", 61, 7168, 163_840)),
    (r"moonlight.?16b", _mla("Moonlight-16B", 27, 2048, 163_840)),
    (r"glm.?5(?!\d)", _mla("GLM-5", 78, 6144, 154_880, index_dim=128)),
    (r"glm.?4[._][56].?air", _gqa("GLM-4.5-Air", 46, 8, 128, 4096, 151_552)),
    (r"glm.?4[._][567](?!.?flash|v)", _gqa("GLM-4.5", 92, 8, 128, 5120, 151_552)),
    (r"minimax.?m2", _gqa("MiniMax-M2", 62, 8, 128, 3072, 200_064)),
    (r"gpt.?oss.?120b", _gpt_oss("gpt-oss-120b", 36)),
    (r"gpt.?oss.?20b", _gpt_oss("gpt-oss-20b", 24)),
    (r"gemma.?4.?26b", _gemma4("gemma-4-26B", 5, 25, 2, 8)),
    (r"gemma.?4.?31b", _gemma4("gemma-4-31B", 10, 50, 4, 16)),
    (r"gemma.?3.?27b", _gqa("gemma-3-27b", 62, 16, 128, 5376, 262_208)),
    (r"gemma.?3.?12b", _gqa("gemma-3-12b", 48, 8, 256, 3840, 262_208)),
    (r"gemma.?3.?4b", _gqa("gemma-3-4b", 34, 4, 256, 2560, 262_208)),
    (r"gemma.?2.?27b", _gqa("gemma-2-27b", 46, 16, 128, 4608, 256_000)),
    (r"gemma.?2.?9b", _gqa("gemma-2-9b", 42, 8, 256, 3584, 256_000)),
    (r"qwen3.?next.?80b", _gdn("Qwen3-Next-80B", 48, 2, 32, 2048, 151_936)),
    (r"qwen3[._][56].?397b", _gdn("Qwen3.5-397B", 60, 2, 64, 4096, 248_320)),
    (r"qwen3[._][56].?122b", _gdn("Qwen3.5-122B", 48, 2, 64, 3072, 248_320)),
    (r"qwen3[._][56].?35b", _gdn("Qwen3.5-35B", 40, 2, 32, 2048, 248_320)),
    (r"qwen3[._][5678].?27b", _gdn("Qwen3.5-27B", 64, 4, 48, 5120, 248_320)),
    (r"qwen3[._][5678].?9b", _gdn("Qwen3.5-9B", 32, 4, 32, 4096, 248_320)),
    (r"qwen3[._][5678].?4b", _gdn("Qwen3.5-4B", 32, 4, 32, 2560, 248_320)),
    (r"qwen3.*480b", _gqa("Qwen3-Coder-480B", 62, 8, 128, 6144, 151_936)),
    (r"qwen3.*235b", _gqa("Qwen3-235B", 94, 4, 128, 4096, 151_936)),
    (r"qwen3.*30b.?a3b", _gqa("Qwen3-30B-A3B", 48, 4, 128, 2048, 151_936)),
    (r"qwen3.*32b", _gqa("Qwen3-32B", 64, 8, 128, 5120, 151_936)),
    (r"qwen3.*14b", _gqa("Qwen3-14B", 40, 8, 128, 5120, 151_936)),
    (r"qwen3.*[^\d.]8b", _gqa("Qwen3-8B", 36, 8, 128, 4096, 151_936)),
    (r"qwen3.*[^\d.]4b", _gqa("Qwen3-4B", 36, 8, 128, 2560, 151_936)),
    (r"qwen3.*1[._]7b", _gqa("Qwen3-1.7B", 28, 8, 128, 2048, 151_936)),
    (r"qwen3.*0[._]6b", _gqa("Qwen3-0.6B", 28, 8, 128, 1024, 151_936)),
    (r"qwq.?32b|qwen2([._]5)?.*32b", _gqa("Qwen2.5-32B", 64, 8, 128, 5120, 152_064)),
    (r"qwen2([._]5)?.*72b", _gqa("Qwen2.5-72B", 80, 8, 128, 8192, 152_064)),
    (r"qwen2[._]5.*14b", _gqa("Qwen2.5-14B", 48, 8, 128, 5120, 152_064)),
    (r"qwen2([._]5)?.*[^\d.]7b", _gqa("Qwen2.5-7B", 28, 4, 128, 3584, 152_064)),
    (r"qwen2[._]5.*[^\d.]3b", _gqa("Qwen2.5-3B", 36, 2, 128, 2048, 151_936)),
    (r"qwen2([._]5)?.*1[._]5b", _gqa("Qwen2.5-1.5B", 28, 2, 128, 1536, 151_936)),
    (r"qwen2([._]5)?.*0[._]5b", _gqa("Qwen2.5-0.5B", 24, 2, 64, 896, 151_936)),
    (r"llama.?4.?(scout|maverick)", _gqa("Llama-4", 48, 8, 128, 5120, 202_048)),
    (r"llama.?3([._]\d)?.*405b", _gqa("Llama-3.1-405B", 126, 8, 128, 16_384, 128_256)),
    (r"llama.?3([._]\d)?.*70b", _gqa("Llama-3-70B", 80, 8, 128, 8192, 128_256)),
    (r"llama.?3([._]\d)?.*[^\d.]8b", _gqa("Llama-3-8B", 32, 8, 128, 4096, 128_256)),
    (r"llama.?3[._]2.*[^\d.]3b", _gqa("Llama-3.2-3B", 28, 8, 128, 3072, 128_256)),
    (r"llama.?3[._]2.*[^\d.]1b", _gqa("Llama-3.2-1B", 16, 8, 64, 2048, 128_256)),
    (r"llama.?2.*70b", _gqa("Llama-2-70B", 80, 8, 128, 8192, 32_000)),
    (r"llama.?2.*13b", _gqa("Llama-2-13B", 40, 40, 128, 5120, 32_000)),
    (r"llama.?2.*[^\d.]7b", _gqa("Llama-2-7B", 32, 32, 128, 4096, 32_000)),
    (r"mixtral.?8x22b", _gqa("Mixtral-8x22B", 56, 8, 128, 6144, 32_768)),
    (r"mixtral.?8x7b", _gqa("Mixtral-8x7B", 32, 8, 128, 4096, 32_000)),
    (r"(mistral|devstral|magistral).?small", _gqa("Mistral-Small-24B", 40, 8, 128, 5120, 131_072)),
    (r"mistral.?nemo", _gqa("Mistral-Nemo", 40, 8, 128, 5120, 131_072)),
    (r"mistral.?7b", _gqa("Mistral-7B", 32, 8, 128, 4096, 32_768)),
    (r"phi.?4(?!.?mini|.?multi)", _gqa("Phi-4", 40, 10, 128, 5120, 100_352)),
    (r"granite.?4.*h.?micro", Geometry(name="Granite-4.0-H-Micro", layers=4, kv_heads=8, head_dim=64,
                                       linear_layers=36, hidden=2048, vocabulary=100_352)),
    (r"lfm2.?700m", Geometry(name="LFM2-700M", layers=6, kv_heads=8, head_dim=64, linear_layers=10,
                             hidden=1536, vocabulary=65_536)),
)  # fmt: skip


def geometry_of(model: str | None) -> Geometry | None:
    """The geometry of a public model by the last part of its path; None when the table does not have it.

    A name proves nothing: a figure from here counts only where the log's own pool line does not contradict it.
    """
    if not model:
        return None
    parts = [part for part in re.split(r"[/\\]+", model.lower()) if part]
    for part in reversed(parts[-3:]):
        for pattern, geometry in PUBLIC_MODELS:
            if re.search(pattern, part):
                return geometry if geometry.layers else None
    return None


def read_config(config: Mapping[str, object], name: str = "config.json") -> Geometry | None:
    """The geometry in a model's config.json (its `text_config` where it has one); None without layers or heads.

    Also None where the list of layers is not as long as the model, as in a config that was cut.
    Source: sglang/srt/configs/model_config.py, ModelConfig: num_hidden_layers, num_key_value_heads, head_dim,
    kv_lora_rank, qk_rope_head_dim, index_head_dim, layer_types, layers_block_type, sliding_window,
    sliding_window_pattern, full_attention_interval.
    """
    text = config.get("text_config")
    values: Mapping[str, object] = text if isinstance(text, Mapping) else config

    def number(*keys: str) -> int:
        for key in keys:
            value = values.get(key)
            if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                return value
        return 0

    layers = number("num_hidden_layers", "n_layer", "num_layers")
    heads = number("num_attention_heads", "n_head")
    if not layers or not heads:
        return None
    listed = values.get("layer_types", values.get("layers_block_type"))
    kinds = [str(kind) for kind in listed] if isinstance(listed, list) else []
    if isinstance(listed, list) and len(kinds) != layers:
        return None
    linear = sum("linear" in kind or "mamba" in kind or kind == "conv" for kind in kinds)
    window = sum("sliding" in kind or "chunked" in kind for kind in kinds)
    interval, pattern = number("full_attention_interval"), number("sliding_window_pattern", "_sliding_window_pattern")
    if not kinds and interval:
        linear = layers - layers // interval
    elif not kinds and pattern > 1:
        window = layers - layers // pattern  # every so many-th layer is a full one
    hidden = number("hidden_size", "n_embd")
    head_dim = number("head_dim") or hidden // heads
    kv_heads = number("num_key_value_heads") or heads
    return Geometry(
        name=name,
        layers=layers - linear - window,
        kv_heads=number("num_global_key_value_heads") or kv_heads,
        head_dim=number("global_head_dim") or head_dim,
        v_head_dim=number("v_head_dim") or None,
        kv_lora_rank=number("kv_lora_rank"),
        rope_dim=number("qk_rope_head_dim"),
        index_dim=number("index_head_dim"),
        swa_layers=window,
        swa_kv_heads=(number("swa_num_key_value_heads") or kv_heads) if window else 0,
        swa_head_dim=(number("swa_head_dim") or head_dim) if window else 0,
        swa_window=number("sliding_window") if window else 0,
        linear_layers=linear,
        linear_key_heads=number("linear_num_key_heads"),
        linear_value_heads=number("linear_num_value_heads"),
        linear_key_dim=number("linear_key_head_dim") or 128,
        linear_value_dim=number("linear_value_head_dim") or 128,
        convolution=number("linear_conv_kernel_dim") or 4,
        hidden=hidden,
        vocabulary=number("vocab_size"),
        draft_layers=number("num_nextn_predict_layers", "mtp_num_hidden_layers"),
    )
