"""A log whose middle is left out: every line keeps its number."""

import io
from pathlib import Path

import pytest

from ingest import engine_process, shortened
from ingest.shortened import Shortened

LOG = Path(__file__).resolve().parent.parent / "corpus" / "kimi-k25-8gpu" / "log.txt"


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortened, "HEAD", 100)
    monkeypatch.setattr(shortened, "TAIL", 100)


@pytest.mark.parametrize("buffer", [1, 7, 64, 4096])
def test_start_and_end_keep_their_line_numbers(tmp_path: Path, small_parts: None, buffer: int) -> None:
    path = tmp_path / "log"
    path.write_text("".join(f"line {number}\n" for number in range(1, 1001)))
    stream = Shortened(path, 1000)
    lines = io.BufferedReader(stream, buffer).read().decode().splitlines()
    assert len(lines) == 1000
    told = {number: text for number, text in enumerate(lines, 1) if text}
    assert all(text == f"line {number}" for number, text in told.items())
    first, last = stream.gap["first_line"], stream.gap["last_line"]
    assert set(range(1, 1001)) - set(told) == set(range(first, last + 1))
    assert stream.gap["bytes"] == sum(len(f"line {number}\n") for number in range(first, last + 1))


def test_a_log_that_takes_too_long_is_read_at_its_start_and_end(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(shortened, "HEAD", 64 << 10)
    monkeypatch.setattr(shortened, "TAIL", 64 << 10)
    monkeypatch.setattr(engine_process, "grant_the_rest", lambda: None)
    (tmp_path / "log").write_bytes(LOG.read_bytes() + b"something else\n" * 40_000)
    file = {"name": "log", "path": "log", "bytes": (tmp_path / "log").stat().st_size, "lines": 40_000}
    file["lines"] += LOG.read_bytes().count(b"\n")
    reads = []

    def too_slow_at_first(*logs, **more):
        reads.append(logs)
        if len(reads) == 1:
            raise engine_process.OutOfTime
        return engine_process.diagnose(*logs, **more)

    report = engine_process.read_all(tmp_path, [file], too_slow_at_first)
    assert report.document["launches"][0]["kv_cache"]["tokens"] == 159_277
    assert file["gap"]["last_line"] > file["gap"]["first_line"] > 200


def test_a_short_log_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"one line\n")

    def too_slow(*logs, **more):
        raise engine_process.OutOfTime

    file = {"name": "log", "path": "log", "bytes": 9, "lines": 1}
    with pytest.raises(engine_process.OutOfTime):
        engine_process.read_all(tmp_path, [file], too_slow)
