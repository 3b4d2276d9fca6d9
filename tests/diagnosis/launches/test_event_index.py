"""A launch's events are found by kind and by rank without walking through all of them again."""

import io
from collections.abc import Iterator

import pytest

from kvdiag.diagnosis.events import Matcher
from kvdiag.diagnosis.events.failure import ExceptionRaised
from kvdiag.diagnosis.events.kv_pool import PoolEnd
from kvdiag.diagnosis.events.pattern import Event, NotUnderstood
from kvdiag.diagnosis.events.progress import CaptureProgress
from kvdiag.diagnosis.events.requests import RequestTooLong
from kvdiag.diagnosis.events.weights import WeightsBegin, WeightsLoaded
from kvdiag.diagnosis.exceptions import exceptions_of
from kvdiag.diagnosis.launches import Launch, split_launches
from kvdiag.diagnosis.ledger.booking import _RankBook, book
from kvdiag.diagnosis.ledger.model import KVPool
from kvdiag.diagnosis.lines import LineReader, Log, LogLine
from kvdiag.diagnosis.timeline import timeline
from kvdiag.diagnosis.units import GIB, Bytes

LINES = (
    "Load weight begin. avail mem=78.00 GB",
    "Load weight end. type=X, dtype=torch.bfloat16, avail mem=40.00 GB, mem usage=38.00 GB.",
    "Memory pool end. avail mem=9.00 GB",
)


class Walked(list[Event]):
    """Events that count how often someone walks through them."""

    walks = 0

    def __iter__(self) -> Iterator[Event]:
        self.walks += 1
        return super().__iter__()


def launch_of(ranks: int) -> Launch:
    text = "".join(f"[2025-03-08 12:29:13 TP{rank}] {line}\n" for line in LINES for rank in range(ranks))
    matcher = Matcher()
    reader = LineReader([Log("x", io.BytesIO(text.encode()))], matcher.phrases, dense=matcher.dense)
    (launch,) = split_launches(matcher.read(reader))
    return launch


def walks(ranks: int) -> int:
    launch = launch_of(ranks)
    launch.events = events = Walked(launch.events)
    assert len(book(launch)) == ranks
    timeline(launch)
    return events.walks


def test_more_ranks_mean_no_more_walks_through_the_events() -> None:
    assert walks(40) == walks(4)


class Pools(list[KVPool]):
    """Pools that count how many of them were looked at."""

    looks = 0

    def __iter__(self) -> Iterator[KVPool]:
        for pool in super().__iter__():
            self.looks += 1
            yield pool


def test_a_pool_that_is_printed_again_and_again_is_booked_without_a_look_at_all_before() -> None:
    lines = "".join(
        f"[2025-03-08 12:29:13 TP0] KV Cache is allocated. #tokens: {n}, K size: 1.00 GB, V size: 1.00 GB\n"
        for n in range(300)
    )
    matcher = Matcher()
    reader = LineReader([Log("x", io.BytesIO(lines.encode()))], matcher.phrases, dense=matcher.dense)
    (launch,) = split_launches(matcher.read(reader))
    booked = _RankBook(launch, "TP0")
    booked.ledger.pools = pools = Pools()
    assert len(booked.close().pools) == 300
    assert pools.looks < 300 * 10


def test_what_is_added_later_is_found() -> None:
    launch, other = launch_of(2), launch_of(3)
    assert launch.rank_ids == ["TP0", "TP1"]
    for event in other.of_rank("TP2"):
        launch.add(event)
    assert launch.rank_ids == ["TP0", "TP1", "TP2"]
    assert [e.rank for e in launch.each(PoolEnd)] == ["TP0", "TP1", "TP2"]
    assert [type(e) for e in launch.each(WeightsLoaded, WeightsBegin, rank="TP2")] == [WeightsBegin, WeightsLoaded]


def test_events_of_several_kinds_keep_their_order() -> None:
    launch = launch_of(3)
    both = launch.each(PoolEnd, WeightsBegin)
    assert both == [e for e in launch.events if isinstance(e, PoolEnd | WeightsBegin)]
    both.clear()
    assert launch.first(PoolEnd, WeightsBegin) is launch.events[0]
    assert launch.last(PoolEnd, WeightsBegin) is launch.events[-1]
    assert launch.has(Event)


def test_lines_that_nothing_reads_are_not_all_kept() -> None:
    launch = launch_of(1)
    for number in range(10, 5_000):
        launch.add(NotUnderstood(line=LogLine(0, number, "avail mem=odd")))
    assert len(launch.each(NotUnderstood)) == 1_000
    assert launch.last_line is not None and launch.last_line.number == 4_999


def begin(number: int, rank: str = "TP0") -> WeightsBegin:
    line = LogLine(0, number, "Load weight begin. avail mem=7.00 GB", rank=rank)
    return WeightsBegin(line=line, available=Bytes(7 * GIB))


def bar(number: int, size: int) -> CaptureProgress:
    line = LogLine(0, number, f"Capturing batches (bs={size} avail_mem=5.14 GB)")
    return CaptureProgress(line=line, kind="batches", size=size, available=Bytes(5 * GIB), done=number, total=9)


def test_an_index_takes_in_what_is_added() -> None:
    launch = Launch()
    launch.add(first := begin(1))
    index = launch.index
    launch.add(second := begin(2, "TP1"))
    launch.add(third := begin(3))
    assert launch.index is index
    assert launch.each(WeightsBegin) == [first, second, third]
    assert launch.each(WeightsBegin, rank="TP0") == [first, third]
    assert launch.has(WeightsBegin)
    assert not launch.has(CaptureProgress)


def test_an_index_is_made_anew_where_an_event_stands_in_the_place_of_another_or_before_all() -> None:
    launch = Launch()
    launch.add(begin(1))
    launch.add(bar(2, 48))
    assert launch.each(CaptureProgress)[0].size == 48
    launch.add(later := bar(3, 40))
    launch.add(last := begin(4))
    assert launch.each(CaptureProgress) == [later]
    launch.events[:0] = [earlier := begin(0)]
    assert launch.each(WeightsBegin)[0] is earlier
    assert launch.each(WeightsBegin)[-1] is last


def launch_from(lines: list[str]) -> Launch:
    matcher = Matcher()
    raw = "".join(f"{line}\n" for line in lines).encode()
    reader = LineReader([Log("x", io.BytesIO(raw))], matcher.phrases, dense=matcher.dense)
    (launch,) = split_launches(matcher.read(reader))
    return launch


def test_what_is_said_at_every_request_is_counted_and_not_all_kept() -> None:
    refused = [
        f"[2026-03-02 09:19:03] The input ({n} tokens) is longer than the model's context length (32768 tokens)."
        for n in range(40_000, 52_000)
    ]
    failed = [
        "[2026-03-02 09:19:04] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "/opt/sglang/srt/a.py", line 3, in f',
        "ValueError: at 7",
    ]
    start = "[2026-03-02 09:14:36 TP0] Load weight begin. avail mem=94.04 GB"
    launch = launch_from([start, *refused, *failed * 3_000, "RuntimeError: another one", *refused[:2]])
    assert len(launch.each(RequestTooLong)) < 9_000
    assert launch.count(RequestTooLong) == 12_002
    assert launch.count(ExceptionRaised) == 3_001
    assert len(launch.events) < 12_000
    assert [(one.kind, one.count) for one in exceptions_of(launch)] == [("ValueError", 3_000), ("RuntimeError", 1)]


@pytest.mark.parametrize("text", ["[rank3]: ValueError: at {n}", "ValueError: at " + "{n}, " * 150])
def test_an_exception_is_counted_however_its_numbers_and_its_length(text: str) -> None:
    start = "[2026-03-02 09:14:36 TP0] Load weight begin. avail mem=94.04 GB"
    (one,) = exceptions_of(launch_from([start, *(text.format(n=n) for n in range(1_000, 10_000))]))
    assert (one.kind, one.count) == ("ValueError", 9_000)
