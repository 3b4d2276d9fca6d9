"""A server that restarts for days: its first starts and its last ones are told, and that others were left out."""

import io

import pytest

from kvdiag.diagnosis import diagnose, launches, report, splitting
from kvdiag.diagnosis.events import Matcher
from kvdiag.diagnosis.launches import split_launches
from kvdiag.diagnosis.limits import Limits
from kvdiag.diagnosis.lines import LineReader, Log

START = (
    b"[2025-03-08 12:29:13] server_args=ServerArgs(model_path='m', tp_size=1, mem_fraction_static=0.8)\n"
    b"[2025-03-08 12:29:14 TP0] Load weight begin. avail mem=78.00 GB\n"
    b"[2025-03-08 12:29:20] The server is fired up and ready to roll!\n"
)


def reader_of(raw: bytes) -> LineReader:
    return LineReader([Log("x", io.BytesIO(raw))], Matcher().phrases)


def test_of_too_many_starts_the_first_and_the_last_are_told_under_their_own_numbers() -> None:
    document = diagnose(Log("x", io.BytesIO(START * 30)), limits=Limits(launches=8)).document
    assert [launch["number"] for launch in document["launches"]] == [1, 2, 25, 26, 27, 28, 29, 30]
    assert [launch["first_line"] for launch in document["launches"]][-1] == 88
    assert document["upload"]["launches"] == {"read": 8, "all": 30}


def test_nothing_is_said_of_starts_left_out_where_none_were() -> None:
    document = diagnose(Log("x", io.BytesIO(START * 8)), limits=Limits(launches=8)).document
    assert len(document["launches"]) == 8
    assert "launches" not in document["upload"]


def test_the_starts_between_are_counted_whatever_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their events are given up while the log is read: counting, numbering and what is told must not change."""
    starts = [
        b"[2025-03-08 12:%02d:13] server_args=ServerArgs(model_path='m', tp_size=1, port=%d)\n"
        b"[2025-03-08 12:%02d:14 TP0] Load weight begin. avail mem=78.00 GB\n%s"
        % (n % 60, n, n % 60, b"[2025-03-08 12:%02d:20] The server is fired up and ready to roll!\n" % (n % 60))
        for n in range(60)
    ]
    raw = b"".join(starts)
    whole = diagnose(Log("x", io.BytesIO(raw)), limits=Limits(launches=8)).document
    monkeypatch.setattr(splitting, "SPARE", 1)
    bounded = diagnose(Log("x", io.BytesIO(raw)), limits=Limits(launches=8)).document
    assert bounded == whole
    assert [launch["number"] for launch in bounded["launches"]] == [1, 2, 55, 56, 57, 58, 59, 60]


def test_the_nodes_of_starts_between_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    def node(rank: int) -> Log:
        return Log(
            f"node{rank}",
            io.BytesIO(
                b"".join(
                    b"[2025-03-%02d %02d:00:13] server_args=ServerArgs(tp_size=2, nnodes=2, node_rank=%d)\n"
                    b"[2025-03-%02d %02d:00:14 TP%d] Load weight begin. avail mem=78.00 GB\n"
                    b"[2025-03-%02d %02d:00:20] The server is fired up and ready to roll!\n"
                    % (1 + n // 24, n % 24, rank, 1 + n // 24, n % 24, rank, 1 + n // 24, n % 24)
                    for n in range(60)
                )
            ),
        )

    monkeypatch.setattr(splitting, "SPARE", 1)
    document = diagnose(node(0), node(1), limits=Limits(launches=8)).document
    assert [launch["number"] for launch in document["launches"]] == [1, 2, 55, 56, 57, 58, 59, 60]
    assert all([rank["id"] for rank in launch["ranks"]] == ["TP0", "TP1"] for launch in document["launches"])


def test_the_series_of_many_starts_are_thinned_and_their_counts_and_peaks_are_not() -> None:
    batch = (
        "[2025-03-08 12:30:00 TP0] Decode batch, #running-req: {}, #token: 9, token usage: 0.{:02d}, #queue-req: 0\n"
    )
    raw = b"".join(START + "".join(batch.format(n, n % 90) for n in range(300)).encode() for _ in range(12))
    serving = [launch["serving"] for launch in diagnose(Log("x", io.BytesIO(raw))).document["launches"]]
    assert [len(found["series"]) for found in serving] == [75] * 4 + [300] * 8
    assert {(found["decode_batches"], found["peak_running"], found["peak_token_usage"]) for found in serving} == {
        (300, 299, 0.89)
    }


def test_of_a_hundred_thousand_push_backs_a_few_are_kept_and_all_are_counted() -> None:
    line = "[2025-03-08 12:30:00 TP{}] KV cache pool is full. Retract requests. #retracted_reqs: {}\n"
    raw = START + "".join(line.format(rank, n % 3) for n in range(1_000) for rank in range(2)).encode()
    (launch,) = diagnose(Log("x", io.BytesIO(raw))).document["launches"]
    serving = launch["serving"]
    assert (serving["retractions"], serving["retracted_requests"]) == (1_000, 999)
    assert serving["retraction_lines"] == list(range(4, 44, 2))
    (finding,) = [found for found in launch["findings"] if found["rule"] == "retraction-storm"]
    assert "1000 times (1333 requests)" in finding["summary"]
    assert [piece["line"] for piece in finding["evidence"]] == [4, 2002]
    assert sum(len(kept.events) for kept in split_launches(Matcher().read(reader_of(raw)))) < 200


def test_starts_that_are_none_are_no_part_of_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What any program prints between two starts must not push a start that is told out of memory."""
    monkeypatch.setattr(splitting, "SPARE", 0)
    killed = b"[2025-03-08 12:30:00] Process was killed: exit code -9\n" * 2
    whole = diagnose(Log("x", io.BytesIO(START * 40)), limits=Limits(launches=8)).document
    mixed = diagnose(Log("x", io.BytesIO((START + killed) * 40)), limits=Limits(launches=8)).document
    assert [x["number"] for x in mixed["launches"]] == [x["number"] for x in whole["launches"]]
    assert all(launch["ranks"] for launch in mixed["launches"])


def test_the_series_of_starts_long_past_are_thinned_once_more() -> None:
    batch = "[2025-03-08 12:30:00 TP0] Decode batch, #running-req: {}, #token: 9, token usage: 0.50, #queue-req: 0\n"
    raw = b"".join(START + "".join(batch.format(n) for n in range(100)).encode() for _ in range(30))
    serving = [launch["serving"] for launch in diagnose(Log("x", io.BytesIO(raw))).document["launches"]]
    assert [len(found["series"]) for found in serving] == [25] * 6 + [100] * 24
    assert {(found["decode_batches"], found["peak_running"]) for found in serving} == {(100, 99)}


def test_of_too_many_ranks_the_first_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks that somebody invents by the hundred thousand take no memory."""
    monkeypatch.setattr(launches, "MOST_RANKS", 5)
    monkeypatch.setattr(report, "MOST_RANKS", 5)

    def ranks(count: int) -> tuple[int, object]:
        log = b"".join(b"[2025-03-08 12:29:14 TP%d] Load weight begin. avail mem=78.00 GB\n" % n for n in range(count))
        [launch] = diagnose(io.BytesIO(log)).document["launches"]
        return len(launch["ranks"]), launch.get("ranks_read")

    assert ranks(5) == (5, None)
    assert ranks(6) == (5, 5)
