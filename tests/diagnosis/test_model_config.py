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


def mixed_log(full: int, window: int, full_gib: float, window_gib: float) -> bytes:
    clock, half = "[2026-03-02 09:15:11]", (full_gib / 2, window_gib / 2)
    return "\n".join(
        (
            f"{clock} server_args=ServerArgs(model_path='/m/unknown', mem_fraction_static=0.88)",
            f"{clock} Load weight begin. avail mem=78.00 GB",
            f"{clock} Load weight end. elapsed=41.07 s, type=SomeForCausalLM, avail mem=62.00 GB, mem usage=16.00 GB.",
            f"{clock} Use sliding window memory pool. full_layer_tokens={full}, swa_layer_tokens={window}",
            f"{clock} KV Cache is allocated. #tokens: {window}, K size: {half[1]:.2f} GB, V size: {half[1]:.2f} GB",
            f"{clock} KV Cache is allocated. #tokens: {full}, K size: {half[0]:.2f} GB, V size: {half[0]:.2f} GB",
            "",
        )
    ).encode()


def geometry(*files: tuple[str, bytes]) -> dict[str, Any] | None:
    return kv_cache(*files)["inputs"].get("geometry")


def test_window_layers_are_told_from_full_ones() -> None:
    kinds = ["sliding_attention", "full_attention"] * 16
    found = geometry(("server.log", LOG), ("config.json", config(layer_types=kinds, sliding_window=128)))
    assert found is not None
    assert (found["layers"], found["swa_layers"], found["swa_window"]) == (16, 16, 128)


def test_every_so_many_th_layer_is_a_full_one() -> None:
    found = geometry(("server.log", LOG), ("config.json", config(sliding_window_pattern=8, sliding_window=512)))
    assert found is not None and (found["layers"], found["swa_layers"]) == (4, 28)


def test_linear_layers_keep_no_keys() -> None:
    interval = geometry(("server.log", LOG), ("config.json", config(full_attention_interval=4)))
    listed = ["linear_attention"] * 24 + ["full_attention"] * 8
    kinds = geometry(("server.log", LOG), ("config.json", config(layer_types=listed)))
    assert interval is not None and kinds is not None
    assert (interval["layers"], interval["linear_layers"]) == (kinds["layers"], kinds["linear_layers"]) == (8, 24)


def test_states_of_mamba_layers_are_listed_on_one_line_too() -> None:
    whole = json.dumps(CONFIG | {"layers_block_type": ["mamba"] * 28 + ["attention"] * 4}).encode()
    found = geometry(("server.log", LOG), ("config.json", whole))
    assert found is not None and (found["layers"], found["linear_layers"]) == (4, 28)


def test_a_list_that_is_cut_tells_no_shape() -> None:
    assert geometry(("server.log", LOG), ("config.json", config(layer_types=["full_attention"] * 5))) is None


def test_latent_rows_index_keys_and_own_drafts_are_read() -> None:
    more = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "index_head_dim": 128, "num_nextn_predict_layers": 1}
    found = geometry(("server.log", LOG), ("config.json", config(**more)))
    assert found is not None
    assert (found["kv_lora_rank"], found["rope_dim"], found["index_dim"], found["draft_layers"]) == (512, 64, 128, 1)


def test_a_tower_beside_the_model_is_not_the_model() -> None:
    towers = {
        "audio_config": {"num_hidden_layers": 24, "num_attention_heads": 16, "hidden_size": 1024},
        "text_config": CONFIG,
        "vision_config": {"num_hidden_layers": 27, "num_attention_heads": 16, "hidden_size": 1152},
        "vocab_size": 5,
    }
    for raw in (json.dumps(towers, indent=2), json.dumps(towers)):
        found = geometry(("server.log", LOG), ("config.json", raw.encode()))
        assert found is not None
        assert (found["layers"], found["kv_heads"], found["hidden"], found["vocabulary"]) == (32, 8, 4096, 128_256)


def test_a_model_whose_windows_have_no_pool_stores_every_layer() -> None:
    kinds = ["sliding_attention", "full_attention"] * 16
    found = kv_cache(("server.log", LOG), ("config.json", config(layer_types=kinds)))
    assert found["family"] == "mha"
    assert (found["bytes_per_token"], found["bytes_per_token_bounds"]["basis"]) == (2 * 8 * 128 * 32 * 2, "geometry")


def test_window_pools_are_sized_by_the_config_before_their_lines_are_printed() -> None:
    kinds = ["sliding_attention", "full_attention"] * 16
    raw = mixed_log(400_000, 320_000, 24.41, 19.53)
    with_pools = kv_cache(("server.log", raw), ("config.json", config(layer_types=kinds)))
    head = b"\n".join(raw.splitlines()[:4])
    before = kv_cache(("server.log", head), ("config.json", config(layer_types=kinds)))
    assert with_pools["family"] == before["family"] == "swa"
    # F = S = 16 layers × 8 heads × 256 × 2 B: R / (F + 0.8·S)
    assert before["budget"]["tokens"] == int((62.00 - 78.00 * 0.12) * 2**30 // (65_536 * 1.8))
