"""Finding lines of a stored log: plain text or a pattern, in time linear in the log, whatever the pattern.

A pattern comes from a stranger, so it is run by hyperscan, which has no backtracking, and compiled in a process of its
own with bounds, for compiling may take any time. The log is read in blocks; nothing is kept but line numbers.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from kvdiag import bounded

try:
    import hyperscan

    from reports.pattern_compiler import database_of
except ImportError:  # no wheel for this machine: plain text and our own expressions still work
    hyperscan = None

BLOCK = 4 << 20
MOST_LINES = 20_000
MOST_EVENTS = 1_000_000
MOST_LETTERS = 200
COMPILE_S = 5  # of the clock; of the processor the compiler gives itself less
COMPILER = "reports.pattern_compiler"
_COMPILERS = threading.BoundedSemaphore(2)  # at once, in each web process
_TOO_MUCH = "This pattern is too much work. Repeat less within it, or search for plain text."

_ERRORS = r"(error|exception)\b|\b(traceback|critical|fatal|out of memory|killed)\b"
LEVELS = {"error": _ERRORS, "warning": _ERRORS + r"|warning\b|\bwarn\b"}


class BadPattern(ValueError):
    """A pattern that cannot be searched for; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Found:
    """Numbers of the lines that match, in order. `cut` when there were more than are told."""

    lines: tuple[int, ...]
    cut: bool = False


# Offsets in a block at which something matches, in rising order.
Scan = Callable[[bytes], Iterator[int]]


def search(
    path: Path, *, text: str = "", rank: str = "", level: str = "", first: int = 1, last: int | None = None
) -> Found:
    """The lines from `first` to `last` that meet every criterion given. Raises BadPattern.

    text   plain text in any case, or /pattern/
    rank   a rank as the log's prefix spells it: "TP0", "DP1 TP3"
    level  "error" or "warning" (which includes errors)
    """
    scans = [_text_scan(text)] if text else []
    if rank:
        scans.append(_scan(rf"^([^\n]{{0,160}}[^\w\n])?{re.escape(rank)}\]"))
    if level in LEVELS:
        scans.append(_scan(LEVELS[level]))
    if not scans:
        return Found(())
    found: list[int] = []
    with path.open("rb") as file:
        for start, block in _blocks(file):
            if last is not None and start > last:
                break
            lines = None
            for scan in scans:
                here = set(_lines_of(block, start, scan(block)))
                lines = here if lines is None else lines & here
                if not lines:
                    break
            for line in sorted(lines or ()):
                if line < first or (last is not None and line > last):
                    continue
                if len(found) >= MOST_LINES:
                    return Found(tuple(found), cut=True)
                found.append(line)
    return Found(tuple(found))


def _blocks(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Blocks of whole lines with the number of their first line. A line longer than a block is cut into several."""
    number, rest = 1, b""
    while True:
        data = file.read(BLOCK)
        if not data:
            if rest:
                yield number, rest
            return
        end = data.rfind(b"\n") + 1
        if not end:
            block, rest = rest + data, b""
        else:
            block, rest = rest + data[:end], data[end:]
        yield number, block
        number += block.count(b"\n")


def _lines_of(block: bytes, start: int, offsets: Iterator[int]) -> Iterator[int]:
    line, at, told = start, 0, 0
    for offset in offsets:
        line += block.count(b"\n", at, offset)
        at = offset
        if line != told:
            told = line
            yield line


def _text_scan(text: str) -> Scan:
    if len(text) > MOST_LETTERS:
        raise BadPattern(f"Search for at most {MOST_LETTERS} letters.")
    if len(text) > 2 and text.startswith("/") and text.endswith("/"):
        if hyperscan is None:
            raise BadPattern("This site searches for plain text only; leave out the slashes.")
        return _scan(text[1:-1], ours=False)
    return _scan(_literal(text))


def _literal(text: str) -> str:
    """Text as an expression of bytes that matches only itself."""
    return "".join(chr(byte) if chr(byte).isalnum() and byte < 128 else f"\\x{byte:02x}" for byte in text.encode())


def _compiled(expression: str) -> Any:
    """A stranger's pattern as a database. Raises BadPattern where it is refused, or too much work to compile."""
    if not _COMPILERS.acquire(timeout=COMPILE_S):
        raise BadPattern("Many patterns are being searched for right now. Search again in a moment.")
    try:
        compiled = bounded.answer_of(COMPILER, expression.encode(), within_s=COMPILE_S)
    except bounded.Refused as refused:
        raise BadPattern(f"This pattern cannot be searched for: {refused}") from None
    except bounded.TooMuch:
        raise BadPattern(_TOO_MUCH) from None
    finally:
        _COMPILERS.release()
    database = hyperscan.loadb(compiled, hyperscan.HS_MODE_BLOCK)
    database.scratch = hyperscan.Scratch(database)
    return database


def _scan(expression: str, *, ours: bool = True) -> Scan:
    """Offsets of one match a line; `ours` for expressions that no stranger wrote. Raises BadPattern."""
    if hyperscan is None:  # our own expressions, which are flat
        pattern = re.compile(expression.encode(), re.IGNORECASE | re.MULTILINE)
        return lambda block: (match.start() for match in pattern.finditer(block))
    if ours:
        try:
            database = database_of(expression.encode())
        except hyperscan.error as problem:
            raise BadPattern(f"This cannot be searched for: {str(problem)[:160]}") from None
    else:
        database = _compiled(expression)

    def scan(block: bytes) -> Iterator[int]:
        ends: list[int] = []
        line_end = -1
        count = 0

        def matched(_id: int, _start: int, end: int, _flags: int, _context: object) -> bool | None:
            nonlocal line_end, count
            # Of a line one match is enough.
            if end - 1 > line_end:
                ends.append(max(0, end - 1))
                line_end = block.find(b"\n", end - 1)
                if line_end < 0:
                    line_end = len(block)
            count += 1
            return count > MOST_EVENTS or None

        try:
            database.scan(block, match_event_handler=matched)
        except hyperscan.error:
            if count <= MOST_EVENTS:
                raise
        return iter(ends)

    return scan
