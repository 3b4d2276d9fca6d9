"""Kimi-K2.5 on eight cards: nothing was lost, memory limits the pool, no cap binds; and what else could be had."""

import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.ledger.what_if import Change, scenario
from kvdiag.diagnosis.lines import Log
from kvdiag.diagnosis.markdown import to_markdown
from kvdiag.diagnosis.text import render

CORPUS = Path(__file__).parent.parent / "corpus"


@cache
def document(case: str = "kimi-k25-8gpu") -> dict[str, Any]:
    with (CORPUS / case / "log.txt").open("rb") as stream:
        return diagnose(Log("server.log", stream)).document


def launch() -> dict[str, Any]:
    (only,) = document()["launches"]
    return only


def what_if(**change: Any) -> dict[str, Any]:
    return scenario(launch(), Change(**change)).to_document()


def test_the_budget_is_what_is_left_less_the_reserve() -> None:
    budget = launch()["kv_cache"]["budget"]
    assert budget["kv_gib"] == pytest.approx(21.71 - 94.04 * 0.12, abs=1e-3)
    assert budget["reserve_gib"] == pytest.approx(11.285, abs=1e-3)
    assert budget["tokens"] == pytest.approx(159_294, abs=2)
    assert budget["error_percent"] == pytest.approx(0.01, abs=0.005)


def test_memory_limits_the_pool_and_no_cap_binds() -> None:
    cache_ = launch()["kv_cache"]
    assert cache_["limited_by"] == "memory"
    assert cache_["requests"]["state"] == "cleared"


def test_every_gib_between_the_readings_is_booked() -> None:
    for rank in launch()["ranks"]:
        assert rank["opening_gib"] == 94.04
        assert abs(rank["unexplained_gib"]) < 0.05


def test_the_start_is_healthy() -> None:
    assert [f["severity"] for f in launch()["findings"] if f["severity"] in ("critical", "warning")] == []
    assert launch()["outcome"] == "ready"


def test_a_fraction_of_0904_keeps_the_wanted_free_memory() -> None:
    answer = what_if(mem_fraction_static=0.904)
    assert answer["tokens"]["after"] == pytest.approx(193_800, abs=100)
    assert answer["free_gib"]["after"] == pytest.approx(5.0, abs=0.06)
    assert launch()["kv_cache"]["fractions"]["keeps_wanted_free"] == 0.904


def test_a_fraction_of_092_leaves_less_than_wanted_and_says_so() -> None:
    answer = what_if(mem_fraction_static=0.92)
    assert answer["tokens"]["after"] == pytest.approx(216_800, abs=100)
    assert answer["free_gib"]["after"] == pytest.approx(3.45, abs=0.01)
    assert any("under the 5.00 GiB wanted" in text for text in answer["cautions"])


def test_below_0770_there_is_no_start() -> None:
    assert launch()["kv_cache"]["fractions"]["smallest_that_starts"] == 0.77
    assert "0.7691" in what_if(mem_fraction_static=0.55)["refused"]


def test_an_eight_bit_cache_doubles_the_tokens_with_its_caveat() -> None:
    answer = what_if(kv_cache_dtype="fp8_e4m3")
    assert answer["tokens"]["after"] == pytest.approx(2 * 159_277, rel=0.001)
    assert any("worse" in text for text in answer["cautions"])


def test_dp_attention_ends_the_eightfold_copy() -> None:
    answer = what_if(dp_attention=8)
    assert answer["total_tokens"]["after"] == pytest.approx(8 * answer["tokens"]["after"])


def test_a_host_tier_takes_host_memory_and_runs_no_more_requests() -> None:
    answer = what_if(hicache_ratio=4.0)
    assert answer["host_gb"]["after"] == pytest.approx(44.8, abs=0.05)
    assert answer["requests"]["after"] == answer["requests"]["before"]


def test_the_same_launch_at_055_is_refused_upwards() -> None:
    (refused,) = document("kimi-k25-8gpu-refused")["launches"]
    assert (refused["outcome"], refused["failure"]["kind"]) == ("failed", "sizing")
    raises = [r for f in refused["findings"] for r in f["remedies"] if r["flag"] == "--mem-fraction-static"]
    assert {r["direction"] for r in raises} == {"raise"}
    assert "0.7691" in refused["verdict"]


def test_the_operators_wrong_product_appears_nowhere() -> None:
    with (CORPUS / "kimi-k25-8gpu/log.txt").open("rb") as stream:
        report = diagnose(Log("server.log", stream))
    everything = json.dumps(report.document) + render(report, "text") + to_markdown(report.document)
    assert "19.10" not in everything and "19.1 " not in everything


def test_the_story_is_read_from_standard_input_alike() -> None:
    raw = (CORPUS / "kimi-k25-8gpu/log.txt").read_bytes()
    assert diagnose(Log("server.log", io.BytesIO(raw))).document == document()


def test_what_was_taken_after_the_last_reading_stands_below_what_is_free() -> None:
    log = (
        "[2026-05-19 03:23:35] Load weight end. type=A, dtype=torch.bfloat16, avail mem=35.23 GB, mem usage=58.91 GB.\n"
        "[2026-05-19 03:23:35] KV Cache is allocated. #tokens: 256000, KV size: 18.68 GB\n"
    )
    found = diagnose(Log("log", io.BytesIO(log.encode())))
    shown = [line.split()[:4] for line in render(found, "text").splitlines()]
    assert ["Free", "35.23", "37.4%"] in [words[:3] for words in shown]
    assert ["then", "KV", "cache", "18.68"] in shown


def test_a_log_that_begins_in_the_middle_of_a_start_has_no_time_to_readiness() -> None:
    log = b"""[2026-09-23 08:24:42 TP0] max_total_num_tokens=2226368, chunked_prefill_size=8192, \
max_prefill_tokens=16384, max_running_requests=16, context_len=1048576, available_gpu_mem=39.67 GB
[2026-09-23 08:24:51] The server is fired up and ready to roll!
"""
    whole = b"[2026-09-23 08:20:00 TP0] Load weight begin. avail mem=77.53 GB\n" + log
    assert diagnose(io.BytesIO(log)).document["launches"][0]["ready_after_s"] is None
    assert diagnose(io.BytesIO(whole)).document["launches"][0]["ready_after_s"] == 291.0
