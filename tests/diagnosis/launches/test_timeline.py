"""Seconds of each phase on each rank."""

from collections.abc import Callable

from kvdiag.diagnosis.launches import Launch
from kvdiag.diagnosis.timeline import timeline

Read = Callable[..., list[Launch]]
Start = Callable[..., str]


def test_phases_are_timed_by_the_clock(read: Read, start: Start) -> None:
    [launch] = read(start(("TP0",)))
    seconds = {(p.name, p.rank): p.seconds for p in timeline(launch)}
    assert seconds == {
        ("processes", ""): 1,
        ("distributed", "TP0"): 1,
        ("weights", "TP0"): 6,
        ("kv_cache", "TP0"): 2,
        ("cuda_graph", "TP0"): 7,
        ("warmup", ""): 1,
    }


def test_a_printed_duration_counts_more_than_the_clock(read: Read) -> None:
    text = (
        "[2026-03-01 10:00:00 TP0] Load weight begin. avail mem=78.00 GB\n"
        "[2026-03-01 10:00:41 TP0] Load weight end. elapsed=40.25 s, type=A, avail mem=9.00 GB, mem usage=69.00 GB.\n"
    )
    [launch] = read(text)
    assert [p.seconds for p in timeline(launch)] == [40.25]


def test_the_slowest_rank_is_named(read: Read) -> None:
    text = "".join(f"[2026-03-01 10:00:00 TP{n}] Load weight begin. avail mem=78.00 GB\n" for n in range(3))
    text += "".join(
        f"[2026-03-01 10:{m}:00 TP{n}] Load weight end. type=A, dtype=torch.bfloat16, avail mem=9.00 GB, mem"
        f" usage=69.0 GB.\n"
        for n, m in ((0, "01"), (2, "01"), (1, "09"))
    )
    [launch] = read(text)
    assert [p.rank for p in timeline(launch) if p.slowest] == ["TP1"]


def test_a_drafts_steps_are_called_so(read: Read, start: Start) -> None:
    [launch] = read(start(("TP0",), draft=True))
    names = [p.name for p in timeline(launch)]
    assert "draft weights" in names and "draft kv_cache" in names


def test_without_a_clock_no_second_is_invented(read: Read) -> None:
    [launch] = read(
        "Load weight begin. avail mem=78.00 GB\nLoad weight end. type=A, avail mem=9.00 GB, mem usage=69.00 GB.\n"
    )
    assert [p.seconds for p in timeline(launch)] == [None]
