"""What a fragment of a log does not show is not known: neither none, nor passed, nor where the log ends."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.text import render
from kvdiag.diagnosis.texts import Log

KIMI = (Path(__file__).parents[1] / "corpus" / "kimi-k25-8gpu" / "log.txt").read_text().splitlines(keepends=True)
LOADED = next(line for line in KIMI if "Load weight end" in line and "TP0" in line)
LIMITS = next(line for line in KIMI if "max_total_num_tokens=" in line and "server_args" not in line)


def launch_of(text: str) -> dict[str, Any]:
    (launch,) = diagnose(Log("log", io.BytesIO(text.encode()))).document["launches"]
    return launch


def test_one_line_supports_no_check_but_the_one_whose_figures_it_has() -> None:
    launch = launch_of(LOADED)
    assert [p["rule"] for p in launch["checks"]["passed"]] == ["weights-near-limit"]
    because = {x["rule"]: x["because"] for x in launch["not_run"]}
    assert because["host-oom-kill"] == "the log has neither the beginning of a start nor its end"
    assert because["thin-slack-after-capture"] == "the log does not tell what is free at the end of the start"
    assert because["min-over-ranks"] == "the log does not tell what several ranks have free after loading"


def test_a_summary_line_lets_its_own_figures_pass() -> None:
    passed = {p["rule"] for p in launch_of(LIMITS)["checks"]["passed"]}
    assert {"pool-below-one-request", "thin-slack-after-capture"} <= passed and "host-oom-kill" not in passed


def test_where_a_log_ends_is_told_only_of_one_that_begins_with_a_start() -> None:
    assert launch_of(LOADED)["verdict"].startswith("The log shows part of a start, without its beginning. No verdict")
    begun = LOADED.replace("Load weight end", "Load weight begin") + LOADED
    assert launch_of(begun)["verdict"].startswith("The log ends while the KV pool is made")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LOADED, "at least 1 × GPU"),
        (f"python -m sglang.launch_server --model-path m --tp-size 8\n{LOADED}", "1 of 8 GPUs in the log"),
        (f"python -m sglang.launch_server --model-path m\n{LOADED}", " 1 × GPU"),
        (LOADED.replace(" TP0]", "]"), " 1 × GPU"),
        (LOADED.replace(" TP0]", " TP5]"), "1 of at least 6 GPUs in the log · at least 6 TP ranks seen"),
    ],
)
def test_ranks_that_no_argument_tells_are_a_lower_bound(text: str, said: str) -> None:
    head = render(diagnose(Log("log", io.BytesIO(text.encode()))), "text").splitlines()[0]
    assert said in head and ("at least" in head) == ("at least" in said)


def test_the_end_of_a_traceback_shows_whose_it_is() -> None:
    frame = '  File "{path}/mem_cache/memory_pool_host.py", line 240, in init_kv_buffer\n    return torch.empty(\n'
    error = "RuntimeError: CUDA error: invalid argument\n"
    launch = launch_of(frame.format(path="/app/python/sglang/srt") + error)
    assert (launch["outcome"], launch["failure"]["message"]) == ("failed", error.strip())
    assert diagnose(Log("log", io.BytesIO((frame.format(path="/app") + error).encode()))).is_sglang is False


def test_what_another_process_does_later_is_not_where_it_failed() -> None:
    launch = launch_of(
        "(WorkerDict pid=11) RuntimeError: CUDA error: an illegal memory access was encountered\n"
        "(WorkerDict pid=11) [2025-05-23 18:02:42] Received sigquit from a child process. It usually means the child"
        " failed.\n"
        "(WorkerDict pid=12) Capturing batches (avail_mem=28.99 GB): 100%|#####| 23/23 [00:08<00:00,  2.81it/s]\n"
    )
    assert launch["verdict"].startswith("Failed. It ended")


def test_a_remark_on_the_cache_is_no_line_that_was_not_understood() -> None:
    launch = launch_of(LOADED + "[2026-03-01 10:00:00 TP0] KV cache is forced as chunk cache for decode server\n")
    assert launch["not_understood"] == []
