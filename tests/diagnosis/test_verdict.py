"""The verdict of each outcome, in plain words with direction and size, and the turn of the knob."""

from __future__ import annotations

import io
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.ledger.what_if import Change, scenario
from kvdiag.diagnosis.rules.catalogue import read_cases
from kvdiag.diagnosis.texts import Log
from kvdiag.diagnosis.units import times_or_percent

TESTS = Path(__file__).parents[1]
LOGS = TESTS / "diagnosis" / "rules" / "logs"


@cache
def launch_of(path: Path) -> dict[str, Any]:
    return diagnose(Log(path.name, io.BytesIO(path.read_bytes()))).document["launches"][-1]


def test_a_healthy_start_says_how_far_the_fraction_could_go() -> None:
    launch = launch_of(TESTS / "corpus" / "kimi-k25-8gpu" / "log.txt")
    assert launch["verdict"] == (
        "Ready, nothing to fix. 159,277 KV tokens on each of 8 GPUs, 7.43 GiB free. Memory limits the KV cache;"
        " a fraction of 0.904 would fit about 193,800 tokens (+22 %) and leave about 5.0 GiB."
    )
    assert launch["turn"] == "leave"


def test_a_refused_start_says_to_raise_and_above_which_value() -> None:
    launch = launch_of(TESTS / "corpus" / "kimi-k25-8gpu-refused" / "log.txt")
    assert launch["verdict"].startswith("Failed while the KV pool is made. The weights leave no room for the KV pool")
    assert "must be above 0.7691" in launch["verdict"]
    assert "Raise --mem-fraction-static from 0.55 to 0.88" in launch["verdict"]
    assert launch["turn"] == "up"


@pytest.mark.parametrize(
    ("log", "said", "turn"),
    [
        ("mem-fraction-too-low", "Raise --mem-fraction-static from 0.6 to", "up"),
        ("thin-slack-after-capture", "Lower --mem-fraction-static from 0.92 to", "down"),
        ("decode-graph-oom", "Failed while graphs are captured", "down"),
        ("weights-exceed-gpu", "The weights do not fit on the GPU while they load", "none"),
        ("host-oom-kill", "the host or the container ran out of memory", "none"),
        ("not-memory", "not for want of memory", "none"),
        ("no-fault", "Ready, nothing to fix", "none"),
        ("weights-near-limit.silent", "The log ends while the KV pool is made", "none"),
        ("full-pool-exhausted.silent", "The log shows serving, and no start or end of it", "none"),
    ],
)
def test_every_outcome_has_a_sentence_and_a_turn(log: str, said: str, turn: str) -> None:
    launch = launch_of(LOGS / f"{log}.log")
    assert said in launch["verdict"]
    assert launch["turn"] == turn


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.log")), ids=lambda p: p.name)
def test_a_verdict_is_short_and_ends_as_a_sentence(path: Path) -> None:
    verdict = launch_of(path)["verdict"]
    assert verdict.endswith(".")
    assert len(verdict) < 500
    assert "\n" not in verdict
    assert "None" not in verdict


START = (TESTS / "corpus" / "gemma4-31b-awq-2x3090-swa-ratio-json" / "log.txt").read_text().splitlines(keepends=True)


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (0, "The log shows the start and serving, and no line that says that the server is ready: 167,877 KV tokens"),
        (16, "The log shows part of the start and serving, and no line that says that the server is ready: "),
        (34, "The log shows serving, and no start or end of it."),
    ],
)
def test_a_log_that_serves_says_how_much_of_the_start_it_has(first: int, said: str) -> None:
    log = io.BytesIO("".join(START[first:]).encode())
    (launch,) = diagnose(Log("log", log)).document["launches"]
    assert launch["verdict"].startswith(said)


CASES = {case.slug: case.text for case in read_cases(TESTS / "cases")}


@pytest.mark.parametrize(
    ("slug", "said"),
    [
        ("healthy-l40s-0513-looks-thin", "Ready, nothing to fix. 154,200 KV tokens, 5.31 GiB free;"),
        ("h100-06-fraction-idle-24g", "Ready: 231,220 KV tokens. 24.35 GiB a GPU could hold KV cache: "),
        ("thin-after-capture-l40s-0513", "Ready: 506,240 KV tokens. Only 0.93 GiB are left free after the start;"),
        ("gemma27b-24g-042-not-enough", "Failed while the KV pool is made. The weights leave no room for the KV pool:"),
        (
            "lone-hip-error-oom-before-load",
            "Failed before the weights load. The card is full before anything",
        ),
        ("qwen72b-bf16-2xa6000-load-oom-k8s", "Failed while the weights load. The weights do not fit on the GPU"),
        (
            "wsl2-blackwell-hidden-16gib-mamba",
            "Failed while the KV pool is made. The device overflows while",
        ),
        ("draft-kv-overflow-third-layer", "Failed after the KV pool was made. A draft model's KV pool overflows:"),
        (
            "decode-graph-oom-4ranks-chained",
            "Failed while graphs are captured. The device overflows while",
        ),
        ("hicache-too-large-120-of-51", "Failed before it was ready. The host tier does not fit in the host's memory:"),
        ("prefill-16k-overflow-a100", "Failed while serving. A prefill batch of 16,384 new tokens overflows:"),
        ("rank-exit-minus9-while-loading", "Failed while the weights load. A process was killed from outside"),
        ("dmesg-oom-kill-scheduler", "Failed. A process was killed from outside while it was starting:"),
        (
            "config-error-missing-tokenizer",
            "Failed after the KV pool was made. It ended with 16.80 GiB free,",
        ),
        ("small-model-takes-all-t4", "The log ends while graphs are captured: 413,696 KV tokens. The KV pool takes"),
        (
            "control-141gb-11gb-left-healthy",
            "The log ends before the server says that it is ready: 801,000",
        ),
        (
            "control-tp2-graphs-11gb-left-healthy",
            "The log ends while graphs are captured: 11.17 GiB free. Nothing",
        ),
        ("pp8-uneven-layers-small-pool-dsv31", "The log shows no step of the start. No verdict on memory yet:"),
    ],
)
def test_each_outcome_says_where_and_what(slug: str, said: str) -> None:
    verdict = diagnose(Log(slug, io.BytesIO(CASES[slug].encode()))).document["launches"][-1]["verdict"]
    assert verdict.startswith(said)


@pytest.mark.parametrize("slug", CASES)
def test_no_verdict_says_what_is_free_twice(slug: str) -> None:
    for launch in diagnose(Log(slug, io.BytesIO(CASES[slug].encode()))).document["launches"]:
        free = re.findall(r"(\d+\.\d\d GiB) (?:free|are left free|stay free)", launch["verdict"])
        assert len(free) == len(set(free))
        assert "while arguments are read" not in launch["verdict"] or launch["outcome"] == "incomplete"


@pytest.mark.parametrize(
    ("slug", "lead"),
    [
        ("two-dp-workers-on-gpu0", "both use GPU 0"),
        ("foreign-vllm-holds-40g", "Another process holds 41.20 GiB"),
        ("wsl-hidden-17179869184-gib", "the driver under Windows holds memory out of sight"),
        ("swa-cap-9216-request-refused-pd", "the size of the window pool"),
        ("image-helper-on-gpu0-fast-processor", "image"),
    ],
)
def test_the_verdict_leads_with_the_cause_and_not_with_its_symptom(slug: str, lead: str) -> None:
    verdict = diagnose(Log(slug, io.BytesIO(CASES[slug].encode()))).document["launches"][-1]["verdict"]
    assert lead in verdict


def test_a_fifth_of_a_memory_that_the_host_shares_is_left_to_it() -> None:
    (launch,) = diagnose(Log("gb10", io.BytesIO(CASES["gb10-unified-85-percent"].encode()))).document["launches"]
    assert launch["verdict"].startswith("Ready, nothing to fix.")
    offered = {(r["flag"], r["direction"]) for f in launch["findings"] for r in f["remedies"]}
    assert ("--mem-fraction-static", "raise") not in offered
    roomy = launch_of(TESTS / "corpus" / "qwen25-15b-gb10-fp8kv" / "log.txt")
    (higher,) = [r for f in roomy["findings"] for r in f["remedies"] if r["flag"] == "--mem-fraction-static"]
    assert higher["effect"]["free_gib"]["to"] == pytest.approx(0.2 * 119.63, abs=0.2)
    assert roomy["kv_cache"]["wanted_free_gib"] == pytest.approx(0.2 * 119.63, abs=0.2)


def test_the_fraction_is_not_turned_where_another_remedy_comes_first() -> None:
    launch = launch_of(TESTS / "corpus" / "t4-cuda-oom-single-line" / "log.txt")
    first = next(finding for finding in launch["findings"] if finding["remedies"])["remedies"]
    assert first[0]["flag"] != "--mem-fraction-static"
    assert "--mem-fraction-static" in [remedy["flag"] for remedy in first]
    assert launch["turn"] == "none"


def sentences_of(value: Any) -> list[str]:
    """Every text of a document, whatever it is in."""
    if isinstance(value, str):
        return [value]
    found = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in found for text in sentences_of(each)]


HEALTHY = [*sorted((TESTS / "corpus").glob("*/log.txt")), *sorted(LOGS.glob("*.log"))]


@pytest.mark.parametrize("path", HEALTHY, ids=lambda path: path.parent.name if path.stem == "log" else path.stem)
def test_a_launch_called_healthy_is_nowhere_said_to_have_too_little_free(path: Path) -> None:
    for launch in diagnose(Log(path.name, io.BytesIO(path.read_bytes()))).document["launches"]:
        if not any(finding["rule"] == "no-fault" for finding in launch["findings"]):
            continue
        as_it_is = scenario(launch, Change()).to_document()
        asked_for_less = [lever for lever in launch["levers"] if _leaves_less(lever)]
        kept = {**launch, "levers": [lever for lever in launch["levers"] if lever not in asked_for_less]}
        remedies = [r for f in launch["findings"] for r in f["remedies"]]
        said = [text for text in sentences_of([kept, as_it_is["cautions"]]) if re.search(r"less than half of", text)]
        assert not said
        assert not any("under the" in text for text in as_it_is["cautions"])
        for remedy in remedies:  # nor is it told to take what is wanted
            free = remedy["effect"].get("free_gib")
            assert free is None or free["to"] >= min(free["from"], as_it_is["needed_free_gib"]) - 0.005


def _leaves_less(lever: dict[str, Any]) -> bool:
    free = lever["free_gib"] or {}
    return free.get("before") is not None and free.get("after") is not None and free["after"] < free["before"]


def test_a_shared_memory_is_judged_by_what_the_gpu_needs_and_changed_by_what_the_host_wants() -> None:
    launch = launch_of(TESTS / "corpus" / "deepseek-v41-flash-3x-gb10-args-dict" / "log.txt")
    assert launch["verdict"].startswith("Ready, nothing to fix. 2,999,808 KV tokens, 7.68 GiB free")
    assert not any(lever["lever"] == "host-tier" for lever in launch["levers"])  # the host's memory is the GPU's
    assert not scenario(launch, Change()).cautions
    uncapped = scenario(launch, Change(max_total_tokens=0))
    assert any("less than half of" in text or "under the" in text for text in uncapped.cautions)


def test_a_cap_is_told_once_with_what_the_memory_would_hold() -> None:
    launch = launch_of(TESTS / "corpus" / "llama31-8b-lora-notebook-three-adapters" / "log.txt")
    assert launch["verdict"] == (
        "Ready: 118.78 GiB free. --max-total-tokens 20,480 sets the pool, not the memory, which would hold about"
        " 914,131 tokens. Raise --max-total-tokens to 914131: 45 × as many tokens."
    )
    texts = " ".join(sentences_of(launch["findings"]))
    assert "932," not in texts
    assert launch["kv_cache"]["budget"]["memory_tokens"] == 914_131


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (100, 122, "+22 %"),
        (100, 55, "−45 %"),
        (100, 100.2, ""),
        (20_480, 914_131, "45 × as many"),
        (2, 7, "3.5 × as many"),
    ],
)
def test_a_change_is_told_in_per_cent_or_as_a_multiple(before: float, after: float, said: str) -> None:
    assert times_or_percent(before, after) == said


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (
            "Try to allocate 8192 tokens.\nAvailable full tokens: 899840 (full_available_size=11776 +"
            " full_evictable_size_=888064)\nAvailable swa: 3840 (available_size=3840 + component_evictable_size_=0)",
            "A batch of 8,192 tokens found 3,840 slots in the window pool while the full-attention pool had 899,840.",
        ),
        ("Try to allocate 64 tokens.\nAvaliable tokens: 12", "A batch of 64 tokens found 12 slots in the KV pool."),
        ("Try to allocate 64 tokens.\nAvailable tokens: 0", "A batch of 64 tokens found no slot in the KV pool."),
        ("", "A batch found no slot in the KV pool."),
    ],
)
def test_a_batch_without_a_slot_is_told_with_what_it_asked_for_and_what_was_left(told: str, said: str) -> None:
    log = f"Prefill out of memory. Try to lower your batch size.\n{told}\n"
    assert said in diagnose(Log("x", io.BytesIO(log.encode()))).document["launches"][-1]["verdict"]


@pytest.mark.parametrize("log", ["qwen3-30b-ascend-1p", "qwen3-4b-ipynb-output-strings"])
def test_a_lever_is_not_charged_with_what_was_free_before(log: str) -> None:
    launch = launch_of(TESTS / "corpus" / log / "log.txt")
    assert launch["verdict"].startswith("Ready, nothing to fix")
    tier = next(lever for lever in launch["levers"] if lever["lever"] == "host-tier")
    assert not any("free at the end" in cost for cost in tier["costs"])
    less = scenario(launch, Change(mem_fraction_static=launch["kv_cache"]["budget"]["mem_fraction_static"] + 0.005))
    assert any("under the" in text for text in less.cautions)


def test_no_8_bit_cache_is_offered_where_the_device_has_none() -> None:
    npu = launch_of(TESTS / "corpus" / "qwen3-30b-ascend-1p" / "log.txt")
    assert not any(lever["lever"] == "fp8-kv" for lever in npu["levers"])
    gpu = launch_of(TESTS / "corpus" / "qwen3-4b-ipynb-output-strings" / "log.txt")
    assert any(lever["lever"] == "fp8-kv" for lever in gpu["levers"])


@pytest.mark.parametrize(("code", "said"), [("-3", "-3 (SIGQUIT)"), ("1", "1")])
def test_a_rank_s_exit_code_alone_is_told_without_the_hint_beside_it(code: str, said: str) -> None:
    log = (
        '  File "/sgl/srt/entrypoints/engine.py", line 1277, in _wait_for_scheduler_ready\n'
        "    raise _scheduler_died_error(i, scheduler_procs[i])\n"
        f"RuntimeError: Rank 0 scheduler died during initialization (exit code: {code}). If exit code is -9 (SIGKILL), "
        "a common cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to check.\n"
    )
    (launch,) = diagnose(Log("log", io.BytesIO(log.encode()))).document["launches"]
    assert launch["verdict"] == (f"Failed: a rank's process ended with exit code {said}; why, the log does not say.")


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (
            "WorkNCCL(SeqNum=3, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600049"
            " milliseconds before timing out.",
            "a collective (ALLREDUCE) between the ranks did not end within 600 s.",
        ),
        ("WorkNCCL(S", "a collective between the ranks did not end within its time."),
    ],
)
def test_a_collective_that_timed_out_is_an_end(told: str, said: str) -> None:
    log = (
        "[2025-02-01 22:46:19 TP8] Load weight end. type=M, dtype=torch.bfloat16, avail mem=37.74 GB\n"
        "[rank8]:[E201 22:56:19.100000000 ProcessGroupNCCL.cpp:616] [Rank 8] Watchdog caught collective operation"
        f" timeout: {told}\n"
    )
    (launch,) = diagnose(Log("log", io.BytesIO(log.encode()))).document["launches"]
    assert launch["outcome"] == "failed"
    assert launch["verdict"] == f"Failed while the KV pool is made: {said}"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            "[2026-09-23 08:10:52 DP0 TP0] Allocating kv hierarchical KV host pool: 3423488 tokens, 153.81 GB host"
            " memory.\n"
            "[2026-09-23 08:10:52 DP1 TP1] Allocating kv hierarchical KV host pool: 3423488 tokens, 153.81 GB host"
            " memory.\n"
            "[2026-09-23 08:11:32 DP1 TP1] Allocating 35.25 GB host memory for DSA indexer (layout=page_first).\n"
            "[2026-09-23 08:11:32 DP0 TP0] Allocating 35.25 GB host memory for DSA indexer (layout=page_first).\n",
            "HiCache takes: 189.06 GB on each of the 2 ranks in it, 378.12 GB together. No verdict",
        ),
        (
            "[2025-12-02 07:04:51 TP1] Allocating 40.00 GB host memory for hierarchical KV cache.\n"
            "[2025-12-02 07:04:51 TP3] Allocating 30.00 GB host memory for hierarchical KV cache.\n",
            "HiCache takes: 40.00 GB at most on one of the 2 ranks in it, 70.00 GB together. No verdict",
        ),
        (
            "[2025-12-02 07:04:51] Allocating 40.00 GB host memory for hierarchical KV cache.\n",
            "HiCache takes: 40.00 GB. No verdict",
        ),
    ],
)
def test_a_log_of_host_pools_alone_tells_what_they_take(lines: str, said: str) -> None:
    verdict = diagnose(Log("log", io.BytesIO(lines.encode()))).document["launches"][-1]["verdict"]
    assert verdict.startswith("Of the start, the log shows only the host memory that HiCache takes: ")
    assert said in verdict


def test_a_log_that_ends_with_a_capture_says_after_it() -> None:
    assert launch_of(LOGS / "thin-slack-after-capture.silent.log")["verdict"].startswith(
        "The log ends after a capture of graphs: 2.52 GiB free. Nothing"
    )


def started_with(after_pool: float, arguments: str = "") -> str:
    """The verdict of a start whose pool of 24.72 GiB follows a reading of 31.80 GiB, with so much free after it."""
    free = after_pool - 0.6
    log = (
        "[2026-11-28 09:00:00] server_args=ServerArgs(model_path='Qwen/Qwen3-8B', mem_fraction_static=0.85"
        f"{arguments})\n"
        "[2026-11-28 09:00:07] Load weight begin. avail mem=47.20 GB\n"
        "[2026-11-28 09:00:20] Load weight end. type=Qwen3ForCausalLM, dtype=torch.bfloat16, avail mem=31.80 GB, mem"
        " usage=15.40 GB.\n"
        "[2026-11-28 09:00:21] KV Cache is allocated. #tokens: 180005, K size: 12.36 GB, V size: 12.36 GB\n"
        f"[2026-11-28 09:00:21] Memory pool end. avail mem={after_pool:.2f} GB\n"
        f"[2026-11-28 09:00:22] Capture cuda graph begin. This can take up to several minutes. avail"
        f" mem={after_pool:.2f} GB\n"
        f"[2026-11-28 09:00:30] Capture cuda graph end. Time elapsed: 8.00 s. mem usage=0.60 GB. avail mem={free:.2f}"
        " GB.\n"
        "[2026-11-28 09:00:31] max_total_num_tokens=180005, chunked_prefill_size=2048, max_prefill_tokens=16384,"
        f" max_running_requests=256, context_len=40960, available_gpu_mem={free:.2f} GB\n"
        "[2026-11-28 09:00:40] The server is fired up and ready to roll!\n"
    )
    (launch,) = diagnose(Log("log", io.BytesIO(log.encode()))).document["launches"]
    return str(launch["verdict"])


def test_much_memory_that_no_line_names_is_told_in_the_verdict() -> None:
    assert "4.96 GiB are unexplained: another program took them, or a step that prints no line." in started_with(2.08)
    assert "unexplained" not in started_with(5.30)
    assert "unexplained" not in started_with(2.08, ", enable_lora=True")
