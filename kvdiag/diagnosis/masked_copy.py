"""The copy of a log that is kept: the same physical lines, as UTF-8, with nothing in it that must not be shown.

Beside each copy stands an index, so that any range of a large log is read at once. Diagnosing the copy gives the same
figures as diagnosing the log.
"""

from __future__ import annotations

import json
import os
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from kvdiag.diagnosis.archives import Meter
from kvdiag.diagnosis.carriers import peel
from kvdiag.diagnosis.decoding import clean, decode, without_escapes
from kvdiag.diagnosis.errors import UnreadableLog
from kvdiag.diagnosis.limits import DEFAULT_LIMITS, Limits
from kvdiag.diagnosis.masking import Masker
from kvdiag.diagnosis.scanner import OVERLAP, Block, Gap
from kvdiag.diagnosis.sensitive import sensitive_lines
from kvdiag.diagnosis.texts import Log, Text, open_texts
from kvdiag.diagnosis.wrapping import Wrap, broken, whole_lines, wrap_of

EVERY: Final = 256  # lines between two entries of the index
_LONGEST: Final = 64 << 10  # characters of one line that log_range and search give
_BREAKS: Final = re.compile(rb"[\s,;'\"](?=[^\s,;'\"]*$)")
_CONTROLS: Final = bytes({*range(32), 127} - {9, 10, 13})
# What a name or a token may be disguised with: ASCII lookalikes, marks of no width, JSON's escapes of plain letters.
_DISGUISED: Final = re.compile(rb"\xef[\xbb-\xbd]|\xc2[\x85\xa0\xad]|\xe3\x80|\xe2[\x80\x81]|\xd8\x9c|\\u00[2-7]")
_ESCAPED: Final = re.compile(r"\\u00([2-7][0-9A-Fa-f])")


@dataclass(frozen=True, slots=True)
class StoredLog:
    """One file of an upload as it is kept.

    bytes, lines  of the copy; the lines are the log's own, a gap is that many empty lines
    unpacked      bytes of the text that it is a copy of
    masked        what was hidden in it, by kind
    gap           what was left out over the limit: {"first_line", "last_line", "bytes"}
    """

    name: str
    path: Path
    bytes: int
    unpacked: int
    lines: int
    encoding: str
    compression: str | None
    masked: dict[str, int]
    gap: dict[str, int] | None


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found: lines in order, and where to go on (None: the end was reached)."""

    lines: tuple[tuple[int, str], ...]
    next_line: int | None


def masked_copy(
    log: Log, folder: Path, limits: Limits | None = None, masker: Masker | None = None
) -> tuple[StoredLog, ...]:
    """Writes the masked copy of each file in an upload into a folder, and what is known of it.

    Give the same masker for all files of one upload: a name then keeps its pseudonym. Raises UnreadableLog and
    LogTooLarge; what was written by then is removed.
    """
    limits = limits or DEFAULT_LIMITS
    masker = masker or Masker()
    stored: list[StoredLog] = []
    paths: list[Path] = []
    try:
        for text in open_texts(log, limits, Meter(limits)):
            path = folder / f"{len(paths)}.log"
            paths.append(path)
            stored.append(_copy(text, path, masker))
        if not any(each.bytes for each in stored):
            raise UnreadableLog(f"{log.name} is empty. Send the log that the server printed.")
    except BaseException:
        for path in paths:
            path.unlink(missing_ok=True)
            index_of(path).unlink(missing_ok=True)
        raise
    return tuple(stored)


def index_of(path: Path) -> Path:
    """The file that holds a copy's index."""
    return path.with_name(path.name + ".idx")


def log_range(path: Path | str, first: int, last: int) -> list[tuple[int, str]]:
    """The lines from `first` to `last`, both from 1 and included, with their numbers; fewer at the log's end."""
    path = Path(path)
    first = max(first, 1)
    if last < first:
        return []
    found: list[tuple[int, str]] = []
    with path.open("rb") as file:
        number = _seek(file, path, first)
        while number <= last and (raw := _line(file)) is not None:
            if number >= first:
                found.append((number, decode(raw)))
            number += 1
    return found


def search(path: Path | str, wanted: str, *, is_expression: bool = False, from_line: int = 1, most: int = 200) -> Found:
    """Lines with a text in them, or with a match of an expression; letters' case does not matter.

    The time is linear in the log whatever the expression is: Vectorscan looks for it. Raises ValueError with a sentence
    when it cannot be looked for in linear time, or no Vectorscan is installed.
    """
    path = Path(path)
    matches = _expression(wanted) if is_expression else _plain(wanted)
    found: list[tuple[int, str]] = []
    with path.open("rb") as file:
        number = _seek(file, path, from_line)
        while (raw := _line(file)) is not None:
            if number >= from_line and matches(raw):
                if len(found) == most:
                    return Found(tuple(found), number)
                found.append((number, decode(raw)))
            number += 1
    return Found(tuple(found), None)


def _plain(wanted: str) -> Any:
    if not wanted:
        return lambda raw: True
    low = wanted.lower().encode()
    if wanted.isascii():
        return lambda raw: low in raw.lower()
    return lambda raw: wanted.lower() in decode(raw).lower()


def _expression(wanted: str) -> Any:
    try:
        import hyperscan
    except ImportError as error:
        raise ValueError("This installation searches for plain text only.") from error
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    flags = hyperscan.HS_FLAG_CASELESS | hyperscan.HS_FLAG_SINGLEMATCH | hyperscan.HS_FLAG_ALLOWEMPTY
    try:
        database.compile(expressions=[wanted.encode()], ids=[0], flags=[flags])
    except Exception as error:
        raise ValueError(
            f"The expression cannot be searched for: {error}. Look-around, back-references and very large repetitions "
            "are not possible."
        ) from error
    hits: list[int] = []

    def matches(raw: bytes) -> bool:
        hits.clear()
        database.scan(raw, match_event_handler=lambda number, start, end, flags, context: hits.append(end))
        return bool(hits)

    return matches


def _seek(file: IO[bytes], path: Path, first: int) -> int:
    """Goes to the last index entry before a line; returns that entry's line number."""
    try:
        with index_of(path).open("rb") as index:
            header = len(index.readline())
            entry = (first - 1) // EVERY
            entries = (os.fstat(index.fileno()).st_size - header) // 8
            entry = min(entry, entries - 1)
            if entry <= 0:
                return 1
            index.seek(header + 8 * entry)
            offsets = array("Q")
            offsets.frombytes(index.read(8))
            file.seek(offsets[0])
            return 1 + entry * EVERY
    except (OSError, ValueError):
        return 1


def _line(file: IO[bytes]) -> bytes | None:
    """The next line without its end, no more of it than is shown; None at the log's end."""
    raw = file.readline(_LONGEST)
    if not raw:
        return None
    if raw[-1:] == b"\n":
        return raw[:-1]
    while (more := file.readline(1 << 20)) and more[-1:] != b"\n":
        pass
    return raw


def _copy(text: Text, path: Path, masker: Masker) -> StoredLog:
    before = dict(masker.counts)
    with open(path, "wb", opener=_private) as file:
        copy = _Copy(file)
        wrap: Wrap | None = None
        for block in text.blocks:
            if block.offset == 0 and not block.seen:
                wrap = wrap_of(block.data)
            if text.blocks.gap is not None and not copy.gap:
                copy.leave_out(text.blocks.gap)
            copy.write(_masked(block, copy, masker, wrap))
        copy.finish(text.blocks.gap)
    gap = text.blocks.gap
    gap_said = {"first_line": gap.first_line, "last_line": gap.last_line, "bytes": gap.bytes} if gap else None
    with open(index_of(path), "wb", opener=_private) as index:
        index.write(json.dumps({"every": EVERY, "lines": copy.lines, "gap": gap_said}).encode() + b"\n")
        copy.offsets.tofile(index)
    counts = {kind: count - before.get(kind, 0) for kind, count in masker.counts.items()}
    return StoredLog(
        name=text.name,
        path=path,
        bytes=copy.size if not copy.blank else 0,
        unpacked=text.blocks.size if not copy.blank else 0,
        lines=text.blocks.lines,
        encoding=text.encoding,
        compression=text.compression,
        masked={kind: count for kind, count in sorted(counts.items()) if count},
        gap=gap_said,
    )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class _Copy:
    """A copy while it is written: its size, its lines, and the offsets for the index."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.size = self.lines = 0
        self.offsets = array("Q", [0])
        self.gap = False
        self.blank = True
        self.skip = 0  # bytes at the start of the next piece of an overlong line that have been written

    def write(self, data: bytes) -> None:
        """Adds whole lines, or a piece of one."""
        if self.blank and data.strip():
            self.blank = False
        count = data.count(b"\n")
        at = 0
        wanted = EVERY - self.lines % EVERY
        while wanted <= count:
            for _ in range(wanted):
                at = data.index(b"\n", at) + 1
            count -= wanted
            self.lines += wanted
            self.offsets.append(self.size + at)
            wanted = EVERY
        self.lines += count
        self._file.write(data)
        self.size += len(data)

    def leave_out(self, gap: Gap) -> None:
        """Writes an empty line for each that was left out."""
        self.gap = True
        left = gap.last_line - gap.first_line + 1
        while left > 0:
            self.write(b"\n" * min(left, 1 << 16))
            left -= 1 << 16

    def finish(self, gap: Gap | None) -> None:
        """Writes a gap that reaches the end."""
        if gap is not None and not self.gap:
            self.leave_out(gap)


def _masked(block: Block, copy: _Copy, masker: Masker, wrap: Wrap | None) -> bytes:
    """A block as it is kept. An overlong line's last part waits for the next piece: a secret must not be cut in two."""
    data = block.data[copy.skip :] if block.seen else block.data
    copy.skip = 0
    rest = b""
    if data[-1:] not in (b"\n", b"\r") and block.ahead and len(data) > OVERLAP:
        found = _BREAKS.search(data[-OVERLAP:])
        keep = found.end() if found else OVERLAP
        copy.skip = keep
        rest = data[len(data) - OVERLAP + keep :]
        data = data[: len(data) - len(rest)]
    if not data.isascii():
        data = _utf8(data)
    data = without_escapes(data).translate(None, _CONTROLS)
    if b"\r\n" in data:
        data = re.sub(rb"\r+\n", b"\n", data)
    if wrap is not None and not block.seen:
        return _unbroken(data, masker, wrap)
    return b"".join(_lines(data, masker))


def _utf8(data: bytes) -> bytes:
    try:
        data.decode()
    except UnicodeDecodeError:
        return b"\n".join(decode(line).encode("utf-8", "replace") for line in data.split(b"\n"))
    return data


def _lines(data: bytes, masker: Masker) -> Iterator[bytes]:
    """The block as it is kept, in pieces: what hides nothing is given as it stands."""
    given = done = at = 0
    spans = _spans(data, masker)
    while True:
        if masker.looks_ahead:
            # Within a private key, or behind the name of a secret: the line goes to the masker, whatever it looks like.
            if done >= len(data):
                break
            begin, end = done, data.find(b"\n", done)
            end = len(data) if end < 0 else end
        else:
            while at < len(spans) and spans[at][0] < done:
                at += 1
            if at == len(spans):
                break
            begin, end = spans[at]
        raw = data[begin:end]
        masked = _masked_alone(raw, masker)
        if masked != raw:
            yield data[given:begin]
            yield masked
            given = end
        done = end + 1
    yield data[given:]


def _masked_alone(raw: bytes, masker: Masker) -> bytes:
    """One line as it is kept; at once where one alike hid nothing."""
    looked_ahead = masker.looks_ahead
    if not looked_ahead:
        if raw in masker.harmless:
            return raw
        if (known := masker.address_hidden(raw)) is not None:
            return known
    text = raw.decode("utf-8", "replace")
    masked = _line_masked(text, masker)
    copied = masked.encode("utf-8", "replace")
    if not (looked_ahead or masker.looks_ahead or masker.has_own):
        if masked == text:
            masker.harmless.learn(raw, text)
        else:
            masker.addressed.learn(raw, copied)
    return copied


def _spans(data: bytes, masker: Masker) -> Sequence[tuple[int, int]]:
    """Begin and end of each line that may hold something to hide, or is written so that it would not be found."""
    spans = sensitive_lines(data, masker.triggers)
    if masker.has_own:
        spans = sorted({*spans, *(span for span in _line_spans(data) if masker.finds_own(data[slice(*span)]))})
    if data.isascii() and b"\\u00" not in data:
        return spans
    found = set(spans)
    end = -1
    for sign in _DISGUISED.finditer(data):
        if sign.start() > end:
            end = data.find(b"\n", sign.start())
            end = len(data) if end < 0 else end
            found.add((data.rfind(b"\n", 0, sign.start()) + 1, end))
    return sorted(found)


def _line_spans(data: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(data):
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        yield at, end
        at = end + 1


def _line_masked(line: str, masker: Masker) -> str:
    """One line as it is kept: itself where nothing in it is hidden, whatever it is disguised with."""
    plain = _ESCAPED.sub(_letter, clean(line))
    message = peel(plain, set()).text
    masked = masker.mask_dressed(plain, message) if message.strip() else masker.mask_empty(plain)
    return line if masked == plain else masked


def _letter(escape: re.Match[str]) -> str:
    letter = chr(int(escape[1], 16))
    return escape[0] if letter in '"\\\x7f' else letter


def _unbroken(data: bytes, masker: Masker, wrap: Wrap) -> bytes:
    """The lines of a wrapped file: what is hidden may go over a break, and the file stays wrapped."""
    kept: list[str] = []
    lines = data.decode("utf-8", "replace").split("\n")
    for parts in whole_lines(data, wrap):
        if len(parts) == 1:
            kept.append(_line_masked(lines[len(kept)], masker))
            continue
        plain = [_ESCAPED.sub(_letter, clean(part)) for part in parts]
        masked = masker.mask_broken(plain)
        same = masked == plain
        kept += lines[len(kept) : len(kept) + len(parts)] if same else broken("".join(masked), len(parts), wrap)
    return ("\n".join(kept) + ("\n" if data[-1:] == b"\n" else "")).encode("utf-8", "replace")
