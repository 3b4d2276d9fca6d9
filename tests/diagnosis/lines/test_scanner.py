"""Two engines that find the same, in one pass over one buffer."""

import io
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvdiag.diagnosis import scanner as scanning
from kvdiag.diagnosis.scanner import BUFFER, Blocks, Find, Vectorscan

PHRASES = [b"avail mem=", b"mem usage=", b"KV Cache", b"aa", b"aaa", b"\xe2\x96\x88", b'"quoted"', b"a.b*c"]
PIECES = st.lists(st.sampled_from([*PHRASES, b"a", b"\n", b"\r", b"x" * 50, b"avail me", b"\0", b"\xff"]), max_size=60)


@settings(max_examples=100, deadline=None)
@given(PIECES)
def test_both_engines_find_every_phrase(pieces: list[bytes]) -> None:
    block = b"".join(pieces)
    fast, plain = Vectorscan(PHRASES).ends(block), Find(PHRASES).ends(block)
    assert sorted(set(fast)) == sorted(set(plain))
    assert fast == sorted(fast)
    assert plain == sorted(plain)


@settings(max_examples=100, deadline=None)
@given(PIECES)
def test_both_engines_tell_which_phrases_there_are(pieces: list[bytes]) -> None:
    block = b"".join(pieces)
    wanted = [number for number, phrase in enumerate(PHRASES) if phrase in block]
    assert Vectorscan(PHRASES).numbers(block) == Find(PHRASES).numbers(block) == wanted


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 90_000), max_size=12), st.booleans(), st.randoms())
def test_blocks_are_the_text_and_know_their_lines(lengths: list[int], ended: bool, rng: random.Random) -> None:
    text = b"\n".join(bytes([rng.choice(b"abc\r")]) * n for n in lengths) + (b"\n" if ended else b"")
    blocks = Blocks(io.BytesIO(text))
    seen = b""
    for block in blocks:
        assert block.offset + block.seen == len(seen)
        assert block.number == 1 + seen.count(b"\n")
        seen += block.data[block.seen :]
        assert text.startswith(seen)
        assert text[len(seen) :].startswith(block.ahead)
    assert seen == text
    assert blocks.size == len(text)
    assert blocks.lines == text.count(b"\n") + (not ended and bool(text) and text[-1:] != b"\n")


def test_a_line_without_end_takes_one_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(io.RawIOBase):
        left = 40 * BUFFER

        def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
            count = min(len(buffer), self.left)
            buffer[:count] = b"x" * count
            self.left -= count
            return count

    largest = 0
    for block in Blocks(Endless()):
        largest = max(largest, len(block.data) + len(block.ahead))
        assert block.number == 1
    assert largest <= BUFFER


def test_without_the_wheel_the_reader_finds_the_same(read, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(4)
    raw = "\n".join(
        rng.choice(
            ["x" * 80, "[2025-03-08 12:29:13 TP0] Load weight begin. avail mem=21.63 GB", "bar\rbar out of memory\r"]
        )
        for _ in range(9_000)
    )
    fast = list(read(raw))

    def missing(phrases: list[bytes]) -> Vectorscan:
        raise ImportError("hyperscan")

    monkeypatch.setattr(scanning, "Vectorscan", missing)
    assert list(read(raw)) == fast
