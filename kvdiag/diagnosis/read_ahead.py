"""Unpacking beside reading: another thread goes on with the one while this one does the other.

The codecs and the scan both leave the interpreter to other threads, so that a packed log takes about as long as the
slower of the two, not as their sum.
"""

from __future__ import annotations

import io
from threading import get_ident
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from queue import Queue
    from threading import Event, Thread

_PIECE: Final = 256 << 10
_PIECES: Final = 4  # that wait to be read
_ALONE: Final = 1 << 20  # bytes that are read without another thread: most packed logs have no more
_PATIENCE_S: Final = 0.05
_LONGEST_S: Final = 2.0  # that closing waits for a source which gives nothing, such as a pipe


class ReadAhead(io.RawIOBase):
    """A stream that is read some pieces ahead of its reader.

    Raises what reading the source raises, at the place in the stream where that was. The thread ends with the stream,
    and when this is closed or dropped.
    """

    def __init__(self, source: io.RawIOBase) -> None:
        self._source = source
        self._alone = _ALONE
        self._pieces: Queue[bytes | BaseException] | None = None
        self._stopped: Event | None = None
        self._thread: Thread | None = None
        self._rest = memoryview(b"")
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        piece = self.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def read(self, most: int = -1, /) -> bytes:
        """At most so many bytes, as they came where they are no more than that; b"" at the end."""
        if most < 0:
            return self.readall()
        if self._alone > 0:
            piece = self._source.read(most) or b""
            self._alone = self._alone - len(piece) if piece else 0
            self._ended = not piece
            return piece
        if not self._rest and not self._ended:
            piece = self._next()
            if len(piece) <= most:
                return piece
            self._rest = memoryview(piece)
        piece, self._rest = bytes(self._rest[:most]), self._rest[most:]
        return piece

    def close(self) -> None:
        """Ends the thread: the source is nobody's but the caller's afterwards."""
        if self._thread is not None and self._stopped is not None:
            self._stopped.set()
            if self._thread.ident != get_ident():  # the collector may drop a stream on any thread
                self._thread.join(_LONGEST_S)
            self._thread = None
        super().close()

    def _next(self) -> bytes:
        if self._pieces is None:
            self._start()
        assert self._pieces is not None
        piece = self._pieces.get()
        if isinstance(piece, bytes):
            self._ended = not piece
            return piece
        self._ended = True
        raise piece

    def _start(self) -> None:
        from queue import Queue
        from threading import Event, Thread

        self._pieces, self._stopped = Queue(_PIECES), Event()
        # The thread holds no reference to this stream: dropping it must end the thread.
        self._thread = Thread(target=_read, args=(self._source, self._pieces, self._stopped), daemon=True)
        self._thread.start()


def _read(source: io.RawIOBase, pieces: Queue[bytes | BaseException], stopped: Event) -> None:
    """Reads a stream to its end, or until nobody wants it any more."""
    from queue import Full

    piece: bytes | BaseException | None = None
    while piece != b"" and not isinstance(piece, BaseException):
        try:
            piece = source.read(_PIECE) or b""
        except BaseException as error:  # whatever it is, it is the reader's to see
            piece = error
        while not stopped.is_set():
            try:
                pieces.put(piece, timeout=_PATIENCE_S)
                break
            except Full:
                continue
        else:
            return
