"""A server that restarts for days: its first starts and its last ones are told, and that others were left out."""

import io

import pytest

from kvdiag.diagnosis import diagnose, splitting
from kvdiag.diagnosis.limits import Limits
from kvdiag.diagnosis.lines import Log

START = (
    b"[2025-03-08 12:29:13] server_args=ServerArgs(model_path='m', tp_size=1, mem_fraction_static=0.8)\n"
    b"[2025-03-08 12:29:14 TP0] Load weight begin. avail mem=78.00 GB\n"
    b"[2025-03-08 12:29:20] The server is fired up and ready to roll!\n"
)


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
