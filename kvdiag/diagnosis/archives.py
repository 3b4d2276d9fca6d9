"""Compressed files and archives, recognised by content and unpacked as a stream with bounded output.

One encoding, one archive: a gzip of a tar is read, an archive within an archive is not. Links, folders, paths and
special files of an archive are passed over. A file that breaks off is read as far as it goes.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, BinaryIO, Final, NamedTuple, Protocol, cast

from kvdiag.diagnosis.errors import LogTooLarge, UnreadableLog
from kvdiag.diagnosis.limits import MIB, Limits

_PIECE: Final = 64 << 10
_MAGIC: Final = (
    (b"\x1f\x8b\x08", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
)
_FOREIGN: Final = (
    (b"7z\xbc\xaf\x27\x1c", "7z"), (b"Rar!\x1a\x07", "RAR"), (b"\x1f\x9d", "compress (.Z)"),
    (b"\x04\x22\x4d\x18", "LZ4"), (b"MSCF", "cabinet"), (b"\x89LZO", "LZO"),
)  # fmt: skip
_READS_BEHIND_THE_END: Final = 64
_LONGEST_NAME: Final = 200
_WAYS: Final = "Send it as plain text, gzip, zstd, xz, bzip2, zip or tar."


class Member(NamedTuple):
    """One file of an upload, unpacked: its name, its bytes as a stream, how it was packed."""

    name: str
    stream: io.RawIOBase
    compression: str | None


@dataclass
class Meter:
    """Counts an upload's unpacked bytes against the limits."""

    limits: Limits
    unpacked: int = 0
    packed: dict[str, int] = field(default_factory=dict)  # bytes fed to a decompressor, by file
    out: dict[str, int] = field(default_factory=dict)

    def count(self, name: str, packed: int | None, unpacked: int) -> None:
        """Note that a file has come to so many bytes in all, from so many packed ones (None: not packed).

        Raises UnreadableLog for a decompression bomb, LogTooLarge over the ceiling.
        """
        limits = self.limits
        self.unpacked += unpacked
        out = self.out[name] = self.out.get(name, 0) + unpacked
        if limits.unpacked_bytes is not None and self.unpacked > limits.unpacked_bytes:
            raise LogTooLarge(
                f"{name} unpacks to more than {limits.unpacked_bytes // MIB:,} MiB. Cut it to the start of the server "
                "and its end, for example with head -c 100M and tail -c 300M, and send that."
            )
        if packed is not None and out - limits.free_unpacked_bytes > limits.unpacked_ratio * packed:
            raise UnreadableLog(
                f"{name} unpacks to more than {limits.unpacked_ratio} times its size, which no log does. "
                "Send the log itself."
            )


class Codec(Protocol):
    """A decompressor fed in pieces."""

    def feed(self, data: bytes, most: int) -> bytes: ...
    @property
    def hungry(self) -> bool: ...


class _Zlib:
    """gzip (also several members after one another) or deflate, by isal where it is installed."""

    def __init__(self, wbits: int) -> None:
        self._wbits = wbits
        self._new: Callable[[int], Any] = _zlib_decompressor()
        self._codec = self._new(wbits)
        self._rest = b""

    @property
    def hungry(self) -> bool:
        return not self._rest

    def feed(self, data: bytes, most: int) -> bytes:
        data = self._rest + data if self._rest else data
        if self._codec.eof:
            if self._wbits != 31 or not data.lstrip(b"\0"):
                self._rest = b""  # padding
                return b""
            self._codec = self._new(self._wbits)
        out = cast(bytes, self._codec.decompress(data, most))
        self._rest = self._codec.unused_data if self._codec.eof else self._codec.unconsumed_tail
        return out


class _Lzma:
    """xz or bzip2: several streams after one another are one file."""

    def __init__(self, new: Callable[[], Any]) -> None:
        self._new = new
        self._codec = new()

    @property
    def hungry(self) -> bool:
        if self._codec.eof:  # the next stream may begin with the next piece
            return not self._codec.unused_data
        return bool(self._codec.needs_input)

    def feed(self, data: bytes, most: int) -> bytes:
        if self._codec.eof:
            data = (cast(bytes, self._codec.unused_data) + data).lstrip(b"\0")  # padding
            self._codec = self._new() if data else _Between()
        return cast(bytes, self._codec.decompress(data, most))


class _Between:
    """Behind the end of a stream, where another may begin."""

    eof, needs_input, unused_data = True, True, b""

    def decompress(self, data: bytes, most: int) -> bytes:
        return b""


class Unpacked(io.RawIOBase):
    """The unpacked bytes of a packed stream, a bounded piece at a time.

    A stream that breaks off, or breaks after its first bytes, ends there: `broken` says so. Raises UnreadableLog when
    nothing at all can be unpacked, and what Meter.count raises.
    """

    def __init__(self, name: str, source: Reads, kind: str, meter: Meter) -> None:
        self._name, self._meter = name, meter
        self._source = _Fed(source)
        self._produce = _zstd(self._source) if kind == "zstd" else _pushed(self._source, _codec(kind))
        self._given = False
        self._ended = False
        self.broken = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        out = self.read(len(buffer))
        buffer[: len(out)] = out
        return len(out)

    def read(self, most: int = -1, /) -> bytes:
        """At most so many bytes; b"" at the end."""
        if most < 0:
            return self.readall()
        if self._ended or not most:
            return b""
        try:
            out = self._produce(most)
        except _broken() as error:
            self._ended = self.broken = True
            if not self._given:
                raise UnreadableLog(
                    f"{self._name} is a broken compressed file: nothing in it can be unpacked. "
                    "Compress the log again, or send it as plain text."
                ) from error
            return b""
        if out:
            self._given = True
            self._meter.count(self._name, self._source.count, len(out))
        else:
            self._ended = True
        return out


class _Fed:
    """A source whose bytes are counted as they are taken."""

    def __init__(self, source: Reads) -> None:
        self._source = source
        self.count = 0

    def read(self, count: int = _PIECE, /) -> bytes:
        data = self._source.read(count) or b""
        self.count += len(data)
        return data


def _pushed(source: _Fed, codec: Codec) -> Callable[[int], bytes]:
    """Feeds a decompressor until something comes out; b"" at the end."""

    def produce(most: int) -> bytes:
        while True:
            data = source.read() if codec.hungry else b""
            ended = codec.hungry and not data
            if out := codec.feed(data, most):
                return out
            if ended:
                return b""

    return produce


def _zstd(source: _Fed) -> Callable[[int], bytes]:
    """zstd frames after one another. The window is bounded, so that a header cannot ask for gigabytes."""
    try:
        import zstandard
    except ImportError as error:
        raise UnreadableLog("zstd is not read by this installation. Send the log as gzip or plain text.") from error
    reader = zstandard.ZstdDecompressor(max_window_size=128 * MIB).stream_reader(
        cast(Any, source), read_size=_PIECE, read_across_frames=True
    )

    def produce(most: int) -> bytes:
        try:
            return reader.read(most)
        except zstandard.ZstdError as error:
            raise ValueError("broken zstd frame") from error

    return produce


class Reads(Protocol):
    """What is needed of a stream of packed bytes."""

    def read(self, count: int, /) -> bytes | None: ...


class Plain(io.RawIOBase):
    """A stream as it is, its bytes counted; `head` was read from it before."""

    def __init__(self, name: str, source: Reads, meter: Meter, packed: int | None = None) -> None:
        self._name, self._source, self._meter, self._packed = name, source, meter, packed

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        count = _fill(self._source, buffer)
        if count:
            self._meter.count(self._name, self._packed, count)
        return count


class _Ahead:
    """A stream whose first bytes were looked at and are given back."""

    def __init__(self, head: bytes, source: Reads) -> None:
        self._head, self._source = head, source

    def read(self, count: int, /) -> bytes:
        if self._head:
            out, self._head = self._head[:count], self._head[count:]
            return out
        return self._source.read(count) or b""

    def readinto(self, buffer: bytearray | memoryview) -> int:
        if not self._head:
            return _fill(self._source, buffer)
        out = self.read(len(buffer))
        buffer[: len(out)] = out
        return len(out)


def _fill(source: Reads, buffer: bytearray | memoryview) -> int:
    """Reads into a buffer, without bytes of their own in between where the source can; how many, 0 at the end."""
    if isinstance(source, io.BufferedIOBase | _Ahead):
        return source.readinto(buffer) or 0
    data = source.read(len(buffer)) or b""
    buffer[: len(data)] = data
    return len(data)


def compression_of(head: bytes) -> str | None:
    """How a file is packed, from its first 512 bytes; None for one that is not."""
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if head[:3] == b"BZh" and head[3:4].isdigit() and head[4:10] in (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90"):
        return "bz2"
    return "tar" if _is_tar(head) else None


def _is_tar(head: bytes) -> bool:
    """Whether a file begins with a tar header: its magic word alone may stand in any text, its sum may not.

    Source: POSIX.1, pax: the header's bytes are added up with the sum's own eight taken for blanks.
    """
    if head[257:262] != b"ustar" or len(head) < 512:
        return False
    digits = head[148:156].strip(b" \0")
    if not digits or digits.strip(b"01234567"):
        return False
    return sum(head[:148]) + 8 * ord(" ") + sum(head[156:512]) == int(digits, 8)


def decode_stream(stream: BinaryIO, encoding: str, limits: Limits) -> io.RawIOBase:
    """The body of a request whose Content-Encoding is `encoding` (gzip, x-gzip, deflate, zstd, identity or empty).

    Raises UnreadableLog for other encodings, for more than one, and for a bomb while it is read.
    """
    meter = Meter(limits)
    kind = encoding.strip().lower().removeprefix("x-")
    name = "The request's body"
    if kind in ("", "identity"):
        return Plain(name, stream, meter)
    if kind == "deflate":
        head = stream.read(2)
        zlib_header = len(head) == 2 and head[0] & 15 == 8 and (head[0] << 8 | head[1]) % 31 == 0
        return Unpacked(name, _Ahead(head, stream), "deflate" if zlib_header else "raw deflate", meter)
    if kind not in ("gzip", "zstd"):
        raise UnreadableLog(
            f"A Content-Encoding of {encoding[:40]!r} cannot be undone here. Use gzip, deflate, zstd or none."
        )
    return Unpacked(name, stream, kind, meter)


def open_members(name: str, stream: BinaryIO, limits: Limits, meter: Meter | None = None) -> Iterator[Member]:
    """The files of one upload, unpacked, in the order they stand in it; read each before asking for the next.

    Raises UnreadableLog for a format that is not read, an archive within an archive, a broken archive or a bomb, and
    LogTooLarge over a limit; some only while a member is read.
    """
    meter = meter or Meter(limits)
    head = stream.read(512) or b""
    for magic, kind in _FOREIGN:
        if head.startswith(magic):
            raise UnreadableLog(f"{name} is a {kind} archive, which is not read. {_WAYS}")
    kind_of = compression_of(head)
    source: Reads = _Ahead(head, stream)
    if kind_of is None:
        yield Member(name, Plain(name, source, meter), None)
    elif kind_of == "zip":
        yield from _zip_members(name, _seekable(stream, head), limits, meter)
    elif kind_of == "tar":
        yield from _tar_members(name, source, "tar", limits, meter, packed=False)
    else:
        unpacked = Unpacked(name, source, kind_of, meter)
        inner = _read_full(unpacked, 512)
        inner_kind = compression_of(inner)
        rest = _Ahead(inner, unpacked)
        if inner_kind == "tar":
            yield from _tar_members(name, rest, f"tar.{_SUFFIX[kind_of]}", limits, meter, packed=True)
        elif inner_kind is not None:
            raise _nested(name, name)
        else:
            yield Member(name, Counted(rest), kind_of)


_SUFFIX: Final = {"gzip": "gz", "zstd": "zst", "xz": "xz", "bz2": "bz2"}


class Counted(io.RawIOBase):
    """A stream whose bytes its source already counts."""

    def __init__(self, source: Reads) -> None:
        self._source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        return _fill(self._source, buffer)


def _codec(kind: str) -> Codec:
    # These modules are needed for few files, and are not loaded for others.
    if kind == "xz":
        import lzma

        return _Lzma(lambda: lzma.LZMADecompressor(memlimit=256 * MIB))
    if kind == "bz2":
        import bz2

        return _Lzma(bz2.BZ2Decompressor)
    return _Zlib({"gzip": 31, "deflate": 15, "raw deflate": -15}[kind])


def _zlib_decompressor() -> Callable[[int], Any]:
    try:
        from isal import isal_zlib
    except ImportError:
        return zlib.decompressobj
    return cast(Callable[[int], Any], isal_zlib.decompressobj)


def _broken() -> tuple[type[Exception], ...]:
    """What the codecs raise on bytes that are not theirs."""
    import lzma

    known = (zlib.error, lzma.LZMAError, EOFError, OSError, ValueError)
    try:
        from isal import isal_zlib
    except ImportError:
        return known
    return (*known, cast(type[Exception], isal_zlib.IsalError))


def _read_full(stream: Reads, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = stream.read(count - len(data))
        if not more:
            break
        data += more
    return data


def _seekable(stream: BinaryIO, head: bytes) -> BinaryIO:
    """The stream from its start, on disk when it cannot be rewound."""
    try:
        if stream.seekable():
            stream.seek(-len(head), io.SEEK_CUR)
            return stream
    except (AttributeError, OSError):
        pass
    import tempfile

    spool = cast(BinaryIO, tempfile.SpooledTemporaryFile(max_size=8 * MIB))  # noqa: SIM115 (closed when it is dropped)
    spool.write(head)
    while piece := stream.read(_PIECE):
        spool.write(piece)
    spool.seek(0)
    return spool


def _nested(name: str, member: str) -> UnreadableLog:
    return UnreadableLog(
        f"{name} holds another packed file ({_base(member)}). Unpack the inner one and send the logs themselves."
    )


def _base(path: str) -> str:
    """A member's name for people: no folder, nothing that is not printed, nothing that is no text."""
    last = PurePosixPath(path.replace("\\", "/")).name
    return "".join(character for character in last if character.isprintable())[:_LONGEST_NAME] or "log"


def _wanted(path: str) -> bool:
    parts = PurePosixPath(path.replace("\\", "/")).parts
    return bool(parts) and "__MACOSX" not in parts and not parts[-1].startswith(("._", ".DS_Store"))


def _too_many(name: str, limits: Limits) -> LogTooLarge:
    return LogTooLarge(f"{name} holds more than {limits.members} files. Send an archive of the server's logs alone.")


def _tar_members(
    name: str, source: Reads, kind: str, limits: Limits, meter: Meter, *, packed: bool
) -> Iterator[Member]:
    import tarfile

    count = 0
    try:
        with tarfile.open(fileobj=cast(Any, _Ending(source)), mode="r|", bufsize=_PIECE) as archive:
            for entry in archive:
                if not entry.isreg() or not _wanted(entry.name):
                    continue
                count += 1
                if count > limits.members:
                    raise _too_many(name, limits)
                _leave_holes_out(entry)
                member = _base(entry.name)
                content = _Lenient(_Stored(archive.fileobj, entry.size), (tarfile.TarError, EOFError, OSError))
                head = _read_full(content, 512)
                if entry.size and not head and count == 1:
                    raise UnreadableLog(
                        f"{name} is cut off where {member} begins. Send it whole, or send the log itself."
                    )
                inner = compression_of(head)
                rest = _Ahead(head, content)
                if inner in _SUFFIX and not packed:  # a rotated log that is compressed by itself: one encoding in all
                    unpacked = Unpacked(member, rest, inner, meter)
                    if compression_of(first := _read_full(unpacked, 512)) is not None:
                        raise _nested(name, member)
                    yield Member(member, Counted(_Ahead(first, unpacked)), f"{kind}+{inner}")
                elif inner is not None:
                    raise _nested(name, member)
                elif packed:
                    yield Member(member, Counted(rest), kind)
                else:
                    yield Member(member, Plain(member, rest, meter), kind)
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        if count:
            return  # broken off: what came before has been read
        raise UnreadableLog(f"{name} is a broken tar archive. Make it again, or send the log itself.") from error
    if not count:
        raise UnreadableLog(f"{name} is an archive without a file in it. Send the log that the server printed.")


def _leave_holes_out(entry: Any) -> None:
    """A sparse file becomes what is stored of it: holes hold no text, and a few bytes may claim terabytes of them."""
    if entry.sparse is not None:
        entry.size, entry.sparse = sum(size for _, size in entry.sparse), None


def _zip_members(name: str, stream: BinaryIO, limits: Limits, meter: Meter) -> Iterator[Member]:
    import lzma
    import zipfile

    broken = (zipfile.BadZipFile, EOFError, OSError, ValueError, zlib.error, lzma.LZMAError, NotImplementedError)
    size = stream.seek(0, io.SEEK_END)
    stream.seek(0)
    count = 0
    try:
        with zipfile.ZipFile(stream) as archive:
            for entry in archive.infolist():
                kind = entry.external_attr >> 28  # the file type of a Unix mode: 8 regular, 10 link, 0 not given
                if entry.is_dir() or kind not in (0, 8) or not _wanted(entry.filename):
                    continue
                if entry.flag_bits & 1:
                    raise UnreadableLog(f"{name} is locked with a password. Send it without one.")
                count += 1
                if count > limits.members:
                    raise _too_many(name, limits)
                member = _base(entry.filename)
                with archive.open(entry) as content:
                    head = _read_full(content, 512)
                    if compression_of(head) is not None:
                        raise _nested(name, member)
                    yield Member(member, Plain(member, _Lenient(_Ahead(head, content), broken), meter, size), "zip")
    except broken as error:
        raise UnreadableLog(f"{name} is a broken zip archive. Make it again, or send the log itself.") from error
    except RuntimeError as error:
        raise UnreadableLog(f"{name} is locked with a password. Send it without one.") from error
    if not count:
        raise UnreadableLog(f"{name} is an archive without a file in it. Send the log that the server printed.")


class _Ending:
    """A source that is not read again and again once it is over: a member may claim to go on for ever."""

    def __init__(self, source: Reads) -> None:
        self._source = source
        self._after = 0

    def read(self, count: int, /) -> bytes:
        data = self._source.read(count) or b""
        self._after = 0 if data else self._after + 1
        if self._after > _READS_BEHIND_THE_END:
            raise EOFError
        return data


class _Stored:
    """A member's bytes, as far as the archive goes: tarfile's own reader gives nothing of a piece that is cut."""

    def __init__(self, source: Any, size: int) -> None:
        self._source, self._left = source, size

    def read(self, count: int, /) -> bytes:
        data: bytes = self._source.read(min(count, self._left)) if self._left > 0 else b""
        self._left -= len(data)
        return data


class _Lenient:
    """A source whose failure after its first bytes is its end."""

    def __init__(self, source: Reads, errors: tuple[type[Exception], ...]) -> None:
        self._source, self._errors = source, errors
        self._given = False

    def read(self, count: int, /) -> bytes:
        try:
            data = self._source.read(count) or b""
        except self._errors:
            if not self._given:
                raise
            return b""
        self._given = self._given or bool(data)
        return data
