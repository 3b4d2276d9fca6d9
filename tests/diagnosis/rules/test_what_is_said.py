"""Statements that would mislead are not made: of ranks, of resumed pages, of figures that look alike, of upgrades."""

from __future__ import annotations

import io
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.texts import Log
from kvdiag.diagnosis.units import GIB, MIB, format_apart


def launch_of(text: str) -> dict[str, Any]:
    return diagnose(Log("log", io.BytesIO(text.encode()))).document["launches"][-1]


def rules_of(launch: dict[str, Any]) -> set[str]:
    return {finding["rule"] for finding in launch["findings"]}


@pytest.mark.parametrize(("least", "cleared"), [("9.70", True), ("4.80", False)])
def test_ranks_that_differ_are_not_said_to_be_alike(least: str, cleared: bool) -> None:
    launch = launch_of(
        f"[2026-03-01 10:01:00 PP0 TP0] Load weight end. type=M, avail mem={least} GB, mem usage=60.00 GB."
        "\n[2026-03-01 10:01:00 PP1 TP0] Load weight end. type=M, avail mem=9.80 GB, mem usage=60.00 GB.\n"
    )
    assert any("holds the others back" in c["claim"] for c in launch["cleared"]) == cleared


SAVER = (
    "[2026-03-01 10:00:00 TP0] Load weight begin. avail mem=60.12 GB\n"
    "(Rollout pid=7) [torch_memory_saver.cpp] CUresult error  result=2 file=csrc/utils.h func=cu_mem_create line=103\n"
)


def test_pages_missing_in_the_first_load_are_no_resume() -> None:
    assert rules_of(launch_of(SAVER)) == {"weights-exceed-gpu"}
    resumed = SAVER + '  File "/sglang/srt/managers/scheduler.py", line 9, in resume_memory_occupation\n'
    assert "colocate-resume-before-trainer-release" in rules_of(launch_of(resumed))


def test_a_release_that_aborts_one_request_is_not_told_to_upgrade() -> None:
    lived = launch_of("[2026-03-01 10:00:10 TP0] retract_decode: aborted last request 0a1b2c due to OOM\n")
    ended = launch_of("ValueError: Failed to retract any request. No space left for only one request.\n")
    for launch, severity, upgrade in ((lived, "warning", False), (ended, "critical", True)):
        (found,) = [f for f in launch["findings"] if f["rule"] == "single-request-exceeds-pool"]
        assert found["severity"] == severity
        assert ("upgrade" in {r["flag"] for r in found["remedies"]}) == upgrade


def test_sizes_that_round_alike_are_told_apart() -> None:
    assert format_apart(128 * MIB, round(125.56 * MIB)) == ("0.125 GiB", "0.123 GiB")
    assert format_apart(2 * GIB, GIB) == ("2.00 GiB", "1.00 GiB")
    assert format_apart(GIB, GIB) == ("1.00 GiB", "1.00 GiB")


def test_a_capture_of_the_draft_is_named_as_such() -> None:
    launch = launch_of(
        "[10:00:01] Memory pool end. avail mem=1.27 GB\n"
        "[10:00:05] Capture draft extend CUDA graph begin. backend=full, num_tokens_per_req=4, bs=[1, 2],"
        " avail mem=0.14 GB\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 128.00 MiB.\n"
        "GPU has a total capacity of 95.01 GiB of which 125.56 MiB is free.\n"
    )
    (found,) = [f for f in launch["findings"] if f["rule"] == "decode-graph-oom"]
    assert "graphs of the draft model" in found["summary"]
    assert "0.125 GiB were asked for with 0.123 GiB free" in found["summary"]


TRACEBACK = """Traceback (most recent call last):
  File "/opt/{where}", line 40, in create_weights
{error}
"""


def test_a_traceback_through_the_server_is_a_log_of_it() -> None:
    error = "ValueError: 192 is not divisible by 128"
    launch = launch_of(TRACEBACK.format(where="sglang/srt/layers/quantization/fp8.py", error=error))
    assert rules_of(launch) == {"not-memory"}
    foreign = TRACEBACK.format(where="trainer/layers/fp8.py", error=error)
    assert not diagnose(Log("log", io.BytesIO(foreign.encode()))).document["launches"]


def test_invalid_argument_without_a_figure_is_not_cleared_of_memory() -> None:
    launch = launch_of(
        TRACEBACK.format(where="sglang/srt/distributed/reduce.py", error="RuntimeError: invalid argument")
    )
    assert rules_of(launch) == set()


LOADING = """python3 -m sglang.launch_server --model-path m --tp 2 --mem-fraction-static 0.9
[2026-03-01 10:00:00 TP1] Load weight begin. avail mem=60.10 GB
[2026-03-01 10:00:10 TP1] Scheduler hit an exception: Traceback (most recent call last):
  File "/opt/sglang/srt/model_loader/loader.py", line 480, in load_model
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.38 GiB. GPU 1 has a total capacity of 94.97 GiB of\
 which 1.02 GiB is free. Process 90211 has {other} GiB memory in use. Process 90399 has {own} GiB memory in use. Of the\
 allocated memory {own} GiB is allocated by PyTorch, and 12.00 MiB is reserved by PyTorch but unallocated.
"""


def test_another_process_beside_a_load_is_no_reason_to_turn_the_fraction() -> None:
    launch = launch_of(LOADING.format(other="34.00", own="59.00"))
    assert rules_of(launch) == {"other-process-on-gpu"}
    (found,) = launch["findings"]
    assert {remedy["flag"] for remedy in found["remedies"]} == {"other processes"}


def test_weights_that_fill_the_card_beside_another_process_are_named_too() -> None:
    assert "weights-exceed-gpu" in rules_of(launch_of(LOADING.format(other="4.00", own="89.00")))


def test_a_refused_pool_of_states_beside_free_memory_asks_for_a_higher_fraction_first() -> None:
    (found,) = launch_of(
        "[2026-03-01 10:00:00 TP0] Load weight begin. avail mem=30.90 GB\n"
        "[2026-03-01 10:00:30 TP0] Load weight end. elapsed=30 s, type=M, avail mem=8.10 GB, mem usage=22.80 GB.\n"
        "[2026-03-01 10:00:31 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        "RuntimeError: Not enough GPU memory for hybrid (mamba/linear-attention) state cache. Computed"
        " max_mamba_cache_size=0 (total_rest_memory=0.42 GB, mamba_cache_per_req=74.25 MB). Try: (1) reduce\n"
    )["findings"]
    first = found["remedies"][0]
    assert (first["flag"], first["direction"], first["to"]) == ("--mem-fraction-static", "raise", "0.916")


def test_a_watchdog_that_ran_out_is_not_said_to_be_a_lost_partner() -> None:
    launch = launch_of(
        "[2026-03-01 10:00:31] max_total_num_tokens=1204000, chunked_prefill_size=8192, max_prefill_tokens=16384,"
        " max_running_requests=2048, context_len=32768, available_gpu_mem=9.40 GB\n"
        "[2026-03-01 10:07:52] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)\n"
        "[2026-03-01 10:07:52] SIGQUIT received. signum=None, frame=None. It usually means one child failed.\n"
    )
    assert launch["failure"]["kind"] == "other"
    assert "lost each other" not in launch["verdict"]


def test_a_draft_that_overflows_in_its_first_load_is_named_without_arguments() -> None:
    launch = launch_of(
        "[2026-03-01 10:00:00 TP0] Load weight begin. avail mem=78.40 GB\n"
        "[2026-03-01 10:01:00 TP0] Load weight end. type=M, avail mem=43.40 GB, mem usage=35.00 GB.\n"
        "[2026-03-01 10:01:01 TP0] Memory pool end. avail mem=9.10 GB\n"
        "[2026-03-01 10:01:02 TP0] Load weight begin. avail mem=8.90 GB\n"
        "[2026-03-01 10:01:20 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "/opt/sglang/srt/model_loader/loader.py", line 120, in load_model\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.10 GiB. GPU 0 has a total capacity of 79.11"
        " GiB of which 8.50 GiB is free.\n"
    )
    assert "draft-weights-uncounted" in rules_of(launch)


def test_a_batch_systems_words_for_a_kill_count_before_the_lost_partner() -> None:
    launch = launch_of(
        "0: [2026-03-01 10:10:01 TP0] Memory pool end. avail mem=13.90 GB\n"
        "1: slurmstepd: error: Detected 1 oom_kill event in StepId=991.0. Some of the step tasks were OOM Killed.\n"
        "0: [2026-03-01 10:10:30 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        "0: RuntimeError: [gloo/transport/tcp/pair.cc:525] Connection closed by peer [10.0.0.2]:21990\n"
    )
    assert "host-oom-kill" in rules_of(launch)
    assert launch["failure"]["kind"] == "host_oom"


LATENT = (
    "[2026-03-01 10:10:00 TP{n}] Load weight end. elapsed=9.1 s, type=DeepseekV3ForCausalLM, avail mem=50.40 GB,"
    " mem usage=44.50 GB.\n"
    "[2026-03-01 10:10:01 TP{n}] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 540000, KV size: 35.34 GB\n"
    "[2026-03-01 10:10:01 TP{n}] Memory pool end. avail mem=13.90 GB\n"
)


@pytest.mark.parametrize(("last", "said", "to"), [(8, "at least 9 times", None), (7, "held 8 times", "8")])
def test_a_rank_that_happens_to_be_seen_last_makes_no_count(last: int, said: str, to: str | None) -> None:
    findings = launch_of(LATENT.format(n=0) + LATENT.format(n=last))["findings"]
    (found,) = [f for f in findings if f["rule"] == "mla-kv-replicated"]
    assert said in found["summary"]
    assert next(r["to"] for r in found["remedies"] if r["flag"] == "--dcp-size") == to


def test_a_killed_server_is_not_told_to_fill_what_was_free() -> None:
    started = (
        "[2026-03-01 10:00:00 TP0] Load weight begin. avail mem=139.80 GB\n"
        "[2026-03-01 10:10:14 TP0] max_total_num_tokens=750000, chunked_prefill_size=8192, max_prefill_tokens=16384,"
        " max_running_requests=48, context_len=131072, available_gpu_mem=25.00 GB\n"
        "[2026-03-01 10:10:15] The server is fired up and ready to roll!\n"
    )
    assert "big-free-memory-left" in rules_of(launch_of(started))
    assert "big-free-memory-left" not in rules_of(launch_of(f"{started}Killed\n"))


@pytest.mark.parametrize(("states", "tokens", "queued", "named"), [
    ("0.98", "0.20", 12, True), ("0.89", "0.20", 12, False), ("0.98", "0.95", 12, False), ("0.98", "0.20", 0, False),
])  # fmt: skip
def test_state_slots_that_are_full_while_requests_wait_are_named(
    states: str, tokens: str, queued: int, named: bool
) -> None:
    launch = launch_of(
        "[2026-03-01 10:00:42] The server is fired up and ready to roll!\n"
        f"[2026-03-01 10:02:42 TP0] Decode batch, #running-req: 9, #full token: 60000, full token usage: {tokens},"
        f" mamba num: 40, mamba usage: {states}, cuda graph: True, gen throughput (token/s): 100.00, #queue-req:"
        f" {queued},\n"
    )
    assert ("mamba-slots-cap-concurrency" in rules_of(launch)) == named


OVERFLOW = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.45 GiB. GPU 0 has a total capacity of 79.11 GiB of"
    " which 1.62 GiB is free. Of the allocated memory 76.50 GiB is allocated by PyTorch, and 0.10 GiB is reserved by"
    " PyTorch but unallocated.\n"
)


def test_an_overflow_in_a_decode_step_is_no_prefills() -> None:
    launch = launch_of(
        "[2026-03-01 10:00:09 TP0] Prefill batch. #new-seq: 1, #new-token: 8192, #cached-token: 0, token usage: 0.50,"
        " #running-req: 9, #queue-req: 0, \n"
        "[2026-03-01 10:00:10 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "/sglang/srt/managers/scheduler.py", line 1131, in event_loop_overlap\n'
        '  File "/sglang/srt/model_executor/model_runner.py", line 2210, in forward_decode\n' + OVERFLOW
    )
    (found,) = [f for f in launch["findings"] if f["severity"] == "critical"]
    assert found["rule"] == "transient-exceeds-slack"
    flags = [r["flag"] for r in found["remedies"]]
    assert flags[0] == "--max-running-requests" and "--chunked-prefill-size" not in flags


@pytest.mark.parametrize(
    "head", ["Exception in run_tp_server:\nTraceback (most recent call last):", "Exception in run_tp_server:"]
)
def test_the_head_of_a_cut_traceback_is_not_quoted_as_the_error(head: str) -> None:
    free = "[23:17:01 TP4] Memory pool end. avail mem=18.66 GB\n"
    launch = launch_of(
        f"{free}[23:17:02 TP4] Capture cuda graph begin. This can take up to several minutes.\n[23:17:08 TP4] {head}\n"
    )
    assert launch["outcome"] == "failed"
    assert "run_tp_server" not in launch["verdict"] and "not in the log" in launch["verdict"]
    alone = launch_of(f"[23:17:08 TP4] {head}\n")
    assert "before the line that names the error" in alone["verdict"]


def test_a_kill_after_host_pools_offers_smaller_ones() -> None:
    pools = "".join(
        f"[2026-03-01 10:00:0{n} DisaggregationMode.DECODE TP{n}] Allocating 40.00 GB host memory for hierarchical KV"
        " cache.\n"
        for n in range(4)
    )
    dead = "[2026-03-01 10:01:00] Rank 2 scheduler is dead. Please check if there are relevant logs.\nExit code: -9\n"
    launch = launch_of(pools + dead)
    found = {f["rule"]: f for f in launch["findings"]}
    assert "--hicache-size" in {r["flag"] for r in found["host-oom-kill"]["remedies"]}
    assert "160 GB" in found["hicache-per-rank-and-per-pool"]["summary"]


LIMITS = (
    "[2026-03-01 10:00:20] max_total_num_tokens=535124, chunked_prefill_size=8192, max_prefill_tokens=16384,"
    " max_running_requests={}, context_len=2048, available_gpu_mem=19.66 GB\n"
)


@pytest.mark.parametrize(("requests", "advised"), [(32, False), (4096, True)])
def test_no_larger_pool_is_advised_where_requests_cannot_fill_it(requests: int, advised: bool) -> None:
    launch = launch_of(
        "[2026-03-01 10:00:00] Load weight end. type=M, avail mem=59.87 GB, mem usage=20.00 GB.\n"
        + LIMITS.format(requests)
    )
    found = {f["rule"]: f for f in launch["findings"]}
    assert bool(found["big-free-memory-left"]["remedies"]) == advised
    assert ("--mem-fraction-static" in launch["verdict"]) == advised


def test_a_reading_before_the_capture_is_not_called_the_end() -> None:
    text = (
        "[20:52:05] Load weight end. elapsed=2.57 s, type=M, avail mem=14.47 GB, mem usage=8.62 GB.\n"
        "[20:52:05] Memory pool end. avail mem=3.40 GB\n"
    )
    ready = "[20:53:40] The server is fired up and ready to roll!\n"
    begin = "[20:52:05] Capture cuda graph begin. This can take up to several minutes. avail mem=2.98 GB\n"
    for graphs, when, sure in ((begin, "before graphs were captured", "likely"), ("", "at the end", "certain")):
        (found,) = [f for f in launch_of(text + graphs + ready)["findings"] if f["rule"] == "no-fault"]
        assert when in found["summary"] and found["confidence"] == sure


PIECEWISE = (
    "[2026-06-10 13:08:34 TP7] Piecewise CUDA Graph failed with error: 'C' object has no attribute 'num_tokens'\n"
)
ADVICE = "To work around this error, add --disable-piecewise-cuda-graph to your launch command.\n"
CRASH = "[2026-06-10 13:08:34 TP7] Scheduler hit an exception: Traceback (most recent call last):\n"


def test_graphs_of_prefill_sizes_that_fail_are_switched_off_and_no_other_advice_is_refuted() -> None:
    launch = launch_of(PIECEWISE + ADVICE + CRASH)
    (found,) = [f for f in launch["findings"] if f["rule"] == "capture-error-not-memory"]
    assert [r["flag"] for r in found["remedies"]] == ["--disable-piecewise-cuda-graph"]
    assert not any("Possible solutions" in c["claim"] for c in launch["cleared"])
    assert launch["failure"]["stage"] == "cuda_graph"
    decode = launch_of("Exception: Capture cuda graph failed: invalid argument\n")
    assert any("Possible solutions" in c["claim"] for c in decode["cleared"])


def test_graphs_of_prefill_sizes_may_fail_while_serving() -> None:
    loop = '  File "/sglang/srt/managers/scheduler.py", line 1507, in run_event_loop\n'
    assert launch_of(PIECEWISE + ADVICE + CRASH + loop)["failure"]["stage"] == "serving"


def test_a_failed_collective_is_quoted() -> None:
    launch = launch_of(
        "p2p.cc:256 NCCL WARN hipIpcGetMemHandle failed : invalid argument\n"
        "RuntimeError: NCCL error: unhandled cuda error\n"
        "Rank 0 scheduler died during initialization (exit code: -3)\n"
    )
    assert launch["verdict"].endswith(
        "communication between ranks failed: RuntimeError: NCCL error: unhandled cuda error."
    )


def test_an_overflow_within_the_loader_did_not_come_before_the_load() -> None:
    frame = '  File "/sglang/srt/model_executor/model_runner.py", line 900, in load_model\n'
    assert "while the weights load" in launch_of(CRASH + frame + OVERFLOW)["verdict"]


def test_ranks_without_a_name_are_not_listed() -> None:
    wait = (
        "ValueError: TP rank {} could finish the model loading, but there are other ranks that didn't finish loading.\n"
    )
    launch = launch_of(wait.format(1) + CRASH + wait.format(2))
    assert launch["findings"][0]["ranks"] == ["TP7"]


ROUND = (
    "[2026-03-04 15:13:13] Load weight end. type=M, avail mem=101.90 GB, mem usage=15.10 GB.\n"
    "[2026-03-04 15:13:13] KV Cache is allocated. #tokens: {0}, K size: 1.25 GB, V size: 1.25 GB\n"
    "[2026-03-04 15:13:16] max_total_num_tokens={0}, chunked_prefill_size=8192, max_prefill_tokens=16384,"
    " max_running_requests=128, context_len=131072, available_gpu_mem=97.16 GB\n"
)


@pytest.mark.parametrize(
    ("command", "tokens", "flag"),
    [
        ("", 20480, "--max-total-tokens"),
        ("", 20417, "--mem-fraction-static"),
        ("python3 -m sglang.launch_server --model-path m --mem-fraction-static 0.2\n", 20480, "--mem-fraction-static"),
    ],
)
def test_a_small_round_pool_is_taken_for_a_capped_one(command: str, tokens: int, flag: str) -> None:
    launch = launch_of(command + ROUND.format(tokens))
    found = [f for f in launch["findings"] if f["rule"] in ("big-free-memory-left", "mem-fraction-too-low")]
    assert [r["flag"] for f in found for r in f["remedies"]] == [flag]


def test_nothing_is_promised_of_what_is_free_before_the_capture() -> None:
    launch = launch_of(
        "[2025-01-23 19:35:15 TP0] Load weight begin. avail mem=78.81 GB\n"
        "[2025-01-23 19:35:20 TP0] Load weight end. type=M, dtype=torch.bfloat16, avail mem=63.72 GB\n"
        "[2025-01-23 19:35:20 TP0] KV Cache is allocated. K size: 27.13 GB, V size: 27.13 GB.\n"
        "[2025-01-23 19:35:20 TP0] Memory pool end. avail mem=8.34 GB\n"
        "[2025-01-23 19:35:20 TP0] Capture cuda graph begin. This can take up to several minutes.\n"
        "[2025-01-23 19:35:27 TP0] Capture cuda graph end. Time elapsed: 6.57 s\n"
        "[2025-01-23 19:35:27 TP0] max_total_num_tokens=444500, max_prefill_tokens=16384, max_running_requests=2049,"
        " context_len=131072\n"
        "[2025-01-23 19:35:29] The server is fired up and ready to roll!\n"
    )
    assert launch["verdict"].startswith("Ready, nothing to fix.") and "leave about" not in launch["verdict"]


@pytest.mark.parametrize(("words", "told"), [("", ", in cache (swa_radix_cache.py, line 565)"), (": Gone.", ": Gone.")])
def test_an_error_without_words_is_told_with_its_place(words: str, told: str) -> None:
    launch = launch_of(
        "[2026-03-01 10:00:00 TP2] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "/sgl/srt/managers/scheduler.py", line 1165, in event_loop_overlap\n'
        "    batch = self.get_next_batch_to_run()\n"
        '  File "/sgl/srt/mem_cache/swa_radix_cache.py", line 565, in cache\n'
        "    assert old_prefix_len <= len(new_indices)\n"
        f"AssertionError{words}\n"
    )
    assert [f["summary"] for f in launch["findings"]] == [f"It ended, and not for want of memory: AssertionError{told}"]


def remedies_of(launch: dict[str, Any]) -> dict[str, str | None]:
    return {remedy["flag"]: remedy["to"] for finding in launch["findings"] for remedy in finding["remedies"]}


@pytest.mark.parametrize(("ranks", "to"), [((0, 1), None), ((0, 1, 2, 3), "8")])
def test_two_ranks_of_a_fragment_tell_no_size(ranks: tuple[int, ...], to: str | None) -> None:
    line = (
        "[2026-04-16 01:02:09 TP{rank}] CUDA out of memory. Tried to allocate 24.00 MiB. GPU {rank} has a total"
        " capacity of 47.37 GiB of which 4.31 MiB is free.\n"
    )
    loading = "Multi-thread loading shards:  50% Completed | 71/142 [00:12<00:12,  5.66it/s]\n"
    assert remedies_of(launch_of(loading + "".join(line.format(rank=n) for n in ranks)))["--tp-size"] == to


@pytest.mark.parametrize(("fraction", "raised"), [("0.99", False), ("0.5", True)])
def test_a_fraction_at_its_end_is_not_raised(fraction: str, raised: bool) -> None:
    launch = launch_of(
        "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static=" + fraction + "\n"
    )
    assert ("--mem-fraction-static" in remedies_of(launch)) == raised
    assert "--tp-size" in remedies_of(launch)


def test_a_full_request_table_is_not_told_to_estimate_tokens() -> None:
    launch = launch_of(
        "RuntimeError: alloc_req_slots runs out of memory. Please set a smaller number for `--max-running-requests`."
        " self.req_to_token_pool.available_size()=1, num_reqs=2,\n"
    )
    assert set(remedies_of(launch)) == {"--max-running-requests"}


def test_a_capture_that_names_no_reason_has_that_of_the_error_above() -> None:
    begun = "[2026-03-01 10:00:10 TP0] Capture target prefill CUDA graph begin. backend=breakable\n"
    error = "NotImplementedError: Breakable CUDA graph is not compatible with memory saver mode\n"
    bare = "Exception: Capture prefill CUDA graph failed\n"
    (found,) = launch_of(begun + error + bare)["findings"]
    assert found["summary"].endswith(error.strip())
    assert rules_of(launch_of(begun + bare)) == set()


def test_a_reason_ends_before_the_printed_advice() -> None:
    launch = launch_of(
        "Exception: Capture cuda graph failed: ptxas fatal Possible solutions: 1. set --mem-fraction-static\n"
    )
    (found,) = launch["findings"]
    assert found["summary"].endswith("not for want of memory: ptxas fatal")


def test_the_allocators_own_word_is_not_said_to_be_past_it() -> None:
    trace = "[2026-03-01 10:00:10 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
    for error, past in (
        ("torch.OutOfMemoryError: CUDA out of memory", False),
        ("RuntimeError: CUDA error: out of memory", True),
    ):
        (found,) = launch_of(trace + error + "\n")["findings"]
        assert ("past PyTorch's allocator" in found["summary"]) == past


OWN = (
    " Of the allocated memory 312.00 MiB is allocated by PyTorch, and 1.00 MiB is reserved by PyTorch but unallocated."
)
LISTED = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.02 GiB. GPU 4 has a total capacity of 79.18 GiB of"
    " which 835.81 MiB is free. Process 11 has 522.00 MiB memory in use. Process 12 has 49.48 GiB memory in use."
)


def test_which_listed_process_is_the_servers_own_is_not_guessed() -> None:
    trace = "[2026-03-01 10:00:10 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
    assert "other-process-on-gpu" in rules_of(launch_of(trace + LISTED + OWN + "\n"))
    assert "other-process-on-gpu" not in rules_of(launch_of(trace + LISTED + "\n"))


def test_the_trainer_beside_the_engine_is_no_foreign_process() -> None:
    resumed = (
        "[torch_memory_saver.cpp] cudaError error: 2 (out of memory)  file=csrc/core.cpp func=resume line=182\n"
        "[TP1] Scheduler hit an exception: Traceback (most recent call last):\n"
    )
    assert rules_of(launch_of(resumed + LISTED + OWN + "\n")) == {"colocate-resume-before-trainer-release"}


def test_a_dispatch_buffer_that_cannot_be_made_may_be_for_want_of_memory() -> None:
    launch = launch_of(
        "Capturing batches (bs=256 avail_mem=22.80 GB):   0%|          | 0/35 [00:02<?, ?it/s]\n"
        "[2026-03-01 10:00:10 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "/usr/lib/python3/dist-packages/deep_ep/buffer.py", line 153, in __init__\n'
        "    self.runtime.sync(device_ids, ipc_handles, root_unique_id)\n"
        "RuntimeError: Failed: CUDA error csrc/deep_ep.cu:279 'invalid argument'\n"
    )
    assert rules_of(launch) == set() and "not for want of memory" not in launch["verdict"]


def test_the_frames_below_an_overflow_may_show_that_it_is_a_trainers() -> None:
    launch = launch_of(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 58.15 GiB. GPU 0 has a total capacity of 139.81"
        " GiB of which 47.69 GiB is free. Process 11 has 3.24 GiB memory in use. Including non-PyTorch memory, this"
        " process has 88.83 GiB memory in use. Of the allocated memory 82.55 GiB is allocated by PyTorch, and 2.06 GiB"
        " is reserved by PyTorch but unallocated.\n"
        '  File "/root/slime/slime/utils/ppo_utils.py", line 672, in calculate_log_probs_and_entropy\n'
    )
    assert rules_of(launch) == {"trainer-logits-transient", "not-the-serving-engine"}


def test_a_pool_that_lacks_one_small_buffer_is_given_more_than_that() -> None:
    launch = launch_of(
        "[2026-03-01 10:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "/sglang/srt/mem_cache/memory_pool.py", line 600, in _create_buffers\n'
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 32.00 MiB. GPU 0 has a total capacity of 23.52"
        " GiB of which 13.00 MiB is free.\n"
    )
    (found,) = launch["findings"]
    assert found["rule"] == "kv-pool-oom" and "By at least 0.043" in found["remedies"][0]["note"]


def test_an_assertion_of_the_allocator_alone_is_no_shortage() -> None:
    launch = launch_of(
        "[2026-03-01 10:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        'RuntimeError: captures_underway.empty() INTERNAL ASSERT FAILED at "../c10/CUDACachingAllocator.cpp":2967\n'
    )
    assert launch["failure"]["kind"] == "assertion" and "memory ran out" not in launch["verdict"]


@pytest.mark.parametrize(("state", "told"), [(50.77, False), (6.28, True)])
def test_no_tokens_are_promised_where_a_flag_out_of_sight_may_have_set_the_states(state: float, told: bool) -> None:
    launch = launch_of(
        f"Mamba Cache is allocated. max_mamba_cache_size: 360, conv_state size: 0.99GB, ssm_state size: {state}GB\n"
        "KV Cache is allocated. #tokens: 228520, K size: 3.49 GB, V size: 3.49 GB\n"
        "max_total_num_tokens=228520, max_running_requests=72, available_gpu_mem=29.76 GB\n"
        "The server is fired up and ready to roll!\n"
    )
    summary = next(f["summary"] for f in launch["findings"] if f["rule"] == "big-free-memory-left")
    assert ("more KV tokens" in summary) == told


REFUSED = (
    "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static={now}. Raise"
    " --mem-fraction-static above {least} (minimum viable = 1 - available/pre = {least}).\n"
)


def test_a_fraction_above_the_printed_minimum_is_not_raised() -> None:
    launch = launch_of(REFUSED.format(now=0.95, least=0.923))
    assert remedies_of(launch).keys() == {"--max-mamba-cache-size", "--tp-size"}
    assert "must be above" not in launch["verdict"]
    (states, _) = launch["findings"][0]["remedies"]
    assert states["note"].startswith("Of a hybrid model alone")


def test_a_fraction_is_raised_by_more_than_the_least_that_starts() -> None:
    assert remedies_of(launch_of(REFUSED.format(now=0.94, least=0.942)))["--mem-fraction-static"] == "0.962"
    assert remedies_of(launch_of(REFUSED.format(now=0.94, least=0.96)))["--mem-fraction-static"] == "0.97"


@pytest.mark.parametrize(
    "told",
    [
        "export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True\n\npython -m sglang.launch_server --model-path m\n",
        "PYTORCH_NPU_ALLOC_CONF=expandable_segments:True python -m sglang.launch_server --model-path m\n",
        "docker run -e HF_TOKEN=x \\\n  -e PYTORCH_ALLOC_CONF='max_split_size_mb:64,expandable_segments:True' \\\n",
    ],
)
def test_nobody_is_told_to_set_segments_that_grow_already(told: str) -> None:
    full = (
        "RuntimeError: NPU out of memory. Tried to allocate 226.00 MiB (NPU 2; 60.96 GiB total capacity; 58.13 GiB"
        " already allocated; 58.13 GiB current active; 97.16 MiB free; 58.42 GiB reserved in total by PyTorch) If"
        " reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.\n"
    )
    assert "allocator-fragmentation" in rules_of(launch_of(full))
    launch = launch_of(told + full)
    assert "PYTORCH_NPU_ALLOC_CONF" not in remedies_of(launch) and "--mem-fraction-static" in remedies_of(launch)
    said = next(f for f in launch["findings"] if f["rule"] == "transient-exceeds-slack")
    assert "0.29 GiB lay reserved" in said["summary"] and "only" not in said["summary"]


def test_a_hint_broken_over_two_lines_is_no_setting() -> None:
    launch = launch_of(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 79.11"
        " GiB of which 210.00 MiB is free. Of the allocated memory 75.00 GiB is allocated by PyTorch, and 2.90 GiB is"
        " reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting\n"
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\nto avoid fragmentation.\n"
    )
    assert "PYTORCH_CUDA_ALLOC_CONF" in remedies_of(launch)


@pytest.mark.parametrize(("flags", "offered"), [("", True), (" --enable-eplb", False)])
def test_what_is_set_already_is_not_offered(flags: str, offered: bool) -> None:
    launch = launch_of(
        f"python -m sglang.launch_server --model-path m --tp 8 --dp 8 --enable-dp-attention{flags}\n\n"
        "[2025-06-11 12:56:08 DP3 TP3] all tokens: 467584, M: 261609, K: 7168, N: 4096\n"
        "[2025-06-11 12:56:08 DP3 TP3] num_recv_tokens_per_expert: [89856, 1664, 73728, 4352, 119296, 57216, 24576,"
        " 66560, 2688, 10496, 9344, 7808]\n"
    )
    assert "moe-receive-imbalance-transient" in rules_of(launch)
    assert ("--enable-eplb" in remedies_of(launch)) == offered


def test_an_overflow_in_few_words_is_one() -> None:
    launch = launch_of(
        "[2026-03-01 10:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        "torch.OutOfMemoryError: Tried to allocate 10.62 GiB\n"
    )
    assert launch["failure"]["kind"] == "gpu_oom" and launch["oom"][0]["tried_gib"] == 10.62
    assert rules_of(launch) == {"transient-exceeds-slack"}


@pytest.mark.parametrize(
    ("kind", "rule"),
    [("target verify", "draft-embed-dup-after-sizing"), ("target decode", "loader-memory-still-referenced")],
)
def test_what_comes_back_before_drafts_are_checked_is_the_drafts(kind: str, rule: str) -> None:
    launch = launch_of(
        "Memory pool end. avail mem=0.29 GB\n"
        f"Capture {kind} CUDA graph begin. backend=full, num_tokens_per_req=4, bs=[1, 2], avail mem=2.12 GB\n"
        f"Capture {kind} CUDA graph end. elapsed=1.61 s, mem usage=0.11 GB, avail mem=2.01 GB.\n"
        "max_total_num_tokens=13303, chunked_prefill_size=2048, max_prefill_tokens=16384, max_running_requests=8,"
        " context_len=8192, available_gpu_mem=1.82 GB\n"
    )
    assert rules_of(launch) & {"draft-embed-dup-after-sizing", "loader-memory-still-referenced"} == {rule}


@pytest.mark.parametrize(("more", "said"), [("max_total_tokens=None", True), ("...", False)])
def test_a_cap_is_cleared_only_where_the_arguments_tell_of_it(more: str, said: bool) -> None:
    launch = launch_of(
        f"[2026-08-28 21:19:23] server_args=ServerArgs(model_path='Qwen/Qwen3-8B', mem_fraction_static=0.6, {more})\n"
        "[2026-08-28 21:19:30] Load weight begin. avail mem=78.97 GB\n"
        "[2026-08-28 21:19:38] Load weight end. elapsed=7 s, type=Qwen3ForCausalLM, avail mem=63.01 GB,"
        " mem usage=15.96 GB.\n"
        "[2026-08-28 21:19:39] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 228430, K size: 15.71 GB,"
        " V size: 15.71 GB\n"
        "[2026-08-28 21:19:39] Memory pool end. avail mem=31.40 GB\n"
        "[2026-08-28 21:19:39] max_total_num_tokens=228430, chunked_prefill_size=8192, max_prefill_tokens=16384,"
        " max_running_requests=128, context_len=40960, available_gpu_mem=31.20 GB\n"
    )
    assert ("No cap holds the pool down" in [c["claim"] for c in launch["cleared"]]) == said


def test_few_round_tokens_beside_a_nearly_empty_card_were_asked_for() -> None:
    launch = launch_of(
        "[2026-02-09 03:51:07] max_total_num_tokens=20480, chunked_prefill_size=8192, max_prefill_tokens=16384,"
        " max_running_requests=128, context_len=131072, available_gpu_mem=58.02 GB\n"
    )
    assert {r["flag"] for f in launch["findings"] for r in f["remedies"]} >= {"--max-total-tokens"}
    assert "fraction" not in launch["verdict"]


def test_a_tiny_round_pool_is_not_doubled_by_smaller_tokens() -> None:
    launch = launch_of(
        "Mamba Cache is allocated. max_mamba_cache_size: 26652, conv_state size: 0.92GB, ssm_state size: 19.52GB\n"
        "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 8192, K size: 0.01 GB, V size: 0.01 GB\n"
    )
    (found,) = [f for f in launch["findings"] if f["rule"] == "pool-tiny"]
    assert [r["flag"] for r in found["remedies"]] == ["--max-total-tokens"]


def test_prose_that_names_the_command_tells_of_no_cap() -> None:
    launch = launch_of(
        "launch: bare sglang.launch_server, TP4, GPUs 0-3\n"
        "[2026-09-01 12:54:50 TP0] max_total_num_tokens=7650496, chunked_prefill_size=4096, max_prefill_tokens=16384,"
        " max_running_requests=32, context_len=65536, available_gpu_mem=55.47 GB\n"
    )
    assert not any("No cap" in c["claim"] for c in launch["cleared"])
