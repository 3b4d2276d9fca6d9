"""Compressed files and archives: told by content, unpacked within bounds, read as far as they go."""

import bz2
import gzip
import io
import lzma
import random
import tarfile
import zipfile
import zlib
from collections.abc import Callable

import pytest
import zstandard

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.archives import compression_of, decode_stream, open_members
from kvdiag.diagnosis.errors import LogTooLarge, UnreadableLog
from kvdiag.diagnosis.limits import MIB, Limits

RANDOM = random.Random(1)
LOG = b"".join(b"[2025-03-08 12:29:13 TP0] Decode batch. #token: %d\n" % RANDOM.getrandbits(40) for _ in range(16_000))
SMALL = Limits(free_unpacked_bytes=MIB, unpacked_ratio=100)


def tar(files: dict[str, bytes], mode: str = "w", special: tuple[tarfile.TarInfo, ...] = ()) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for entry in special:
            archive.addfile(entry)
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def pack_zip(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


CODECS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zstd": zstandard.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zip": lambda data: pack_zip({"a/server.log": data}),
    "tar": lambda data: tar({"a/server.log": data}),
    "tar.gz": lambda data: tar({"a/server.log": data}, "w:gz"),
    "tar.xz": lambda data: tar({"a/server.log": data}, "w:xz"),
    "tar.bz2": lambda data: tar({"a/server.log": data}, "w:bz2"),
    "tar.zst": lambda data: zstandard.compress(tar({"a/server.log": data})),
}
PACKED = [name for name in CODECS if name != "tar"]


def unpack(data: bytes, limits: Limits = SMALL, name: str = "x") -> list[tuple[str, str | None, bytes]]:
    return [(m.name, m.compression, m.stream.read()) for m in open_members(name, io.BytesIO(data), limits)]


@pytest.mark.parametrize("kind", CODECS)
def test_each_kind_is_told_by_its_content(kind: str) -> None:
    ((name, compression, data),) = unpack(CODECS[kind](LOG))
    assert data == LOG
    assert compression == kind
    assert name == ("server.log" if "tar" in kind or kind == "zip" else "x")


@pytest.mark.parametrize("kind", ["gzip", "zstd", "xz", "bz2"])
def test_parts_packed_one_after_another_are_one_file(kind: str) -> None:
    packed = CODECS[kind](LOG[:5000]) + CODECS[kind](LOG[5000:])
    assert unpack(packed)[0][2] == LOG


def test_padding_behind_a_gzip_is_no_second_part() -> None:
    assert unpack(gzip.compress(LOG) + b"\0" * 1000)[0][2] == LOG


@pytest.mark.parametrize("kind", [name for name in CODECS if name != "zip"])
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_a_file_that_breaks_off_is_read_as_far_as_it_goes(kind: str, share: float) -> None:
    packed = CODECS[kind](LOG)
    ((_, _, data),) = unpack(packed[: int(len(packed) * share)])
    assert LOG.startswith(data)
    assert data or "bz2" in kind or "zst" in kind  # they unpack whole blocks


@pytest.mark.parametrize("kind", CODECS)
def test_flipped_bytes_end_a_file_or_refuse_it_with_a_sentence(kind: str) -> None:
    packed = bytearray(CODECS[kind](LOG))
    for at in range(7, len(packed), max(1, len(packed) // 11)):
        broken = packed.copy()
        broken[at] ^= 0x55
        try:
            unpack(bytes(broken))
        except UnreadableLog as refusal:
            assert str(refusal).endswith(".")


@pytest.mark.parametrize("kind", PACKED)
def test_a_bomb_is_stopped(kind: str) -> None:
    bomb = CODECS[kind](b"a" * (12 * MIB))
    unpacked = 0
    with pytest.raises(UnreadableLog, match="more than 100 times its size"):
        for member in open_members("bomb", io.BytesIO(bomb), SMALL):
            while piece := member.stream.read(64 << 10):
                unpacked += len(piece)
    assert unpacked < 12 * MIB


def test_a_file_that_asks_for_much_memory_is_refused() -> None:
    """A dictionary of 700 MiB and a window of 2 GiB, for a few bytes."""
    greedy = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 700 * MIB}]
    window = zstandard.ZstdCompressionParameters(window_log=31, strategy=1, hash_log=6, chain_log=6)
    codec = zstandard.ZstdCompressor(compression_params=window).compressobj()
    for packed in (lzma.compress(b"hello\n", filters=greedy), codec.compress(b"hello\n") + codec.flush()):
        with pytest.raises(UnreadableLog, match="nothing in it can be unpacked"):
            unpack(packed)


@pytest.mark.parametrize("size", [b"\xff" * 12, b"\x80" + b"\xff" * 11, b"7" * 11 + b"\0", b"z" * 11 + b"\0"])
def test_a_tar_with_a_size_that_is_none_ends_or_is_refused(size: bytes) -> None:
    packed = bytearray(tar({"a.log": b"hello\n", "b.log": b"x\n"}))
    packed[124:136] = size
    packed[148:156] = b" " * 8
    packed[148:156] = b"%06o\0 " % sum(packed[:512])
    try:
        assert sum(len(data) for _, _, data in unpack(bytes(packed))) <= len(packed)
    except UnreadableLog as refusal:
        assert str(refusal).endswith(".")


@pytest.mark.parametrize("field", [slice(18, 26), slice(22, 26)])
def test_a_zip_that_lies_about_its_sizes_is_read_by_what_is_in_it(field: slice) -> None:
    packed = bytearray(pack_zip({"a.log": b"hello\n"}))
    central = packed.index(b"PK\x01\x02")
    packed[field] = b"\xfe\xff\xff\x7f" * ((field.stop - field.start) // 4)
    assert unpack(bytes(packed)) == [("a.log", "zip", b"hello\n")]
    packed[central + 20 : central + 28] = b"\xff" * 8
    try:
        assert unpack(bytes(packed)) == [("a.log", "zip", b"hello\n")]
    except UnreadableLog as refusal:
        assert "broken zip" in str(refusal)


@pytest.mark.parametrize("over", [0, 1])
def test_the_ceiling_holds_to_the_byte(over: int) -> None:
    limits = Limits(unpacked_bytes=len(LOG) - over)
    if over:
        with pytest.raises(LogTooLarge, match="Cut it"):
            unpack(gzip.compress(LOG), limits)
    else:
        assert unpack(gzip.compress(LOG), limits)[0][2] == LOG


@pytest.mark.parametrize("pack", [tar, pack_zip])
@pytest.mark.parametrize("count", [64, 65])
def test_an_archive_holds_at_most_64_files(pack: Callable[[dict[str, bytes]], bytes], count: int) -> None:
    packed = pack({f"rank{n}.log": b"x\n" for n in range(count)})
    if count > 64:
        with pytest.raises(LogTooLarge, match="more than 64 files"):
            unpack(packed)
    else:
        assert len(unpack(packed)) == count


@pytest.mark.parametrize(
    "packed",
    [
        pack_zip({"a.log": gzip.compress(LOG)}),
        tar({"a.zip": pack_zip({"x": LOG})}),
        tar({"a.gz": gzip.compress(LOG)}, "w:gz"),
        tar({"a.gz": gzip.compress(tar({"x": LOG}))}),
        gzip.compress(gzip.compress(LOG)),
        gzip.compress(pack_zip({"x": LOG})),
    ],
)
def test_an_archive_in_an_archive_is_refused(packed: bytes) -> None:
    with pytest.raises(UnreadableLog, match="another packed file"):
        unpack(packed)


def test_a_rotated_log_in_a_plain_tar_is_read() -> None:
    found = unpack(tar({"server.log": b"new\n", "server.log.1.gz": gzip.compress(b"old\n")}))
    assert found == [("server.log", "tar", b"new\n"), ("server.log.1.gz", "tar+gzip", b"old\n")]


@pytest.mark.parametrize("size", [513, 600, 3_511, 3_512, 4_095, 5_000])
def test_of_a_cut_tar_is_read_what_is_there(size: int) -> None:
    first, second = b"hello world\n" * 250, b"good bye\n" * 400
    found = unpack(tar({"a.log": first, "b.log": second})[:size])
    texts = [data for _, _, data in found]
    assert texts[0] == first[: size - 512]
    assert texts[1:] == ([second[: size - 4_096]] if size > 4_096 else [])


def test_a_tar_cut_before_its_first_text_is_no_empty_upload() -> None:
    with pytest.raises(UnreadableLog, match="is cut off where a.log begins"):
        unpack(tar({"a.log": b"hello\n"})[:512])


def test_links_folders_and_paths_in_archives_are_passed_over() -> None:
    link = tarfile.TarInfo("evil")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    device = tarfile.TarInfo("null")
    device.type = tarfile.CHRTYPE
    hard = tarfile.TarInfo("hard")
    hard.type, hard.linkname = tarfile.LNKTYPE, "../../x"
    found = unpack(tar({"../../../etc/cron.d/x": b"a\n", "__MACOSX/._b": b"junk"}, special=(link, device, hard)))
    assert found == [("x", "tar", b"a\n")]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        symlink = zipfile.ZipInfo("link")
        symlink.external_attr = 0o120777 << 16
        archive.writestr(symlink, "/etc/passwd")
        archive.writestr("C:\\temp\\..\\b.log", "b\n")
    assert unpack(out.getvalue()) == [("b.log", "zip", b"b\n")]


@pytest.mark.parametrize("packed", [tar({}), pack_zip({}), tar({"__MACOSX/._b": b"x"})])
def test_an_archive_without_a_file_is_refused(packed: bytes) -> None:
    with pytest.raises(UnreadableLog, match="without a file|is empty|no text"):
        from kvdiag.diagnosis.lines import LineReader, Log

        list(LineReader([Log("x", io.BytesIO(packed))], [b"abc"]))


def test_a_locked_zip_says_so() -> None:
    packed = bytearray(pack_zip({"a.log": LOG}))
    packed[6] |= 1
    at = packed.rindex(b"PK\x01\x02")
    packed[at + 8] |= 1
    with pytest.raises(UnreadableLog, match="password"):
        unpack(bytes(packed))


def test_a_stream_that_cannot_be_rewound_is_read_too() -> None:
    class Pipe(io.RawIOBase):
        def __init__(self, data: bytes) -> None:
            self._data = io.BytesIO(data)

        def readable(self) -> bool:
            return True

        def seekable(self) -> bool:
            return False

        def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
            return self._data.readinto(buffer)

    for pack in CODECS.values():
        members = open_members("x", Pipe(pack(LOG)), SMALL)  # type: ignore[arg-type]
        assert [member.stream.read() for member in members] == [LOG]


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [("gzip", gzip.compress), ("x-gzip", gzip.compress), ("deflate", zlib.compress), ("zstd", zstandard.compress)]
    + [("identity", bytes), ("", bytes)],
)
def test_a_content_encoding_is_undone(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    assert decode_stream(io.BytesIO(pack(LOG)), encoding, SMALL).read() == LOG


def test_a_raw_deflate_body_is_undone() -> None:
    codec = zlib.compressobj(wbits=-15)
    assert decode_stream(io.BytesIO(codec.compress(LOG) + codec.flush()), "deflate", SMALL).read() == LOG


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "compress"])
def test_other_content_encodings_are_refused(encoding: str) -> None:
    with pytest.raises(UnreadableLog, match="Use gzip"):
        decode_stream(io.BytesIO(b""), encoding, SMALL)


def test_a_text_with_tars_magic_word_in_its_place_is_a_text() -> None:
    line = b"[2026-03-02 09:14:36 TP0] Load weight begin. avail mem=94.04 GB\n"
    log = (line * 8)[:257] + b"ustar" + b"\n" + line * 8
    assert compression_of(log[:512]) is None
    launch = diagnose(io.BytesIO(log)).document["launches"][0]
    assert launch["ranks"][0]["readings"][0]["available_gib"] == 94.04


def sparse_tar(claimed: int, parts: list[tuple[int, bytes]]) -> bytes:
    """A file with holes as GNU tar writes it: where each stored part stands, then the parts."""

    def number(value: int) -> bytes:
        return b"\x80" + value.to_bytes(11, "big")

    stored = b"".join(data for _, data in parts)
    header = bytearray(512)
    header[0:10], header[156:157], header[257:265] = b"server.log", b"S", b"ustar  \0"
    header[100:108], header[124:136], header[136:148] = b"0000644\0", number(len(stored)), number(0)
    for place, (offset, data) in enumerate(parts):
        header[386 + 24 * place : 410 + 24 * place] = number(offset) + number(len(data))
    header[483:495] = number(claimed)
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + stored + b"\0" * (-len(stored) % 512 + 1024)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_the_holes_of_a_sparse_file_are_not_read(pack: Callable[[bytes], bytes]) -> None:
    """A log that was emptied while its writer went on begins with a hole; one of a tebibyte costs a few bytes."""
    packed = pack(sparse_tar(1 << 40, [(1 << 30, LOG[:5120]), (1 << 35, LOG[5120:9000])]))
    assert [data for _, _, data in unpack(packed)] == [LOG[:9000]]


@pytest.mark.parametrize("padding", [0, 8])
@pytest.mark.parametrize("kind", ["xz", "bz2"])
def test_a_part_that_ends_where_a_read_ends_does_not_hide_the_next(kind: str, padding: int) -> None:
    """As pbzip2 and pixz write them: many parts, of which one may end at any place."""
    first = CODECS[kind](LOG[:5000]) + b"\0" * padding

    class Pieces(io.BytesIO):
        def read(self, count: int | None = -1, /) -> bytes:
            at = self.tell()
            return super().read(min(count or 0, len(first) - at) if at < len(first) else count)

    members = open_members("x", Pieces(first + CODECS[kind](LOG[5000:6000])), SMALL)
    assert [member.stream.read() for member in members] == [LOG[:6000]]


def test_a_members_name_is_text_that_can_be_shown() -> None:
    """A tar's names are bytes in no known encoding, and any name may be as long as a page."""
    found = unpack(tar({"logs/a\udcff\u202eb\x07.log": b"a\n", "n" * 5_000: b"b\n"}))
    assert [name for name, _, _ in found] == ["ab.log", "n" * 200]
    assert [name for name, _, _ in unpack(pack_zip({"\u2066a\r\n.log": b"a\n"}))] == ["a.log"]
