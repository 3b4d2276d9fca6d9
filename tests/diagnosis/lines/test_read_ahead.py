"""Packed logs are unpacked ahead of the reader, by a thread that ends with them."""

import gzip
import io
import random
import threading
from pathlib import Path

import pytest

from kvdiag.diagnosis.archives import open_members
from kvdiag.diagnosis.errors import UnreadableLog
from kvdiag.diagnosis.limits import MIB, Limits
from kvdiag.diagnosis.read_ahead import ReadAhead

WAIT_S = 20.0


class Source(io.RawIOBase):
    """So many bytes that differ, in odd pieces; then the end, or an error."""

    def __init__(self, size: int, error: Exception | None = None) -> None:
        self.data = random.Random(size).randbytes(size)
        self.at = 0
        self.error = error
        self.asked = threading.Semaphore(0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self.asked.release()
        piece = self.data[self.at : self.at + min(len(buffer), 99_991)]
        if not piece and self.error is not None:
            raise self.error
        buffer[: len(piece)] = piece
        self.at += len(piece)
        return len(piece)


def readers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if "_read" in thread.name}


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, MIB + 1, 3 * MIB + 17])
def test_what_is_read_is_what_the_source_has(size: int) -> None:
    source = Source(size)
    stream = ReadAhead(source)
    found = b""
    rng = random.Random(size)
    while piece := stream.read(rng.randrange(1, 300_000)):
        found += piece
    assert found == source.data
    assert stream.read(10) == b""


def test_an_error_is_raised_behind_what_came_before_it() -> None:
    source = Source(2 * MIB, ValueError("broken"))
    stream = ReadAhead(source)
    found = b""
    with pytest.raises(ValueError, match="broken"):
        while piece := stream.read(100_000):
            found += piece
    assert found == source.data


def test_the_source_is_read_while_its_reader_does_something_else() -> None:
    source = Source(8 * MIB)
    stream = ReadAhead(source)
    while source.at <= MIB + 99_991:
        stream.read(99_991)
    while source.asked.acquire(blocking=False):
        pass
    assert source.asked.acquire(timeout=WAIT_S)  # nobody reads from the stream now
    stream.close()


def test_only_so_much_is_read_ahead() -> None:
    source = Source(16 * MIB)
    stream = ReadAhead(source)
    stream.read(MIB)
    for _ in range(4):
        stream.read(100_000)
    for _ in range(20):
        source.asked.acquire(timeout=0.05)
    assert source.at < 6 * MIB
    stream.close()


@pytest.mark.parametrize("how", ["closed", "dropped"])
def test_the_thread_ends_when_the_stream_is_not_wanted_any_more(how: str) -> None:
    before = readers()
    stream = ReadAhead(Source(16 * MIB))
    stream.read(MIB)
    stream.read(100)
    while not readers() - before:
        stream.read(100)
    if how == "closed":
        stream.close()
    del stream
    assert not readers() - before


def test_a_small_packed_log_needs_no_thread(tmp_path: Path) -> None:
    before = readers()
    packed = io.BytesIO(gzip.compress(b"Load weight begin.\n" * 1000))
    for member in open_members("x.gz", packed, Limits()):
        assert member.stream.read(100)
        assert not readers() - before


def test_a_bomb_is_refused_and_leaves_no_thread() -> None:
    before = readers()
    packed = io.BytesIO(gzip.compress(b"\0" * (64 * MIB)))
    with pytest.raises(UnreadableLog, match="times its size"):
        for member in open_members("x.gz", packed, Limits()):
            while member.stream.read(100_000):
                pass
    packed.seek(0)  # nobody else reads it
    assert not readers() - before
