"""`Content-Encoding` of a request body: gzip and zstd, taken off while it streams in, with a cap on what comes out."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import zstandard

from ingest.refusals import Refused

try:
    from isal.igzip import GzipFile
    from isal.isal_zlib import IsalError
except ImportError:  # no wheel for this platform: the standard library does the same, slower
    from gzip import GzipFile

    IsalError = zlib.error

OUTPUT_CHUNK = 256 << 10
GZIP_CHUNK = 4 << 10  # where a body is cut, the piece that is being read is lost
GRACE = 16 << 20  # the ratio is looked at beyond the first 16 MiB: small logs of one repeated line are honest
ACCEPTED = ("gzip", "zstd")


class Readable(Protocol):
    def read1(self, size: int = -1, /) -> bytes: ...


class _Body(io.RawIOBase):
    """Chunks as a file to read from, counting what was read."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._rest = b""
        self.taken = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if not self._rest:
            self._rest = next(self._chunks, b"")
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        self.taken += size
        return size


def decoded(chunks: Iterable[bytes], encoding: str, *, max_bytes: int, max_ratio: int) -> Iterator[bytes]:
    """The body without its content encoding.

    max_bytes  what may come out at most; max_ratio the same as a multiple of what went in, beyond the first 16 MiB
    Raises Refused for an unknown encoding (415), for bytes that are not what they claim (400), for a bomb (413).
    A body that was cut ends where it was cut: what came is worth reading.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        yield from chunks
        return
    body = _Body(chunks)
    reader: Readable
    size = OUTPUT_CHUNK
    if encoding in ("gzip", "x-gzip"):
        reader, size = GzipFile(fileobj=body), GZIP_CHUNK  # type: ignore[call-overload]
    elif encoding == "zstd":
        reader = zstandard.ZstdDecompressor(max_window_size=128 << 20).stream_reader(body, read_across_frames=True)  # type: ignore[arg-type]
    else:
        raise Refused(
            415,
            "content_encoding",
            f"Content-Encoding {encoding[:40]!r} is not understood. Use gzip or zstd, or send the file as it is: "
            "compressed files are recognised without the header.",
            {"Accept-Encoding": ", ".join(ACCEPTED)},
        )
    out = 0
    while True:
        try:
            piece = reader.read1(size)
        except EOFError:
            return
        except (gzip.BadGzipFile, zlib.error, IsalError, zstandard.ZstdError) as problem:
            raise Refused(
                400,
                "content_encoding",
                f"The body is not {encoding}, although Content-Encoding says so. Send it again without that header.",
            ) from problem
        if not piece:
            return
        out += len(piece)
        if out > max_bytes or (out > GRACE and out > body.taken * max_ratio):
            raise Refused(
                413,
                "unpacked_too_large",
                f"The body unpacks to more than {max_bytes >> 20} MiB or {max_ratio} times its size. "
                "Cut the log to its start and its end and send those.",
            )
        yield piece
