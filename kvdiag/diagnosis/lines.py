"""LogLine: one physical line as the later stages see it, and the reader that yields them."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from kvdiag.diagnosis.errors import UnreadableLog

_PREFIX = re.compile(r"\[(\d{4}-\d\d-\d\d )?(\d\d:\d\d:\d\d(?:[.,]\d+)?)((?: [A-Z_]+\d+)*)\]\s?")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Log:
    """One uploaded file: its name and its bytes, perhaps compressed."""

    name: str
    stream: BinaryIO


@dataclass(frozen=True, slots=True)
class LogLine:
    """One physical line (or one record of it): where it stands, when and by whom it was printed, what it says."""

    file: int
    number: int
    text: str
    clock: str | None = None
    rank: str = ""
    node: str = ""
    shown: str = ""
    after: tuple[str, ...] = field(default=(), repr=False, compare=False)

    def following(self, count: int) -> tuple[str, ...]:
        """The texts of the next physical lines, at most `count`."""
        return self.after[:count]


@dataclass
class FileInfo:
    """What the upload says of one file."""

    name: str
    bytes: int = 0
    lines: int = 0
    encoding: str = "utf-8"
    compression: str | None = None
    carriers: list[str] = field(default_factory=list)
    gap: dict[str, int] | None = None


class LineReader:
    """Yields the lines that contain one of the phrases, in file order."""

    def __init__(
        self,
        logs: Sequence[Log],
        phrases: Sequence[bytes],
        limits: object = None,
        dense: Sequence[bytes] = (),
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        self._logs = logs
        self._phrases = [p.decode() for p in (*phrases, *dense)]
        self.files: list[FileInfo] = []
        self.masked: dict[str, int] = {}

    def __iter__(self) -> Iterator[LogLine]:
        for index, log in enumerate(self._logs):
            raw = log.stream.read()
            info = FileInfo(name=log.name, bytes=len(raw))
            self.files.append(info)
            if raw[:2] == b"\x1f\x8b":
                raw, info.compression = gzip.decompress(raw), "gzip"
            if not raw.strip():
                raise UnreadableLog(f"{log.name} is empty. Send the log that the server printed.")
            physical = raw.decode("utf-8", "replace").split("\n")
            info.lines = len(physical) - (physical[-1] == "")
            for number, whole in enumerate(physical, 1):
                for part in whole.split("\r"):
                    if any(p in part for p in self._phrases):
                        after = tuple(_peel(x)[0] for x in physical[number : number + 12])
                        for text, clock, rank in _records(part):
                            yield LogLine(index, number, text, clock, rank, "", part.strip(), after)


def _peel(part: str) -> tuple[str, str | None, str]:
    part = _ANSI.sub("", part)
    found = _PREFIX.search(part)
    if not found:
        return part.strip(), None, ""
    clock = ((found[1] or "").strip() + "T" if found[1] else "") + found[2]
    return part[found.end() :].strip(), clock, found[3].strip()


def _records(part: str) -> Iterator[tuple[str, str | None, str]]:
    part = _ANSI.sub("", part)
    starts = [m.start() for m in _PREFIX.finditer(part)] or [0]
    for start, end in zip(starts, [*starts[1:], len(part)], strict=True):
        yield _peel(part[start:end])
