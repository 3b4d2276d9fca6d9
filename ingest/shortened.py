"""A log's start and end with the middle left out: what is still read when reading all of it takes too long.

The start has the arguments and the memory figures, the end has the crash. The lines between are empty ones, so that
every line keeps its number.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

HEAD = 8 << 20
TAIL = 8 << 20


class Shortened(io.RawIOBase):
    """The stream: the start, an empty line for each that is left out, the end.

    gap  {"first_line", "last_line", "bytes"} of what is left out
    """

    def __init__(self, path: Path, lines: int) -> None:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(HEAD)
            head = head[: head.rfind(b"\n") + 1]
            file.seek(max(len(head), size - TAIL))
            tail = file.read()
            tail = tail[tail.find(b"\n") + 1 :]
        first, missing = head.count(b"\n"), lines - head.count(b"\n") - tail.count(b"\n")
        self.gap = {
            "first_line": first + 1,
            "last_line": first + missing,
            "bytes": size - len(head) - len(tail),
        }
        self._parts = [head, missing, tail]

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        while self._parts:
            part = self._parts[0]
            piece = b"\n" * min(len(buffer), part) if isinstance(part, int) else part[: len(buffer)]
            if piece:
                buffer[: len(piece)] = piece
                self._parts[0] = part - len(piece) if isinstance(part, int) else part[len(piece) :]
                return len(piece)
            self._parts.pop(0)
        return 0


def is_worth_it(file: dict[str, Any]) -> bool:
    """True when leaving out the middle leaves out much."""
    return bool(file["bytes"] > 2 * (HEAD + TAIL) and not file.get("gap"))
