"""A config.json beside the log tells the bytes of a token."""

import io
import json
from typing import Any

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.lines import Log

LOG = b"""[2026-03-02 09:14:00] server_args=ServerArgs(model_path='/m/unknown', mem_fraction_static=0.88)
[2026-03-02 09:14:10] Load weight begin. avail mem=78.00 GB
[2026-03-02 09:15:10] Load weight end. type=SomeForCausalLM, avail mem=62.00 GB, mem usage=16.00 GB.
[2026-03-02 09:15:11] KV Cache is allocated. #tokens: 430080, K size: 26.25 GB, V size: 26.25 GB
"""
CONFIG = {
    "architectures": ["SomeForCausalLM"],
    "head_dim": 128,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}


def kv_cache(*files: tuple[str, bytes]) -> dict[str, Any]:
    logs = [Log(name, io.BytesIO(raw)) for name, raw in files]
    (launch,) = diagnose(*logs).document["launches"]
    return launch["kv_cache"]


def config(**changes: Any) -> bytes:
    return json.dumps(CONFIG | changes, indent=2).encode()


def test_its_shape_gives_the_bytes_of_a_token() -> None:
    found = kv_cache(("server.log", LOG), ("config.json", config()))
    assert found["bytes_per_token"] == 2 * 8 * 128 * 32 * 2
    assert found["bytes_per_token_bounds"]["basis"] == "geometry"


def test_one_whose_layers_are_not_alike_is_left_aside() -> None:
    mixed = kv_cache(("server.log", LOG), ("config.json", config(layer_types=["full_attention", "linear_attention"])))
    assert mixed["bytes_per_token_bounds"] == kv_cache(("server.log", LOG))["bytes_per_token_bounds"]


def test_a_config_alone_is_no_launch() -> None:
    assert diagnose(Log("config.json", io.BytesIO(config()))).document["launches"] == []
