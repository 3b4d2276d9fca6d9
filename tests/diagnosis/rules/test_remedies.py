"""What remedies promise: figures with intervals where the log carries them, words where it does not, nothing absurd."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.rules.catalogue import read_cases
from kvdiag.diagnosis.texts import Log

TESTS = Path(__file__).parents[2]
LOGS = {p.stem: p.read_bytes() for p in sorted((Path(__file__).parent / "logs").glob("*.log"))}
LOGS |= {p.stem: p.read_bytes() for p in sorted((Path(__file__).parent / "variants").glob("*.log"))}
LOGS |= {p.parent.name: p.read_bytes() for p in sorted((TESTS / "corpus").glob("*/log.txt"))}
LOGS |= {case.slug: case.text.encode() for case in read_cases(TESTS / "cases")}


@cache
def findings_of(name: str) -> list[dict[str, Any]]:
    document = diagnose(Log(name, io.BytesIO(LOGS[name]))).document
    return [finding for launch in document["launches"] for finding in launch["findings"]]


def remedies_of(name: str, rule: str | None = None) -> list[dict[str, Any]]:
    return [r for f in findings_of(name) if rule in (None, f["rule"]) for r in f["remedies"]]


def each_remedy() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every remedy of every log with the log's name."""
    return ((name, remedy) for name in LOGS for remedy in remedies_of(name))


def test_a_flag_comes_with_figures_or_with_the_reason_why_not() -> None:
    for name, remedy in each_remedy():
        if remedy["flag"].startswith("--"):
            assert remedy["effect"] or remedy["note"], (name, remedy)
        assert remedy["cost"], (name, remedy)


def test_every_figure_has_an_interval_that_holds_it_and_none_is_below_nothing() -> None:
    for name, remedy in each_remedy():
        for effect in remedy["effect"].values():
            assert effect.get("low", effect["to"]) <= effect["to"] <= effect.get("high", effect["to"]), (name, remedy)
            if not {"low", "high"} <= effect.keys():  # a bound: the far end is not in the log
                assert effect.keys() & {"low", "high"}, (name, remedy)
                assert "what every rank keeps whole is not in the log" in remedy["note"], (name, remedy)
            assert effect["to"] >= 0, (name, remedy)


def test_the_fraction_moves_tokens_its_way_and_free_memory_the_other() -> None:
    for name, remedy in each_remedy():
        if remedy["flag"] != "--mem-fraction-static" or remedy["to"] is None:
            continue
        assert 0.05 < float(remedy["to"]) < 0.99, (name, remedy)
        if remedy["from"] is None:
            continue
        up = float(remedy["to"]) > float(remedy["from"])
        assert remedy["direction"] in (("raise", "set") if up else ("lower", "set")), (name, remedy)
        tokens, free = remedy["effect"].get("kv_tokens", {}), remedy["effect"].get("free_gib", {})
        if "from" in tokens:
            assert (tokens["to"] > tokens["from"]) is up, (name, remedy)
        if "from" in free:
            assert (free["to"] < free["from"]) is up, (name, remedy)


def test_a_value_stands_in_the_command() -> None:
    for name, remedy in each_remedy():
        if remedy["flag"].startswith("--") and remedy["to"] is not None and remedy["direction"] != "remove":
            assert remedy["command"]["to"][0] == remedy["flag"], (name, remedy)
            assert remedy["to"] in remedy["command"]["to"] or remedy["flag"] == "--enable-dp-attention", (name, remedy)


def test_a_value_that_no_figure_gives_says_so() -> None:
    computed = (
        "--max-mamba-cache-size",
        "--mamba-full-memory-ratio",
        "--tp-size",
        "--dcp-size",
        "--context-length",
        "--max-total-tokens",
    )
    words = ("--kv-cache-dtype", "--ipc", "--mamba-ssm-dtype")  # a word and no number
    for name, remedy in each_remedy():
        if remedy["to"] is None or remedy["effect"] or not remedy["flag"].startswith("--"):
            continue
        said = remedy["note"].startswith(("Starting value", "It makes room for", "By the draft's"))
        said = said or "is the least that starts" in remedy["note"]
        assert said or remedy["flag"] in (*computed, *words), (name, remedy)


def test_a_lower_fraction_says_what_it_would_have_left_free_when_it_failed() -> None:
    lower = remedies_of("decode-graph-oom-4ranks-chained", "decode-graph-oom")[0]
    free = lower["effect"]["free_at_overflow_gib"]
    assert free["from"] == pytest.approx(0.5289, abs=1e-3)
    step = 0.9 - float(lower["to"])
    assert free["low"] == pytest.approx(0.5289 + step * 22.01, abs=0.01)  # what the allocator held
    assert free["high"] == pytest.approx(0.5289 + step * 23.53, abs=0.01)  # the card
    assert free["to"] > 1.16
    assert 'no "KV Cache is allocated" line' in lower["note"]


def test_half_the_largest_batch_is_marked_as_a_starting_value() -> None:
    graphs = remedies_of("decode-graph-oom-4ranks-chained", "decode-graph-oom")[1]
    assert graphs["to"] == "40"
    assert graphs["note"].startswith("Starting value, not computed: half of the largest batch captured.")


def test_a_shorter_chunk_shrinks_the_batch_in_proportion() -> None:
    chunk = remedies_of("prefill-16k-overflow-a100", "prefill-batch-transient")[0]
    assert chunk["to"] == "8192"
    assert chunk["effect"]["batch_gib"] == {"from": 1.81, "to": 0.905, "low": 0.905, "high": 1.81}


@pytest.mark.parametrize("rule", ["retraction-storm", "full-pool-exhausted"])
def test_a_host_tier_says_that_it_does_not_raise_what_runs_at_once(rule: str) -> None:
    log = LOGS[rule].decode()
    assert "does not raise the number" in remedies_in(log, rule)["--enable-hierarchical-cache"]["cost"]


def test_a_smaller_host_tier_is_what_was_free_in_proportion() -> None:
    tier = remedies_of("hicache-too-large-120-of-51", "hicache-host-memory-short")[0]
    assert (tier["from"], tier["to"]) == ("3", "1.25")  # 3 × 51.2 / 120.41, down to a twentieth
    assert tier["effect"]["host_gib"]["to"] == pytest.approx(120.41 * 1.25 / 3 * 1e9 / 2**30, abs=0.01)


def test_eight_bits_are_not_offered_where_a_cap_sets_the_pool() -> None:
    assert "pool-below-one-request" in {f["rule"] for f in findings_of("cap-100k-idle-40g-systemd")}
    assert not [r for r in remedies_of("cap-100k-idle-40g-systemd") if r["flag"] == "--kv-cache-dtype"]


def test_dp_attention_comes_with_the_number_of_its_ranks() -> None:
    (dp,) = [r for r in remedies_of("mla-same-tokens-tp8-dsv2") if r["flag"] == "--enable-dp-attention"]
    assert dp["command"] == {"from": [], "to": ["--enable-dp-attention", "--dp-size", "8"]}
    assert dp["effect"]["total_tokens"]["to"] > dp["effect"]["total_tokens"]["from"]


def test_a_refused_start_is_raised_to_a_value_that_leaves_room_to_run() -> None:
    higher = remedies_of("gemma27b-24g-042-not-enough", "weights-exceed-static-budget")[0]
    assert float(higher["to"]) > 0.888
    assert higher["effect"]["kv_tokens"]["to"] > 1_000
    assert higher["note"].startswith("0.888 is the least that starts at all.")


def test_a_cap_for_drafts_leaves_room_for_all_pools_seen() -> None:
    cap = remedies_of("draft-kv-overflow-third-layer", "draft-kv-uncounted")[0]
    share = (36.8 + 21.3 - 5) / (36.8 + 3 * 9.2)  # target and free after it, less the wanted; target and three drafts
    assert int(cap["to"]) == pytest.approx(1_204_000 * share, rel=1e-3)


def test_one_overflow_is_given_one_amount_by_all_its_findings() -> None:
    found = [r for r in remedies_of("glm52-fp8-8xh200-dynamo-compose-graph-oom") if r["direction"] == "lower"]
    amounts = {r["note"].split(";")[0] for r in found if r["flag"] == "--mem-fraction-static"}
    assert amounts == {"By at least 0.044"}


def test_the_highest_rank_of_a_fragment_is_not_taken_for_the_last() -> None:
    ranks = [r for r in remedies_of("deepseek-r1-a800-not-enough-memory") if r["flag"] == "--tp-size"]
    assert [r["to"] for r in ranks] == [None]  # only TP4 speaks


@pytest.mark.parametrize(
    ("name", "rule", "figures"),
    [
        (
            "qwq-32b-4xl4-ecs",
            "thin-slack-after-capture",
            "(1.80 − 0.53) / 21.63 = 0.059; wanted = 5.00 × 21.63 / 60.00",
        ),
        ("qwq-32b-4xl4-ecs", "pool-below-one-request", "131,072 − 46,611 = 84,461 tokens"),
        ("glm52-fp8-8xh200-dynamo-compose-graph-oom", "non-torch-memory-large", "139.20 − 134.73 − 0.29 = 4.18"),
        ("gemma27b-24g-042-not-enough", "weights-exceed-static-budget", "1 − 2.61 / 23.27 = 0.8878"),
        ("devstral-24b-awq-2x3090-negative-graph", "loader-memory-still-referenced", "7.20 − 2.32 = 4.88"),
        ("negative-profiled-value", "negative-token-budget", "5.91 − 78.21 × (1 − 0.87) = −4.26"),
    ],
)
def test_a_formula_has_the_launchs_figures_in_it(name: str, rule: str, figures: str) -> None:
    (formula,) = {f["formula"] for f in findings_of(name) if f["rule"] == rule}
    assert formula.endswith(f": {figures}")


def test_every_formula_has_its_figures() -> None:
    for name in LOGS:
        for finding in findings_of(name):
            if finding["formula"]:
                assert any(c.isdigit() for c in finding["formula"].partition(":")[2]), (name, finding)


def test_a_launch_is_told_one_fraction_to_lower_to_and_one_to_raise_to() -> None:
    for name, data in LOGS.items():
        for launch in diagnose(Log(name, io.BytesIO(data))).document["launches"]:
            offers = [r for f in launch["findings"] for r in f["remedies"] if r["flag"] == "--mem-fraction-static"]
            for way in (("lower",), ("raise", "set")):
                told = {r["to"] for r in offers if r["to"] is not None and r["direction"] in way}
                assert len(told) <= 1, (name, told)


def test_of_two_findings_that_lower_the_fraction_the_lower_value_serves_both() -> None:
    slack = [r for r in remedies_of("oom-in-embedding-request-warmup") if r["flag"] == "--mem-fraction-static"]
    assert {r["to"] for r in slack} == {"0.88"} and len(slack) >= 2
    assert len({str(r["effect"]) for r in slack}) == 1


def test_of_findings_that_raise_the_fraction_the_first_value_serves_the_request_too() -> None:
    up = [r for r in remedies_of("auto-fraction-041-l4-pair") if r["flag"] == "--mem-fraction-static"]
    assert {(r["direction"], r["to"]) for r in up} == {("set", "0.85"), ("raise", "0.85")}


def test_the_bytes_of_a_token_are_cited_from_the_pool_of_all_tokens() -> None:
    (found,) = [f for f in findings_of("gemma4-31b-awq-2x3090-swa-ratio-json") if f["rule"] == "fp8-kv-capacity"]
    first, window = found["evidence"]
    assert "53,215 bytes a token" in found["summary"]
    assert "TP0" in first["text"] and "#tokens: 167877" in first["text"] and first["value"] == 53_215
    assert "TP0" in window["text"] and "#tokens: 5036" in window["text"]


VISION = """{command}Traceback (most recent call last):
  File "/sgl/python/sglang/srt/models/qwen3_vl.py", line 723, in get_image_feature
    image_embeds = self.visual(pixel_values, grid_thw=image_grid_thw)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried} GiB. GPU 0 has a total capacity of 94.97 GiB of\
 which 2.35 GiB is free. Including non-PyTorch memory, this process has 92.62 GiB memory in use. Of the allocated\
 memory 88.25 GiB is allocated by PyTorch, and 1.88 GiB is reserved by PyTorch but unallocated.
"""
SERVE = "python -m sglang.launch_server --model-path m --tp 8 --mem-fraction-static 0.85 --context-length 196608\n"


def flags_of(text: str, rule: str = "vision-encoder-transient") -> list[str]:
    launch = diagnose(Log("log", io.BytesIO(text.encode()))).document["launches"][-1]
    return [r["flag"] for f in launch["findings"] if f["rule"] == rule for r in f["remedies"]]


def test_a_large_batch_of_images_is_divided_before_the_pool_is_given_up() -> None:
    assert flags_of(VISION.format(command=SERVE, tried="21.50"))[0] == "SGLANG_VLM_MAX_PATCHES_PER_VIT"
    assert flags_of(VISION.format(command=SERVE, tried="3.10"))[0] == "--mem-fraction-static"


def test_limits_of_images_are_not_offered_to_a_release_without_them() -> None:
    old = "[2025-05-03 10:00:42] sglang version: 0.5.5\n" + VISION.format(command=SERVE, tried="21.50")
    assert flags_of(old) == ["--mem-fraction-static"]


def test_a_limit_of_images_that_the_command_has_is_lowered() -> None:
    text = VISION.format(command=f"SGLANG_VLM_MAX_PATCHES_PER_VIT=10000 {SERVE}", tried="21.50")
    (launch,) = diagnose(Log("log", io.BytesIO(text.encode()))).document["launches"]
    first = launch["findings"][0]["remedies"][0]
    assert (first["direction"], first["from"]) == ("lower", "10000")


@pytest.mark.parametrize("tried", ["2.36", "3.10"])
def test_any_size_beside_a_long_context_is_no_table_of_requests(tried: str) -> None:
    assert flags_of(VISION.format(command=SERVE, tried=tried), "req-to-token-table-too-large") == []
    bare = VISION.format(command=SERVE, tried=tried).splitlines(keepends=True)
    assert flags_of("".join([bare[0], bare[-1]]), "req-to-token-table-too-large") == []
    assert flags_of("".join([bare[0], bare[-1].replace(tried, "1.50")]), "req-to-token-table-too-large")


REFUSED = """python -m sglang.launch_server --model-path m --tp-size 1 --mem-fraction-static {fraction}
[2026-08-07 08:45:00] Scheduler hit an exception: Traceback (most recent call last):
RuntimeError: Not enough GPU memory for hybrid (mamba/linear-attention) state cache. Computed max_mamba_cache_size=-31\
 (total_rest_memory=-8.63 GB, mamba_cache_per_req=140.78 MB). Try: (1) reduce --max-running-requests, (2) increase\
 --mem-fraction-static, (3) reduce --speculative-num-draft-tokens, or (4) use GPUs with more memory.
"""


def remedies_in(text: str, rule: str) -> dict[str, dict[str, Any]]:
    launch = diagnose(Log("log", io.BytesIO(text.encode()))).document["launches"][-1]
    return {r["flag"]: r for f in launch["findings"] if f["rule"] == rule for r in f["remedies"]}


def test_a_raise_that_must_make_up_for_a_printed_lack_says_on_what_card() -> None:
    raised = remedies_in(REFUSED.format(fraction="0.90"), "weights-exceed-static-budget")["--mem-fraction-static"]
    assert "8.63 GiB are missing" in raised["note"] and "123.29 GiB" in raised["note"]  # 8.63 / (0.97 - 0.90)
    assert "--mem-fraction-static" not in remedies_in(REFUSED.format(fraction="0.97"), "weights-exceed-static-budget")


def test_state_slots_are_not_raised_beyond_the_memory_they_share_with_tokens() -> None:
    text = """[2026-09-20 12:25:45] Mamba Cache is allocated. max_mamba_cache_size: 360, conv_state size: 0.99GB,\
 ssm_state size: 50.77GB
[2026-09-20 12:25:46] KV Cache is allocated. #tokens: 228520, K size: {kv} GB, V size: {kv} GB
[2026-09-20 12:26:00] max_total_num_tokens=228520, max_running_requests=72, available_gpu_mem=29.76 GB
"""
    bounded = remedies_in(text.format(kv="3.49"), "mamba-slots-cap-concurrency")["--max-mamba-cache-size"]
    assert bounded["to"] == "380"  # 360 and the 24 that half of 6.98 GiB hold, at 5 a request
    assert "51.76 GiB more" in bounded["note"]
    assert remedies_in(text.format(kv="60.00"), "mamba-slots-cap-concurrency")["--max-mamba-cache-size"]["to"] == "720"
    tiny = remedies_in(text.format(kv="0.10"), "mamba-slots-cap-concurrency")
    assert "--max-mamba-cache-size" not in tiny and "--mamba-ssm-dtype" in tiny


def test_a_fraction_that_the_refusal_prints_is_not_called_missing() -> None:
    text = """ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=0.94. Raise\
 --mem-fraction-static above 0.942 (minimum viable = 1 - available/pre = 0.9411).
"""
    raised = remedies_in(text, "weights-exceed-static-budget")["--mem-fraction-static"]
    assert "no mem_fraction_static" not in raised["note"] and 'no "Load weight begin"' in raised["note"]


@pytest.mark.parametrize(("free", "said"), [("2.04", True), ("6.04", False)])
def test_a_host_tier_below_the_pool_is_said_to_be_refused(free: str, said: bool) -> None:
    text = f"""ValueError: Not enough host memory available. Requesting 7.05 GB but only have {free} GB free. Please \
reduce the size of the hierarchical cache.
"""
    ratio = remedies_in(text, "hicache-host-memory-short")["--hicache-ratio"]
    assert ("releases before 0.5.17 refuse" in ratio["note"]) == said
