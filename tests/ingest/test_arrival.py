"""Files on their way to the disk."""

import hashlib
import stat
from pathlib import Path

import pytest

from ingest.arrival import Arrival, plain_name
from ingest.refusals import Refused


def test_a_kept_file_is_whole_private_and_hashed(uploads_folder: Path) -> None:
    with Arrival(limit=100) as arrival:
        received = arrival.take("server.log", [b"one\n", b"two\n"])
        arrival.keep()
    path = uploads_folder / arrival.public_id / "raw" / "0"
    assert path.read_bytes() == b"one\ntwo\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700
    assert received.sha256 == hashlib.sha256(b"one\ntwo\n").hexdigest() == arrival.sha256


def test_nothing_is_left_when_the_sender_goes_away(uploads_folder: Path) -> None:
    def cut():
        yield b"half a "
        raise Refused(400, "cut", "The body ended early.")

    with pytest.raises(Refused), Arrival(limit=100) as arrival:
        arrival.take("server.log", cut())
    assert list(uploads_folder.iterdir()) == []


@pytest.mark.parametrize(("size", "fits"), [(9, True), (10, True), (11, False)])
def test_the_limit_itself_still_fits(size: int, fits: bool, uploads_folder: Path) -> None:
    try:
        with Arrival(limit=10) as arrival:
            arrival.take("server.log", [b"x" * size])
            arrival.keep()
    except Refused as refused:
        assert not fits and refused.status == 413 and "zstd server.log" in refused.sentence
        assert list(uploads_folder.iterdir()) == []
    else:
        assert fits


def test_the_limit_counts_all_files_together() -> None:
    with pytest.raises(Refused) as refused, Arrival(limit=10) as arrival:
        arrival.take("node0.log", [b"123456"])
        arrival.take("node1.log", [b"123456"])
    assert refused.value.status == 413


def test_an_empty_file_is_refused_with_the_command_that_works() -> None:
    with pytest.raises(Refused) as refused, Arrival(limit=10) as arrival:
        arrival.take("server.log", [])
    assert refused.value.status == 400 and "--data-binary @server.log" in refused.value.sentence


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\logs\\server.log", "server.log"),
        ("a\x1b[31mb\r\n.log", "a[31mb.log"),
        ("", "log"),
        ("/", "log"),
        ("x" * 500, "x" * 200),
    ],
)
def test_a_name_is_for_people_and_never_a_path(said: str, kept: str) -> None:
    assert plain_name(said) == kept
