"""A model's config.json, sent beside the log: the figures that its shape is made of, line by line."""

from __future__ import annotations

from kvdiag.diagnosis.events.pattern import Event, read_from

_NUMBERS = (
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "num_global_key_value_heads",
    "swa_num_key_value_heads",
    "head_dim",
    "global_head_dim",
    "swa_head_dim",
    "v_head_dim",
    "hidden_size",
    "kv_lora_rank",
    "qk_rope_head_dim",
    "index_head_dim",
    "vocab_size",
    "sliding_window",
    "sliding_window_pattern",
    "_sliding_window_pattern",
    "full_attention_interval",
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_key_head_dim",
    "linear_value_head_dim",
    "linear_conv_kernel_dim",
    "num_nextn_predict_layers",
    "mtp_num_hidden_layers",
)
_SECTIONS = ("text_config", "vision_config", "audio_config", "llm_config", "language_config", "thinker_config")
_LISTS = ("layer_types", "layers_block_type")
_KINDS = ("full_attention", "sliding_attention", "chunked_attention", "linear_attention")
"""Kinds of a layer that stand on lines of their own; shorter words are in too many lines to look for."""
_SOURCE = "a model's config.json"


@read_from(
    rf'^"(?:{"|".join(_NUMBERS)})" ?: ?\d+,?$',
    literals=tuple(f'"{key}":' for key in _NUMBERS),
    fields={"key": r'^"(\w+)"', "value": r": ?(\d{1,9}),?$"},
    samples=('"num_hidden_layers": 61,', '"kv_lora_rank": 512,', '"full_attention_interval": 4,'),
    source=_SOURCE,
)
class ConfigValue(Event):
    """One number of a model's config.json."""

    key: str | None
    value: int | None


@read_from(
    rf'^"(?:{"|".join(_SECTIONS)})" ?: ?\{{$',
    literals=tuple(f'"{key}":' for key in _SECTIONS),
    fields={"name": r'^"(\w+)"'},
    samples=('"text_config": {', '"vision_config": {'),
    source=_SOURCE,
)
class ConfigSection(Event):
    """A part of a config.json that describes one tower of the model."""

    name: str | None


@read_from(
    rf'^"(?:{"|".join(_LISTS)})" ?: ?\[',
    literals=tuple(f'"{key}":' for key in _LISTS),
    fields={"kinds": r"\[ ?([\w\", ]*?) ?\],?$"},
    samples=('"layer_types": [', '"layer_types": ["full_attention", "sliding_attention"],', '"layers_block_type": ['),
    source=_SOURCE,
)
class ConfigLayers(Event):
    """The list of what each layer is: `kinds` where it stands on one line, else a line for each layer follows."""

    kinds: str | None


@read_from(
    rf'^"?(?:{"|".join(_KINDS)})"?,?$',
    literals=_KINDS,
    fields={"kind": r'^"?(\w+)'},
    samples=("full_attention", '"linear_attention",'),
    source=_SOURCE,
)
class ConfigLayer(Event):
    """What one layer is."""

    kind: str | None


@read_from(
    r'^"(?:hybrid_override_pattern|hybrid_layer_pattern|attn_type_list|layer_group_size|linear_attn_config)" ?:',
    literals=(
        '"hybrid_override_pattern":',
        '"hybrid_layer_pattern":',
        '"attn_type_list":',
        '"layer_group_size":',
        '"linear_attn_config":',
    ),
    samples=('"hybrid_override_pattern": "M-M-M*-",', '"linear_attn_config": {'),
    source=_SOURCE,
)
class ConfigOfMixedLayers(Event):
    """A config.json whose layers are not alike in a way that is not read: its numbers alone do not tell the shape."""


@read_from(
    r'^\{.*"num_hidden_layers" ?: ?\d+.*\}$',
    literals=('"num_hidden_layers":',),
    fields={"body": r"^(\{.*\})$"},
    samples=('{"architectures": ["LlamaForCausalLM"], "num_attention_heads": 32, "num_hidden_layers": 32}',),
    source=_SOURCE,
)
class ConfigText(Event):
    """A whole config.json on one line."""

    body: str | None
