"""Whose memory is short is told by what the lines show: the window's pool, a state's slots, a trainer, the host."""

from __future__ import annotations

import io
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.texts import Log

SAVER = "[torch_memory_saver.cpp] CUresult error: 2 (out of memory){where}\n"
LAST = """[2026-08-23 10:00:00 TP0] Decode batch, #running-req: 1, #full token: 97536, full token usage: {full}, \
#swa token: 13056, swa token usage: {window}, cuda graph: True, gen throughput (token/s): 21.3, #queue-req: 0
[2026-08-23 10:00:02 TP0] retract_decode: aborted last request 5b1e due to OOM
"""
NO_SLOT = """RuntimeError: Hybrid (mamba/linear-attention) state cache is too small to serve any requests. \
max_mamba_cache_size={slots}, mamba_ratio=5, resulting max_num_reqs=0. Try: raise --max-mamba-cache-size.
"""
OVERFLOW = """[2026-09-11 23:44:38 TP0] Load weight begin. avail mem=80.54 GB
[2026-09-11 23:45:53 TP0] Load weight end. elapsed=74.58 s, type=Qwen3ForCausalLM, avail mem=60.74 GB, \
mem usage=19.80 GB.
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of {card} GiB of \
which 1.12 GiB is free. Including non-PyTorch memory, this process has {own} GiB memory in use. Of the allocated \
memory 60.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.
"""
FRAGMENTS = """torch.OutOfMemoryError: {device} out of memory. Tried to allocate 768.00 MiB. GPU 0 has a total \
capacity of 15.87 GiB of which 860.50 MiB is free. Of the allocated memory 12.82 GiB is allocated by PyTorch, and 1.78 \
GiB is reserved by PyTorch but unallocated.
"""


def findings_of(text: str) -> dict[str, dict[str, Any]]:
    launch = diagnose(Log("log", io.BytesIO(text.encode()))).document["launches"][-1]
    return {finding["rule"]: finding for finding in launch["findings"]}


def flags(finding: dict[str, Any]) -> list[str]:
    return [remedy["flag"] for remedy in finding["remedies"]]


def test_a_last_request_that_a_full_window_pool_stops_asks_for_a_larger_window() -> None:
    full = findings_of(LAST.format(full="0.72", window="0.98"))["single-request-exceeds-pool"]
    assert "window pool is full (98 %)" in full["summary"]
    assert flags(full) == ["--swa-full-tokens-ratio"]
    both = findings_of(LAST.format(full="0.99", window="0.98"))["single-request-exceeds-pool"]
    assert "--swa-full-tokens-ratio" not in flags(both) and "--context-length" in flags(both)


def test_too_few_slots_for_one_request_are_not_mended_by_fewer_requests() -> None:
    found = findings_of(NO_SLOT.format(slots=4))["pool-refused"]
    assert "--max-running-requests" not in flags(found)
    assert next(r for r in found["remedies"] if r["flag"] == "--max-mamba-cache-size")["to"] == "5"


@pytest.mark.parametrize("where", ["", "  file=csrc/utils.h func=cu_mem_create line=194"])
def test_a_memory_saver_without_memory_is_named_with_or_without_its_call(where: str) -> None:
    found = findings_of(SAVER.format(where=where))["colocate-resume-before-trainer-release"]
    assert "again" in found["summary"] and flags(found) == ["trainer offload"]


def test_a_memory_saver_without_memory_at_the_start_is_no_resume() -> None:
    text = SAVER.format(where="") + "Rank 0 scheduler is dead.\nEOFError\n"
    found = findings_of(text)["colocate-resume-before-trainer-release"]
    assert "at its start" in found["summary"] and "--mem-fraction-static" in flags(found)


@pytest.mark.parametrize(("card", "own", "is_others"), [("139.80", "128.11", True), ("121.69", "110.00", False)])
def test_what_the_host_holds_of_shared_memory_is_no_other_process(card: str, own: str, is_others: bool) -> None:
    assert ("other-process-on-gpu" in findings_of(OVERFLOW.format(card=card, own=own))) == is_others


def test_growing_segments_are_no_sure_remedy_on_rocm() -> None:
    rocm = findings_of(FRAGMENTS.format(device="HIP"))["allocator-fragmentation"]
    assert "not supported on this platform" in rocm["remedies"][0]["note"]
    assert flags(rocm)[1:] == ["--mem-fraction-static"]
    cuda = findings_of(FRAGMENTS.format(device="CUDA"))["allocator-fragmentation"]
    assert len(cuda["remedies"]) == 1 and not cuda["remedies"][0].get("note")


@pytest.mark.parametrize(
    ("full", "states", "queue", "is_idle"),
    [("0.99", "0.01", 8, True), ("0.99", "0.60", 8, False), ("0.50", "0.01", 8, False), ("0.99", "0.01", 0, False)],
)
def test_idle_state_slots_beside_a_full_pool_are_given_to_tokens(
    full: str, states: str, queue: int, is_idle: bool
) -> None:
    line = f"""[2026-05-13 15:15:55 TP0] Decode batch, #running-req: 24, #full token: 3118656, full token usage: \
{full}, mamba num: 48, mamba usage: {states}, cuda graph: True, gen throughput (token/s): 625.38, #queue-req: {queue}
"""
    found = findings_of(line)
    assert ("mamba-share-too-large" in found) == is_idle
    if is_idle:
        assert flags(found["mamba-share-too-large"]) == ["--mamba-full-memory-ratio"]


SHARED = """{prefix}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 5.84 GiB. GPU 1 has a total \
capacity of 94.50 GiB of which 4.33 GiB is free. Process 281553 has 13.01 GiB memory in use. Including non-PyTorch \
memory, this process has 75.55 GiB memory in use. Of the allocated memory 65.20 GiB is allocated by PyTorch, and \
1.57 GiB is reserved by PyTorch but unallocated.
"""


def test_beside_an_engine_within_a_training_job_nobody_is_told_to_remove_the_jobs_own_worker() -> None:
    alone = findings_of(SHARED.format(prefix=""))["other-process-on-gpu"]
    assert flags(alone)[0] == "other processes"
    within = findings_of(SHARED.format(prefix="(WorkerDict pid=281552) "))["other-process-on-gpu"]
    assert flags(within)[0] == "trainer offload" and "training job" in within["why"]
