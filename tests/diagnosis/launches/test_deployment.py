"""Several files of one deployment, and of several."""

from collections.abc import Callable

import pytest

from kvdiag.diagnosis import launches
from kvdiag.diagnosis.launches import Launch

Read = Callable[..., list[Launch]]
Start = Callable[..., str]


def node(rank: int, mode: str = "null") -> str:
    return f"model_path='m', tp_size=16, nnodes=2, node_rank={rank}, disaggregation_mode='{mode}', dist_init_addr='a:1'"


def names(first: int, last: int) -> tuple[str, ...]:
    return tuple(f"TP{n}" for n in range(first, last))


def test_two_nodes_of_one_launch_are_joined(read: Read, start: Start) -> None:
    [launch] = read(start(names(0, 8), args=node(0)), start(names(8, 16), args=node(1), ready=False))
    assert launch.rank_ids == list(names(0, 16))


def test_two_nodes_without_arguments_are_joined_by_their_ranks(read: Read, start: Start) -> None:
    [launch] = read(start(names(8, 16), args=None, ready=False), start(names(0, 8), args=None))
    assert launch.rank_ids == list(names(0, 16))


def test_that_ranks_of_a_node_are_not_read_is_known_of_the_whole(
    read: Read, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launches, "MOST_RANKS", 6)
    [launch] = read(start(names(0, 4), args=node(0)), start(names(8, 16), args=node(1), ready=False))
    assert launch.has_more_ranks


def test_ranks_of_the_same_name_on_two_nodes_are_told_apart(read: Read, start: Start) -> None:
    [launch] = read(start(("TP0",), args=node(0)), start(("TP0",), args=node(1), ready=False))
    assert launch.rank_ids == ["TP0", "node1/TP0"]


def test_prefill_and_decode_servers_stay_apart(read: Read, start: Start) -> None:
    one = "model_path='m', tp_size=2, disaggregation_mode='prefill', port=30000"
    two = "model_path='m', tp_size=2, disaggregation_mode='decode', port=30001"
    started = read(start(args=one), start(args=two))
    assert [x.value("disaggregation_mode") for x in started] == ["prefill", "decode"]


def test_two_replicas_stay_apart(read: Read, start: Start) -> None:
    assert len(read(start(), start(args="model_path='m', tp_size=2, port=30001"))) == 2


def test_the_next_part_of_a_log_goes_on_with_its_launch(read: Read, start: Start) -> None:
    line = (
        "[2026-03-01 12:00:{:02d} TP0] Decode batch. #running-req: 1, #token: 40, token usage: 0.{:02d}, gen throughput"
        " (token/s): 4.40, #queue-req: 0\n"
    )
    [launch] = read("".join(line.format(n, n) for n in range(40)), start())
    assert (launch.series.decode_batches, launch.series.peak_usage) == (40, 0.39)


def test_launches_stand_in_the_order_they_started(read: Read, start: Start) -> None:
    started = read(start(at="12:00"), start(at="09:00", args="model_path='m', port=1"))
    assert [x.events[0].line.clock for x in started] == ["2026-03-01T09:00:00", "2026-03-01T12:00:00"]


def test_two_services_of_one_compose_log_are_two_launches(read: Read, start: Start) -> None:
    prefill = start(args="model_path='m', tp_size=2, disaggregation_mode='prefill'").splitlines()
    decode = start(args="model_path='m', tp_size=2, disaggregation_mode='decode'").splitlines()
    mixed = [
        f"{name}  | {text}"
        for pair in zip(prefill, decode, strict=True)
        for name, text in zip(("prefill-1", "decode-1 "), pair, strict=True)
    ]
    started = read("\n".join(mixed))
    assert sorted(str(x.value("disaggregation_mode")) for x in started) == ["decode", "prefill"]
    assert [len(x.rank_ids) for x in started] == [2, 2]
