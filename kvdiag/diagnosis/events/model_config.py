"""A model's config.json, sent beside the log: the figures that its shape is made of."""

from __future__ import annotations

from kvdiag.diagnosis.events.pattern import Event, read_from

_KEYS = (
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "v_head_dim",
    "hidden_size",
    "kv_lora_rank",
    "qk_rope_head_dim",
    "index_head_dim",
    "vocab_size",
)


@read_from(
    rf'^"(?:{"|".join(_KEYS)})" ?: ?\d+,?$',
    literals=tuple(f'"{key}":' for key in _KEYS),
    fields={"key": r'^"(\w+)"', "value": r": ?(\d{1,9}),?$"},
    samples=('"num_hidden_layers": 61,', '"kv_lora_rank": 512,'),
    source="a model's config.json",
)
class ConfigValue(Event):
    """One number of a model's config.json."""

    key: str | None
    value: int | None


@read_from(
    r'^"(?:layer_types|full_attention_interval|linear_num_value_heads|sliding_window_pattern)" ?:',
    literals=('"layer_types":', '"full_attention_interval":', '"linear_num_value_heads":', '"sliding_window_pattern":'),
    samples=('"layer_types": [', '"full_attention_interval": 4,'),
    source="a model's config.json",
)
class ConfigOfMixedLayers(Event):
    """A config.json whose layers are not alike: its numbers alone do not tell the shape."""
