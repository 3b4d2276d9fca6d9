"""Where one launch ends and the next begins."""

from collections.abc import Callable

from kvdiag.diagnosis.events.weights import ShardProgress
from kvdiag.diagnosis.launches import Launch

Read = Callable[..., list[Launch]]
Start = Callable[..., str]

DECODE = (
    "[2026-03-01 {at}] Decode batch, #running-req: 4, #token: 4000, token usage: {usage}, cuda graph: True, gen"
    " throughput"
    " (token/s): 90.00, #queue-req: 0\n"
)


def test_one_start_is_one_launch(read: Read, start: Start) -> None:
    [launch] = read(start())
    assert launch.rank_ids == ["TP0", "TP1"]


def test_each_line_of_arguments_begins_a_launch(read: Read, start: Start) -> None:
    launches = read(start() + start(at="11:00"))
    assert [x.number for x in launches] == [1, 2]


def test_a_restart_without_arguments_is_a_launch(read: Read, start: Start) -> None:
    assert len(read(start() + start(at="11:00", args=None))) == 2


def test_a_loop_of_failing_starts_is_counted(read: Read, start: Start) -> None:
    crash = "[2026-03-01 {}:15] Scheduler hit an exception: Traceback (most recent call last):\nValueError: broken\n"
    text = "".join(start(at=f"10:0{n}", args=None, until=4) + crash.format(f"10:0{n}") for n in range(5))
    assert len(read(text)) == 5


def test_a_draft_model_begins_no_launch(read: Read, start: Start) -> None:
    assert len(read(start(draft=True))) == 1


def test_arguments_printed_twice_are_one_launch(read: Read, start: Start) -> None:
    args = start(until=0)
    assert len(read(args + start())) == 1


def test_a_start_within_a_long_serving_log_is_found(read: Read, start: Start) -> None:
    traffic = "".join(DECODE.format(at=f"09:00:{n:02d}", usage="0.50") for n in range(50))
    launches = read(traffic + start(args=None))
    assert [x.has_traffic for x in launches] == [True, False]


def test_another_servers_traffic_within_a_start_splits_it_not(read: Read, start: Start) -> None:
    lines = start().splitlines(keepends=True)
    traffic = DECODE.format(at="10:00:02", usage="0.50")
    assert len(read("".join([lines[0], traffic, *lines[1:4], traffic, *lines[4:]]))) == 1


def test_a_command_begins_no_launch_of_its_own(read: Read, start: Start) -> None:
    [launch] = read("$ python3 -m sglang.launch_server --model-path m --tp 2\n" + start())
    assert launch.value("tp_size") == 2


def test_a_sentence_that_names_the_module_is_no_command(read: Read, start: Start) -> None:
    [launch] = read("UserWarning: 'python -m sglang.launch_server' is still supported\n" + start())
    assert launch.commands == []


def test_two_runs_of_a_benchmark_in_one_terminal_are_two_launches(read: Read, start: Start) -> None:
    run = start(args=None, ready=False) + "Prefill. latency: 0.05312 s, throughput:   2409.55 token/s\n"
    command = "$ python3 -m sglang.bench_one_batch --model-path {} --tp 2\n"
    launches = read(command.format("a") + run + command.format("b") + run)
    assert [x.value("model_path") for x in launches] == ["a", "b"]


def test_arguments_refused_before_a_start_that_works_are_a_launch_of_their_own(read: Read, start: Start) -> None:
    refused = "$ python3 -m sglang.launch_server --tp x\nlaunch_server.py: error: argument --tp: invalid int value:"
    " 'x'\n"
    assert len(read(refused + "$ python3 -m sglang.launch_server --tp 2\n" + start())) == 2


def test_a_traceback_before_the_start_belongs_to_it(read: Read, start: Start) -> None:
    assert len(read("Traceback (most recent call last):\nImportError: no apex\n" + start())) == 1


def test_a_lone_overflow_line_is_a_launch(read: Read) -> None:
    text = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 14.76 GiB of which 1 bytes"
    " is free."
    assert len(read(text)) == 1


def test_another_programs_log_has_no_launch(read: Read) -> None:
    assert (
        read("Traceback (most recent call last):\nValueError: nothing to do with it\nINFO: Uvicorn running on x\n")
        == []
    )


def test_lines_out_of_time_order_are_one_launch(read: Read, start: Start) -> None:
    lines = start().splitlines()
    lines[3], lines[4] = lines[4], lines[3]
    assert len(read("\n".join(lines))) == 1


def test_a_rank_that_lags_behind_the_summary_begins_no_launch(read: Read, start: Start) -> None:
    lines = start().splitlines()
    late = next(n for n, text in enumerate(lines) if "TP1] Capture cuda graph end" in text)
    lines.append(lines.pop(late))
    assert len(read("\n".join(lines))) == 1


def test_plain_data_parallel_workers_start_one_after_the_other(read: Read, start: Start) -> None:
    first = start(("DP0 TP0", "DP0 TP1"), ready=False)
    second = start(("DP1 TP0", "DP1 TP1"), at="10:01", args=None)
    [launch] = read(first + second)
    assert launch.rank_ids == ["DP0 TP0", "DP0 TP1", "DP1 TP0", "DP1 TP1"]


def test_a_run_of_bars_keeps_its_last(read: Read, start: Start) -> None:
    bar = "Loading safetensors checkpoint shards:  {}% Completed | {}/4 [00:01<00:05,  1.13it/s]\r"
    bars = "".join(bar.format(n * 25, n) for n in range(5))
    [launch] = read(start(until=3) + bars)
    assert [x.done for x in launch.each(ShardProgress)] == [4]


def test_summaries_of_several_starts_are_as_many_launches(read: Read) -> None:
    summary = (
        "[2026-03-01 {at}] max_total_num_tokens={tokens}, chunked_prefill_size=4096, max_prefill_tokens=16384,"
        " max_running_requests=2, context_len=524288, available_gpu_mem={free} GB\n"
    )
    first, later = summary.format(at="10:00:52", tokens=11687, free="0.45"), "10:07:13"
    assert len(read(first + summary.format(at=later, tokens=11499, free="0.72"))) == 2
    assert len(read(first + summary.format(at=later, tokens=11687, free="0.45"))) == 1  # printed twice
    assert len(read(first + summary.format(at="10:00:53", tokens=11499, free="0.72"))) == 1  # of another worker
