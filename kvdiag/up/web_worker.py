"""The web server's worker: its threads are not held by clients that send or take a byte now and then.

A thread reads one request from its socket. Without an end to that, a few connections that trickle would keep every
thread, and nobody else would be answered.
"""

import errno
import socket
import time
from typing import Any

from gunicorn.workers.gthread import TConn, ThreadWorker

GRACE_S = 20.0  # waiting that every request may cost
BYTES_PER_S = 16 << 10  # and beyond it, one second more for so many bytes
TAKE_S = 120.0  # one piece of an answer must be taken within


class PacedSocket:
    """A socket to read from: cut off when the other side has kept us waiting longer than its bytes are worth.

    Only waiting counts, not the time that we take ourselves.
    """

    def __init__(self, real: Any) -> None:
        self._real = real
        self.begin()

    def begin(self) -> None:
        """A new request begins."""
        self._waited = 0.0
        self._received = 0

    def recv(self, size: int) -> bytes:
        """Raises ConnectionResetError for a client that is too slow, as for one that went away."""
        left = GRACE_S + self._received / BYTES_PER_S - self._waited
        began = time.monotonic()
        try:
            if left <= 0:
                raise TimeoutError
            self._real.settimeout(left)
            piece: bytes = self._real.recv(size)
        except TimeoutError:
            raise ConnectionResetError(errno.ECONNRESET, "The client was too slow") from None
        finally:
            self._real.settimeout(TAKE_S)
        self._waited += time.monotonic() - began
        self._received += len(piece)
        return piece

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class PacedConnection(TConn):  # type: ignore[misc]
    """A connection whose requests are read at a pace."""

    def init(self) -> None:
        super().init()
        unreader = getattr(self.parser, "unreader", None)
        if unreader is not None and isinstance(getattr(unreader, "sock", None), socket.socket):
            unreader.sock = PacedSocket(unreader.sock)

    def begin(self) -> None:
        """The next request on the same connection has a pace of its own."""
        paced = getattr(getattr(self.parser, "unreader", None), "sock", None)
        if isinstance(paced, PacedSocket):
            paced.begin()


class PacedWorker(ThreadWorker):  # type: ignore[misc]
    """gunicorn's worker with threads, reading at a pace."""

    def enqueue_req(self, conn: TConn) -> None:
        conn.__class__ = PacedConnection  # gunicorn makes its own kind when it accepts
        conn.begin()
        super().enqueue_req(conn)
