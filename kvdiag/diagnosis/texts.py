"""The texts of an upload: each file unpacked and in one-byte units, ready to be read in blocks."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from typing import BinaryIO, Final, NamedTuple, cast

from kvdiag.diagnosis.archives import Member, Meter, compression_of, open_members
from kvdiag.diagnosis.decoding import Narrowed, detect_encoding, is_wide
from kvdiag.diagnosis.errors import UnreadableLog
from kvdiag.diagnosis.limits import Limits
from kvdiag.diagnosis.scanner import Blocks

_SAMPLE: Final = 64 << 10


class Log(NamedTuple):
    """One uploaded file: its name and its bytes, perhaps compressed, perhaps an archive."""

    name: str
    stream: BinaryIO


class Text(NamedTuple):
    """One file's text.

    encoding     as it came; UTF-16 and UTF-32 are UTF-8 by now
    compression  how it was packed, None for a plain file
    """

    name: str
    encoding: str
    compression: str | None
    blocks: Blocks


class _Given(io.RawIOBase):
    """A stream of which the first bytes have been read."""

    def __init__(self, head: bytes, stream: io.RawIOBase) -> None:
        self._head, self._stream = head, stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        if self._head:
            count = min(len(buffer), len(self._head))
            buffer[:count] = self._head[:count]
            self._head = self._head[count:]
            return count
        return self._stream.readinto(buffer) or 0


def open_texts(log: Log, limits: Limits, meter: Meter | None = None) -> Iterator[Text]:
    """The texts in one uploaded file, in order; each is to be read before the next is asked for.

    A picture or a program in an archive is passed over. Raises UnreadableLog and LogTooLarge, some while it reads.
    """
    stream = log.stream
    sizes: list[int] | None = None
    if limits.kept_bytes is not None:
        stream = _rewindable(stream)
        start = stream.tell()
        sizes = _sizes(Log(log.name, stream), limits, limits.kept_bytes)
        stream.seek(start)
    found = 0
    members = 0
    refused: UnreadableLog | None = None
    for member in open_members(log.name, stream, limits, meter):
        members += 1
        try:
            encoding, source = _in_units(member)
        except UnreadableLog as error:
            refused = error
            continue
        head, tail = None, 0
        if (
            sizes is not None
            and found < len(sizes)
            and limits.kept_bytes is not None
            and sizes[found] > limits.kept_bytes
        ):
            head = limits.kept_bytes // 4
            tail = sizes[found] - (limits.kept_bytes - head)
        found += 1
        yield Text(member.name, encoding, member.compression, Blocks(source, head_bytes=head, tail_start=tail))
    if refused is not None and not found:
        raise refused


def _in_units(member: Member) -> tuple[str, io.RawIOBase]:
    """A member's encoding, and its text as UTF-8 or in single bytes."""
    sample = b""
    while len(sample) < _SAMPLE:
        more = member.stream.read(_SAMPLE - len(sample))
        if not more:
            break
        # A file that was truncated while a process wrote to it begins with a hole, which may be long.
        sample += more
        if len(sample) == _SAMPLE and not sample.strip(b"\0"):
            sample = b"\0" * 4
    encoding = detect_encoding(member.name, sample)
    if encoding == "utf-8-sig":
        sample = sample.removeprefix(codecs.BOM_UTF8)
    stream: io.RawIOBase = _Given(sample, member.stream)
    if is_wide(encoding):
        stream = Narrowed(stream, encoding)
    return encoding, stream


def _sizes(log: Log, limits: Limits, kept: int) -> list[int] | None:
    """The sizes of the texts in a file, by reading it once; None where no text can be over what is kept.

    A plain file tells its size by itself.
    """
    start = log.stream.tell()
    head = log.stream.read(512)
    size = log.stream.seek(0, io.SEEK_END) - start
    log.stream.seek(start)
    kind = compression_of(head)
    if kind is None and size <= kept:
        return None
    if kind is not None and size * limits.unpacked_ratio + limits.free_unpacked_bytes <= kept:
        return None
    sizes = []
    for member in open_members(log.name, log.stream, limits):
        try:
            encoding, source = _in_units(member)
        except UnreadableLog:
            continue
        if kind is None and not is_wide(encoding):
            return [size - (3 if encoding == "utf-8-sig" else 0)]
        total = 0
        buffer = memoryview(bytearray(_SAMPLE))
        while count := source.readinto(buffer) or 0:
            total += count
        sizes.append(total)
    return sizes


def _rewindable(stream: BinaryIO) -> BinaryIO:
    try:
        if stream.seekable():
            return stream
    except AttributeError:
        pass
    import tempfile

    spool = cast(BinaryIO, tempfile.SpooledTemporaryFile(max_size=8 << 20))  # noqa: SIM115 (closed when it is dropped)
    while piece := stream.read(_SAMPLE):
        spool.write(piece)
    spool.seek(0)
    return spool
