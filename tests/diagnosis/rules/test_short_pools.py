"""A pool below one request: what keeps it small is named, and the fraction that holds a request is offered."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.texts import Log

CORPUS = Path(__file__).parents[2] / "corpus"
SHARED = (CORPUS / "qwen25-15b-gb10-low-free-mem" / "log.txt").read_text()


def launch_of(text: str) -> dict[str, Any]:
    return diagnose(Log("log", io.BytesIO(text.encode()))).document["launches"][-1]


def short_pool(launch: dict[str, Any]) -> dict[str, Any]:
    (found,) = [f for f in launch["findings"] if f["rule"] == "pool-below-one-request"]
    return found


def test_what_others_hold_is_the_cause_and_the_first_thing_to_give_back() -> None:
    launch = launch_of(SHARED)
    assert "103.15 GiB of the 119.63 GiB were in use before the start" in launch["verdict"]
    assert "or raise --mem-fraction-static from 0.2 to 0.243" in launch["verdict"]
    first, fraction = short_pool(launch)["remedies"][:2]
    assert (first["flag"], first["direction"]) == ("other processes", "remove")
    assert "about 3.42 GiB hold one full-length request" in first["note"]
    assert fraction["flag"] == "--mem-fraction-static"
    assert fraction["effect"]["kv_tokens"]["low"] >= 32_768 > fraction["effect"]["kv_tokens"]["from"]
    assert fraction["effect"]["free_gib"]["to"] == pytest.approx(7.63, abs=0.01)
    assert "under the 23.93 GiB wanted where host and GPU share one memory" in fraction["cost"]


def test_a_launch_of_one_rank_is_not_told_of_each_rank() -> None:
    assert "(6,827 of 32,768, 0.68 GiB)" in short_pool(launch_of(SHARED))["summary"]
    several = launch_of((CORPUS / "gemma4-31b-awq-2x3090-swa-ratio-json" / "log.txt").read_text())
    assert "4.67 GiB on each rank)" in short_pool(several)["summary"]


def test_a_memory_that_others_left_alone_is_not_blamed() -> None:
    calm = launch_of(SHARED.replace("[122501], using min: 122501", "[18000], using min: 18000"))
    found = short_pool(calm)
    assert "in use before the start" not in found["summary"]
    assert "other processes" not in [remedy["flag"] for remedy in found["remedies"]]


def test_a_fraction_that_leaves_too_little_is_not_offered() -> None:
    tight = launch_of(SHARED.replace("context_len=32768", "context_len=524288"))
    assert "--mem-fraction-static" not in [remedy["flag"] for remedy in short_pool(tight)["remedies"]]


def test_a_tiny_pool_is_a_symptom_of_what_keeps_it_small() -> None:
    (tiny,) = [f for f in launch_of(SHARED)["findings"] if f["rule"] == "pool-tiny"]
    assert (tiny["severity"], tiny["part_of"]) == ("info", "pool-below-one-request")


def test_a_tiny_pool_without_a_cause_has_a_remedy_or_says_what_is_missing() -> None:
    logs = Path(__file__).parent
    (sized,) = launch_of((logs / "variants/pool-tiny.1.log").read_text())["findings"]
    assert sized["severity"] == "warning" and sized["remedies"]
    (seen,) = [f for f in launch_of((logs / "logs/pool-tiny.log").read_text())["findings"] if f["rule"] == "pool-tiny"]
    assert not seen["remedies"] and "is not in the log: it has no mem_fraction_static" in seen["why"]


def test_idle_memory_beside_a_low_fraction_does_not_say_its_figures_again() -> None:
    launch = launch_of((CORPUS / "deepseek-r1-fp8-8xh200-piecewise" / "log.txt").read_text())
    found = {finding["rule"]: finding for finding in launch["findings"]}
    cause, symptom = found["mem-fraction-too-low"], found["big-free-memory-left"]
    assert symptom["part_of"] == cause["rule"] and not symptom["formula"]
    assert "GiB" in cause["summary"] and "GiB" not in symptom["summary"]


ROOM = """\
[2026-04-10 10:00:00] server_args=ServerArgs(model_path='/models/Llama-3.1-8B', context_length=32768, dtype='auto', \
kv_cache_dtype='auto', mem_fraction_static={fraction}, max_total_tokens=None, page_size=1, tp_size=1)
[2026-04-10 10:00:01] Load weight begin. avail mem=21.90 GB
[2026-04-10 10:00:01] Load weight end. type=LlamaForCausalLM, avail mem=6.60 GB, mem usage=15.30 GB.
[2026-04-10 10:00:01] KV Cache is allocated. #tokens: {tokens}, K size: {half} GB, V size: {half} GB
[2026-04-10 10:00:01] Memory pool end. avail mem={after} GB
[2026-04-10 10:00:02] Capture cuda graph begin. This can take up to several minutes. avail mem={after} GB
[2026-04-10 10:00:02] Capture cuda graph end. Time elapsed: 12.31 s. mem usage=1.10 GB. avail mem={end} GB.
[2026-04-10 10:00:02] max_total_num_tokens={tokens}, chunked_prefill_size=8192, max_prefill_tokens=16384, \
max_running_requests=2048, context_len=32768, available_gpu_mem={end} GB
[2026-04-10 10:00:03] The server is fired up and ready to roll!
"""


def test_a_larger_pool_comes_before_a_shorter_context_where_none_holds_a_request() -> None:
    launch = launch_of(ROOM.format(fraction="0.8", tokens=18186, half="1.11", after="4.36", end="3.26"))
    grow, shorten = short_pool(launch)["remedies"][:2]
    assert (grow["flag"], grow["direction"], grow["to"]) == ("--mem-fraction-static", "raise", "0.865")
    assert grow["effect"]["kv_tokens"]["to"] == pytest.approx(29_847, abs=5)
    assert grow["effect"]["free_gib"]["to"] >= 1.83
    assert "tokens short of one full-length request" in grow["note"] and "1.42 GiB" in grow["cost"]
    assert shorten["flag"] == "--context-length"
    assert "Raise --mem-fraction-static from 0.8 to 0.865: about 29,850 tokens (+64 %)." in launch["verdict"]
    assert launch["turn"] == "up"


def test_a_pool_that_leaves_no_more_than_is_wanted_is_not_enlarged() -> None:
    launch = launch_of(ROOM.format(fraction="0.865", tokens=29847, half="1.82", after="2.94", end="1.84"))
    assert short_pool(launch)["remedies"][0]["flag"] == "--context-length"


def test_a_pool_that_the_loader_keeps_small_is_enlarged_by_the_release_that_does_not() -> None:
    launch = launch_of((CORPUS / "devstral-24b-awq-2x3090-negative-graph" / "log.txt").read_text())
    assert [remedy["flag"] for remedy in short_pool(launch)["remedies"]] == ["upgrade", "--context-length"]
