"""Request bodies that come compressed."""

import gzip
import zlib

import pytest
import zstandard

from ingest.content_encoding import decoded
from ingest.refusals import Refused

LOG = b"[2026-11-29 09:14:02 TP0] Load weight begin. avail mem=94.04 GB\n" * 1000
PACKERS = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}


def unpack(body: bytes, encoding: str, *, max_bytes: int = 64 << 20, max_ratio: int = 200, step: int = 999) -> bytes:
    pieces = (body[at : at + step] for at in range(0, len(body), step))
    return b"".join(decoded(pieces, encoding, max_bytes=max_bytes, max_ratio=max_ratio))


@pytest.mark.parametrize("encoding", PACKERS)
def test_the_body_comes_out_as_it_was(encoding: str) -> None:
    assert unpack(PACKERS[encoding](LOG), encoding) == LOG


@pytest.mark.parametrize("encoding", PACKERS)
def test_members_one_after_the_other_are_one_body(encoding: str) -> None:
    assert unpack(PACKERS[encoding](LOG) + PACKERS[encoding](b"end\n"), encoding) == LOG + b"end\n"


@pytest.mark.parametrize("encoding", PACKERS)
def test_a_cut_body_ends_where_it_was_cut(encoding: str) -> None:
    noise = b"".join(f"{zlib.crc32(str(n).encode()):08x}\n".encode() for n in range(200_000))
    packed = PACKERS[encoding](noise)
    out = unpack(packed[: len(packed) // 2], encoding)
    assert 0 < len(out) < len(noise) and noise.startswith(out)


def test_a_small_body_that_was_cut_is_read_up_to_about_there() -> None:
    noise = b"".join(f"{zlib.crc32(str(n).encode()):08x}\n".encode() for n in range(4_000))
    out = unpack(gzip.compress(noise)[:-20], "gzip")
    assert len(noise) - 5_000 < len(out) and noise.startswith(out)


@pytest.mark.parametrize("encoding", PACKERS)
def test_what_is_not_what_it_claims_is_refused(encoding: str) -> None:
    with pytest.raises(Refused) as refused:
        unpack(LOG, encoding)
    assert refused.value.status == 400 and refused.value.code == "content_encoding"


def test_an_unknown_encoding_names_those_that_work() -> None:
    with pytest.raises(Refused) as refused:
        unpack(LOG, "br")
    assert refused.value.status == 415 and refused.value.headers["Accept-Encoding"] == "gzip, zstd"


@pytest.mark.parametrize("encoding", PACKERS)
def test_a_bomb_stops_at_the_size_limit(encoding: str) -> None:
    bomb = PACKERS[encoding](bytes(48 << 20))
    taken = []
    with pytest.raises(Refused) as refused:
        for piece in decoded([bomb], encoding, max_bytes=8 << 20, max_ratio=10**9):
            taken.append(len(piece))
    assert refused.value.status == 413 and sum(taken) <= 8 << 20


@pytest.mark.parametrize("encoding", PACKERS)
def test_a_bomb_stops_at_the_ratio_beyond_the_first_16_mib(encoding: str) -> None:
    bomb = PACKERS[encoding](bytes(48 << 20))
    taken = []
    with pytest.raises(Refused):
        for piece in decoded([bomb], encoding, max_bytes=10**9, max_ratio=200):
            taken.append(len(piece))
    assert 15 << 20 < sum(taken) <= 17 << 20


def test_without_an_encoding_the_body_passes() -> None:
    assert unpack(LOG, "") == unpack(LOG, "identity") == LOG
