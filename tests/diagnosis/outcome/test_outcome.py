"""How a launch ended, what failed first, and what only followed."""

import io

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.events import Matcher
from kvdiag.diagnosis.launches import split_launches
from kvdiag.diagnosis.lines import LineReader, Log
from kvdiag.diagnosis.outcome import FailureKind, Outcome, Stage, judge


def outcome(*lines: str) -> Outcome:
    matcher = Matcher()
    text = "\n".join(lines) + "\n"
    launches = split_launches(
        matcher.read(LineReader([Log("a", io.BytesIO(text.encode()))], matcher.phrases, dense=matcher.dense))
    )
    return judge(launches[-1])


def at(second: int, text: str, rank: str = "TP0") -> str:
    prefix = f" {rank}" if rank else ""
    return f"[2026-03-01 10:{second // 60:02d}:{second % 60:02d}{prefix}] {text}"


LOAD = [at(1, "Load weight begin. avail mem=78.00 GB"), at(1, "Load weight begin. avail mem=78.00 GB", "TP1")]
LOADED = [
    *LOAD,
    *(
        at(9, "Load weight end. type=A, dtype=torch.bfloat16, avail mem=60.00 GB, mem usage=18.00 GB.", r)
        for r in ("TP0", "TP1")
    ),
]
POOL = [*LOADED, at(10, "Memory pool end. avail mem=19.00 GB"), at(10, "Memory pool end. avail mem=19.00 GB", "TP1")]
SUMMARY = [
    *POOL,
    at(
        20,
        "max_total_num_tokens=100000, chunked_prefill_size=8192, max_prefill_tokens=16384,"
        " max_running_requests=2048,"
        " context_len=8192, available_gpu_mem=15.00 GB",
    ),
]
READY = [*SUMMARY, at(25, "The server is fired up and ready to roll!", "")]
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB"
    " of which"
    " 1.00 GiB is free."
)
CRASH = "Scheduler hit an exception: Traceback (most recent call last):"
SIGQUIT = "Received sigquit from a child process. It usually means the child failed."
DECODE = "Decode batch. #running-req: 1, #token: 40, token usage: 0.01, gen throughput (token/s): 4.40, #queue-req: 0, "


@pytest.mark.parametrize(
    ("before", "stage"),
    [
        (LOAD, Stage.WEIGHTS),
        (LOADED, Stage.KV_CACHE),
        (POOL, Stage.CUDA_GRAPH),
        (SUMMARY, Stage.SERVING),
        (READY, Stage.SERVING),
    ],
)
def test_an_overflow_falls_in_the_stage_of_its_rank(before: list[str], stage: Stage) -> None:
    found = outcome(*before, at(30, CRASH), OOM)
    assert found.failure is not None
    assert (found.outcome, found.failure.kind, found.failure.stage) == ("failed", FailureKind.GPU_OOM, stage)


def test_a_rank_is_judged_by_its_own_steps() -> None:
    lines = [
        *LOAD,
        at(9, "Load weight end. type=A, avail mem=60.00 GB, mem usage=18.00 GB."),
        at(12, CRASH, "TP1"),
        OOM,
    ]
    found = outcome(*lines)
    assert found.failure is not None and found.failure.stage is Stage.WEIGHTS
    assert found.failure.lines[0].rank == "TP1"


def test_ready_and_stopped_on_request_is_ready() -> None:
    found = outcome(
        *READY,
        at(60, "SIGTERM received. signum=None frame=None. Draining requests.", ""),
        at(61, CRASH),
        "KeyboardInterrupt",
        at(62, SIGQUIT, ""),
    )
    assert (found.outcome, found.stage) == ("ready", Stage.SERVING)


def test_the_summary_alone_is_not_ready() -> None:
    assert (outcome(*SUMMARY).outcome, outcome(*SUMMARY).stage) == ("incomplete", Stage.WARMUP)


def test_an_error_of_a_request_does_not_end_a_server() -> None:
    trace = [
        "Traceback (most recent call last):",
        "ValueError: The input (9 tokens) is longer than the model's context length",
    ]
    assert outcome(*READY, *trace, *(at(40 + n, DECODE) for n in range(5))).outcome == "ready"


def test_a_handled_overflow_before_ready_is_no_failure() -> None:
    assert outcome(*POOL, OOM, *SUMMARY[len(POOL) :], *READY[len(SUMMARY) :]).outcome == "ready"


def test_the_earliest_rank_in_time_is_the_cause() -> None:
    frame = '  File "/sglang/srt/managers/scheduler.py", line 3100, in run_scheduler_process'
    nccl = "RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)"
    found = outcome(*SUMMARY, at(40, CRASH), frame, nccl, at(30, CRASH, "TP1"), frame, OOM, at(41, SIGQUIT, ""))
    assert found.failure is not None
    assert (found.failure.kind, found.failure.lines[0].rank) == (FailureKind.GPU_OOM, "TP1")
    assert found.failure.stage is Stage.SERVING


def test_consequences_are_named_as_such() -> None:
    lost = "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:31802"
    found = outcome(*LOAD, at(30, CRASH, "TP1"), OOM, at(31, CRASH, "TP0"), lost, at(32, SIGQUIT, ""), "Killed")
    assert found.failure is not None
    assert found.failure.kind is FailureKind.GPU_OOM
    assert [c.what for c in found.failure.consequences] == [
        "a rank lost its partner",
        "the parent stops all processes",
        "processes are killed in the clean-up",
    ]


def test_the_same_overflow_on_other_ranks_is_one_cause() -> None:
    found = outcome(*LOAD, at(30, CRASH, "TP0"), OOM, at(30, CRASH, "TP1"), OOM)
    assert found.failure is not None
    assert [c.what for c in found.failure.consequences] == ["the same on TP1"]


def test_a_lost_partner_is_the_failure_where_nothing_else_is_shown() -> None:
    found = outcome(
        *POOL, at(30, CRASH), "RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [a]:1"
    )
    assert found.failure is not None and found.failure.kind is FailureKind.COMMUNICATION


def test_signal_nine_with_no_other_reason_is_the_hosts() -> None:
    found = outcome(*LOAD, "RuntimeError: Rank 0 scheduler died during initialization (exit code: -9).")
    assert found.failure is not None and found.failure.kind is FailureKind.HOST_OOM


@pytest.mark.parametrize(
    "lines",
    [
        [at(30, CRASH), "ValueError: broken", at(31, SIGQUIT, ""), "Killed"],
        ["RuntimeError: Rank 0 scheduler died during initialization (exit code: -3). If exit code is -9 (SIGKILL), a"],
        [at(30, CRASH), "ValueError: broken", "Server process exited with code -9"],
    ],
)
def test_a_kill_with_another_reason_is_not_the_hosts(lines: list[str]) -> None:
    found = outcome(*LOAD, *lines)
    assert found.failure is not None and found.failure.kind is not FailureKind.HOST_OOM


def test_the_kernels_word_counts_beside_others() -> None:
    found = outcome(
        *LOAD, "Memory cgroup out of memory: Killed process 4242 (python3) total-vm:1kB", at(31, SIGQUIT, "")
    )
    assert found.failure is not None and found.failure.kind is FailureKind.HOST_OOM


def test_a_refusal_for_lack_of_memory_is_of_sizing() -> None:
    found = outcome(
        *LOADED, at(30, CRASH), "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."
    )
    assert found.failure is not None
    assert (found.failure.kind, found.failure.stage) == (FailureKind.SIZING, Stage.KV_CACHE)


def test_a_capture_that_fails_for_another_reason_is_no_overflow() -> None:
    found = outcome(
        *POOL,
        at(30, CRASH),
        "Exception: Capture cuda graph failed: an illegal instruction was met",
        "Possible solutions:",
        "1. set --mem-fraction-static to a smaller value",
    )
    assert found.failure is not None
    assert (found.failure.kind, found.failure.stage) == (FailureKind.OTHER, Stage.CUDA_GRAPH)


def test_an_exhausted_pool_while_serving_is_of_tokens() -> None:
    found = outcome(
        *READY,
        at(40, CRASH),
        "RuntimeError: Decode out of memory. Try to lower your batch size.",
        "Try to allocate 12 tokens.",
    )
    assert found.failure is not None
    assert (found.failure.kind, found.failure.stage) == (FailureKind.SIZING, Stage.SERVING)


def test_a_request_given_up_under_pressure_ends_nothing() -> None:
    assert outcome(*READY, at(40, "retract_decode: aborted last request 4f2a due to OOM")).outcome == "ready"


def test_ranks_that_did_not_finish_loading_are_waited_for_in_vain() -> None:
    found = outcome(
        *LOAD,
        "ValueError: TP rank 1 could finish the model loading, but there are other ranks that"
        " didn't finish"
        " loading. It is likely due to unexpected failures (e.g., OOM) or a slow node.",
    )
    assert found.failure is not None and found.failure.kind is FailureKind.COMMUNICATION


def test_the_last_line_of_a_traceback_is_its_message() -> None:
    found = outcome(
        *LOAD, at(30, CRASH), '  File "a.py", line 1, in f', "    x()", "KeyError: 'model.embed'", at(31, SIGQUIT, "")
    )
    assert found.failure is not None and found.failure.message == "KeyError: 'model.embed'"


def test_a_benchmark_with_results_is_ready_whatever_its_helpers_say_at_the_end() -> None:
    lines = [*POOL, "max_total_num_tokens=399740", "Prefill. latency: 0.05312 s, throughput:   2409.55 token/s"]
    assert outcome(*lines, "Traceback (most recent call last):", "KeyError: '/mp-dv7az532'").outcome == "ready"


def test_a_node_after_the_first_fails_while_serving_once_it_ran_batches() -> None:
    captured = [*POOL, at(12, "Capture cuda graph end. Time elapsed: 1.00 s. avail mem=18.00 GB.")]
    lost = at(50, "Scheduler hit an exception: RuntimeError: Connection reset by peer", "TP1")
    served = at(30, "Decode batch. #running-req: 1, #token: 65, token usage: 0.30, gen throughput (token/s): 9.0, ")
    assert outcome(*captured, served, lost).failure.stage is Stage.SERVING  # type: ignore[union-attr]
    assert outcome(*captured, lost).failure.stage is Stage.CUDA_GRAPH  # type: ignore[union-attr]
    # A start that follows batches of the one before it is not serving yet.
    assert outcome(served, *captured, lost).failure.stage is Stage.CUDA_GRAPH  # type: ignore[union-attr]


SERVES = '  File "/sglang/srt/managers/scheduler.py", line 325, in event_loop_normal'
CAPTURES = '  File "/sglang/srt/model_executor/cuda_graph_runner.py", line 370, in capture'
MEETS = '  File "/sglang/srt/model_executor/model_runner.py", line 559, in init_torch_distributed'
DECODES = '  File "/sglang/srt/model_executor/model_runner.py", line 2210, in forward_decode'


@pytest.mark.parametrize(
    ("frames", "stage"),
    [((SERVES,), Stage.SERVING), ((SERVES, DECODES), Stage.SERVING), ((CAPTURES, DECODES), Stage.CUDA_GRAPH)],
)
def test_an_error_alone_falls_in_the_stage_of_its_frames(frames: tuple[str, ...], stage: Stage) -> None:
    found = outcome(at(1, CRASH), *frames, OOM)
    assert found.failure is not None and found.failure.stage is stage


def test_an_error_of_the_ranks_alone_falls_where_they_find_each_other() -> None:
    found = outcome(at(1, CRASH), MEETS, "RuntimeError: NCCL error: unhandled system error")
    assert found.failure is not None and found.failure.stage is Stage.DISTRIBUTED
    # An overflow there is one of the load, by the convention of the stages.
    assert outcome(at(1, CRASH), MEETS, OOM).failure.stage is Stage.WEIGHTS  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("line", "ended"),
    [
        ("Watchdog timeout (self.watchdog_timeout=300)", "failed"),
        ("Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)", "failed"),
        ("Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=True)", "incomplete"),
    ],
)
def test_a_watchdog_ends_its_process_unless_it_is_soft(line: str, ended: str) -> None:
    assert outcome(at(1, DECODE), at(301, line)).outcome == ended


FRAME = '  File "/sgl-workspace/sglang/python/sglang/srt/managers/scheduler.py", line 40, in run\n    run()\n'


def test_a_traceback_whose_head_is_cut_is_known_by_its_frames() -> None:
    text = f"{FRAME}RuntimeError: mat1 and mat2 shapes cannot be multiplied (1x2 and 3x4)\n"
    [launch] = diagnose(io.BytesIO(text.encode())).document["launches"]
    assert (launch["outcome"], launch["failure"]["kind"]) == ("failed", "other")


def test_frames_are_looked_for_only_where_a_log_begins() -> None:
    """There alone a head can be cut off; a log that serves has frames in their ten thousands."""
    matcher = Matcher()
    text = FRAME + 'INFO:     127.0.0.1:1 - "GET /health HTTP/1.1" 200 OK\n' * 8_000 + FRAME * 3
    reader = LineReader([Log("a", io.BytesIO(text.encode()))], matcher.phrases, opening=matcher.opening)
    assert [line.number for line in reader] == [1]
