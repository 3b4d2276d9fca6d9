"""Where phrases stand in a log: one pass over a fixed buffer, whatever the log's size.

Two engines behind one interface, each the other's test: Vectorscan, which looks for all phrases at once, and
`bytes.find` for each where its wheel does not fit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from kvdiag.diagnosis.databases import database

BUFFER: Final = 256 << 10
AHEAD: Final = 8 << 10  # what is known of the text behind a block
OVERLAP: Final = 4 << 10  # of a line that is longer than the buffer, looked at twice


class Scanner(Protocol):
    """Looks for phrases."""

    def ends(self, block: bytes) -> list[int]:
        """The offsets at which a phrase has just ended, ascending."""

    def claims(self, text: bytes) -> bool:
        """Whether any phrase is in the text."""

    def numbers(self, text: bytes) -> list[int]:
        """Which phrases are in the text, by their places among all, ascending."""


class Vectorscan:
    """All phrases in one scan."""

    def __init__(self, phrases: Sequence[bytes]) -> None:
        self._found: list[int] = []
        self._database = database(phrases, range(len(phrases)), [0] * len(phrases), literal=True)

    def ends(self, block: bytes) -> list[int]:
        found = self._found = []
        self._database.scan(block, match_event_handler=self._note)
        found.sort()
        return found

    def claims(self, text: bytes) -> bool:
        return bool(self.ends(text))

    def numbers(self, text: bytes) -> list[int]:
        found = self._found = []
        self._database.scan(text, match_event_handler=self._note_number)
        return sorted(set(found))

    def _note(self, number: int, start: int, end: int, flags: int, context: Any) -> None:
        self._found.append(end)

    def _note_number(self, number: int, start: int, end: int, flags: int, context: Any) -> None:
        self._found.append(number)


class Find:
    """One phrase after another, with the standard library alone. The cost grows with the number of phrases."""

    def __init__(self, phrases: Sequence[bytes]) -> None:
        self._phrases = tuple(phrases)

    def ends(self, block: bytes) -> list[int]:
        found: list[int] = []
        for phrase in self._phrases:
            at = block.find(phrase)
            while at >= 0:
                found.append(at + len(phrase))
                at = block.find(phrase, at + 1)
        found.sort()
        return found

    def claims(self, text: bytes) -> bool:
        return any(phrase in text for phrase in self._phrases)

    def numbers(self, text: bytes) -> list[int]:
        return [number for number, phrase in enumerate(self._phrases) if phrase in text]


def scanner_for(phrases: Sequence[bytes]) -> Scanner:
    """The faster engine that this installation has."""
    if not phrases:
        return Find(())
    try:
        return Vectorscan(phrases)
    except ImportError:
        return Find(phrases)


@dataclass(slots=True)
class Block:
    """Whole lines of a text, or a piece of a line that is longer than the buffer.

    ahead   what follows, at most AHEAD bytes
    number  of the first line, from 1
    offset  of the first byte in the unpacked text
    seen    bytes at the start that the block before ended with
    lines   line ends behind what was seen; set by a reader that has counted them
    """

    data: bytes
    ahead: bytes
    number: int
    offset: int
    seen: int = 0
    lines: int | None = None


class Gap(NamedTuple):
    """What of a text was left out: whole lines, and their bytes."""

    first_line: int
    last_line: int
    bytes: int


class Source(Protocol):
    """What the blocks are read from."""

    def readinto(self, buffer: memoryview, /) -> int | None: ...


class Blocks:
    """A text in blocks, through one buffer. After the iteration `size`, `lines` and `gap` are known.

    head_bytes, tail_start  where set: lines that end behind the first and begin before the second are left out
    """

    def __init__(self, source: Source, *, head_bytes: int | None = None, tail_start: int = 0) -> None:
        self._source = source
        self._head, self._tail = head_bytes, tail_start
        self.size = 0
        self.lines = 0
        self.gap: Gap | None = None

    def __iter__(self) -> Iterator[Block]:
        buffer = bytearray(BUFFER)
        view = memoryview(buffer)
        fill, offset, number, seen, ended, open_line = 0, 0, 1, 0, False, False
        while True:
            while fill < BUFFER and not ended:
                count = self._source.readinto(view[fill:]) or 0
                ended = not count
                fill += count
            self.size = offset + fill
            if self._head is not None and self.gap is None and offset + fill > self._head:
                cut = buffer.rfind(b"\n", 0, max(0, self._head - offset)) + 1
                if cut > seen:
                    yield Block(bytes(view[:cut]), b"", number, offset, seen)
                lines = buffer.count(b"\n", seen, cut)
                skipped = _Skip(number + lines, offset + cut)
                fill = self._skip(buffer, view, fill, cut, skipped)
                number, offset, seen = skipped.number, skipped.offset, 0
                self.gap = Gap(skipped.first, number - 1 + (not fill and skipped.open), skipped.offset - skipped.begin)
                open_line = skipped.open and not fill
                self.size = offset + fill
                if not fill:
                    self.lines = number - 1 + open_line
                    return
                ended = False
                continue
            if ended and not fill:
                self.lines = number - 1 + open_line
                return
            keep = 0
            if ended:
                limit = fill
            else:
                limit = buffer.rfind(b"\n", 0, fill - AHEAD) + 1
                if limit <= seen:
                    # No line end in the buffer: scan what there is, and keep the end for a phrase that spans the edge.
                    limit = max(buffer.rfind(b"\r", 0, fill - AHEAD) + 1, 0)
                    if limit <= seen + OVERLAP:
                        limit = fill - AHEAD
                        keep = OVERLAP
            data = bytes(view[:limit])
            block = Block(data, bytes(view[limit : min(fill, limit + AHEAD)]), number, offset, seen)
            yield block
            number += data.count(b"\n", seen) if block.lines is None else block.lines
            open_line = data[-1:] != b"\n"
            moved = limit - keep
            view[: fill - moved] = view[moved:fill]
            fill -= moved
            offset += moved
            seen = keep
            if ended:
                self.lines = number - 1 + open_line
                return

    def _skip(self, buffer: bytearray, view: memoryview, fill: int, start: int, skipped: _Skip) -> int:
        """Passes over lines up to the first that begins behind the tail's start; returns the buffer's new fill."""
        while True:
            wanted = self._tail - skipped.offset
            if wanted <= fill - start:
                end = buffer.find(b"\n", max(start, start + wanted - 1), fill) + 1
                if end:
                    skipped.pass_over(buffer, start, end)
                    view[: fill - end] = view[end:fill]
                    return fill - end
            skipped.pass_over(buffer, start, fill)
            fill = self._source.readinto(view) or 0
            start = 0
            if not fill:
                return 0


@dataclass
class _Skip:
    """How far the lines that are left out have come."""

    number: int
    offset: int
    open: bool = False

    def __post_init__(self) -> None:
        self.first, self.begin = self.number, self.offset

    def pass_over(self, buffer: bytearray, start: int, end: int) -> None:
        self.number += buffer.count(b"\n", start, end)
        self.offset += end - start
        if end > start:
            self.open = buffer[end - 1] != 10
