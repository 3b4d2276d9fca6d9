"""Clients that send a byte now and then do not keep a thread of the web server."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from kvdiag.up import site, web_worker
from kvdiag.up.web_worker import PacedConnection, PacedSocket


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, in seconds, which each look at it moves on by the second figure."""
    now = [0.0, 0.0]

    def monotonic() -> float:
        now[0] += now[1]
        return now[0]

    monkeypatch.setattr(web_worker.time, "monotonic", monotonic)
    return now


def test_a_client_that_trickles_is_cut_off(ends: tuple[socket.socket, socket.socket], clock: list[float]) -> None:
    paced, clock[1] = PacedSocket(ends[0]), 3.0
    ends[1].sendall(b"x" * 100)
    got = 0
    with pytest.raises(ConnectionResetError):
        for _ in range(100):
            got += len(paced.recv(1))
    assert got * 3.0 >= web_worker.GRACE_S and got < 10


def test_a_slow_client_that_goes_on_sending_is_heard_out(
    ends: tuple[socket.socket, socket.socket], clock: list[float]
) -> None:
    paced, clock[1] = PacedSocket(ends[0]), 1.0
    for _ in range(100):
        ends[1].sendall(b"x" * web_worker.BYTES_PER_S)
        piece = web_worker.BYTES_PER_S
        while piece:
            clock[1] = 1.0 if piece == web_worker.BYTES_PER_S else 0.0
            piece -= len(paced.recv(piece))


def test_a_client_that_says_nothing_is_cut_off(
    ends: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_worker, "GRACE_S", 0.01)
    with pytest.raises(ConnectionResetError):
        PacedSocket(ends[0]).recv(1)


def test_every_request_of_a_connection_has_a_pace_of_its_own(
    ends: tuple[socket.socket, socket.socket], clock: list[float]
) -> None:
    paced, clock[1] = PacedSocket(ends[0]), 15.0
    ends[1].sendall(b"abcd")
    for _ in range(4):
        assert len(paced.recv(1)) == 1
        paced.begin()


def test_the_site_is_served_by_this_worker(ends: tuple[socket.socket, socket.socket]) -> None:
    from gunicorn.config import Config

    assert f"{web_worker.__name__}.{web_worker.PacedWorker.__name__}" == site.WEB_WORKER
    connection = PacedConnection(Config(), ends[0], ("127.0.0.1", 1), ("127.0.0.1", 2))
    ends[1].sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    connection.init()
    assert isinstance(connection.parser.unreader.sock, PacedSocket)
    assert next(connection.parser).path == "/"
