"""The copy that is kept: the same lines under the same numbers, private, indexed, searchable, diagnosed alike."""

import gzip
import io
import json
import random
import re
import stat
from pathlib import Path

import pytest

from kvdiag.diagnosis.errors import UnreadableLog
from kvdiag.diagnosis.limits import Limits
from kvdiag.diagnosis.lines import LineReader, Log
from kvdiag.diagnosis.masked_copy import index_of, log_range, masked_copy, search

RECORD = "[2025-03-08 12:29:13 TP3] Load weight begin. avail mem=21.63 GB"


def store(raw: bytes, folder: Path, limits: Limits | None = None, name: str = "x.log"):
    return masked_copy(Log(name, io.BytesIO(raw)), folder, limits)


def test_line_numbers_stay_and_the_file_is_private(tmp_path: Path) -> None:
    lines = [f"line {n} \x1b[32mgreen\x1b[0m" if n % 7 else "key sk-abcdefghijklmnop1234" for n in range(1, 5001)]
    (stored,) = store("\r\n".join(lines).encode() + b"\r\n", tmp_path)
    copied = stored.path.read_text().split("\n")
    assert copied[-1] == ""
    assert len(copied) - 1 == stored.lines == 5000
    assert copied[4] == "line 5 green"
    assert copied[6] == "key [api_key]"
    assert stored.masked == {"openai_key": 714}
    assert stored.bytes == stored.path.stat().st_size
    for path in (stored.path, index_of(stored.path)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "bounds", [(1, 3), (255, 259), (256, 256), (257, 257), (1000, 1010), (4999, 9999), (0, 1), (9, 3)]
)
def test_a_range_is_what_sed_prints(tmp_path: Path, bounds: tuple[int, int]) -> None:
    rng = random.Random(2)
    lines = ["x" * rng.randrange(90) + str(n) for n in range(1, 5001)]
    (stored,) = store("\n".join(lines).encode(), tmp_path)
    first, last = bounds
    assert log_range(stored.path, first, last) == [(n, lines[n - 1]) for n in range(max(first, 1), min(last, 5000) + 1)]


def test_a_range_is_read_without_its_index_too(tmp_path: Path) -> None:
    (stored,) = store(b"\n".join(b"%d" % n for n in range(1, 1000)), tmp_path)
    index_of(stored.path).unlink()
    assert log_range(stored.path, 700, 701) == [(700, "700"), (701, "701")]


@pytest.mark.parametrize(
    ("raw", "encoding"),
    [
        ("größer\nx".encode("utf-16"), "utf-16-le"),
        ("größer\nx".encode("latin-1"), "latin-1"),
        (b"\xef\xbb\xbf" + "größer\nx".encode(), "utf-8-sig"),
        ("gr\0ößer\nx".encode(), "utf-8"),
    ],
)
def test_the_copy_is_utf_8(tmp_path: Path, raw: bytes, encoding: str) -> None:
    (stored,) = store(raw, tmp_path)
    assert stored.path.read_text("utf-8") == "größer\nx"
    assert stored.encoding == encoding


def test_an_archive_gives_one_copy_for_each_file(tmp_path: Path) -> None:
    import tarfile

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name in ("node0.log", "../node1.log"):
            info = tarfile.TarInfo(name)
            info.size = len(name)
            archive.addfile(info, io.BytesIO(name.encode()))
    stored = store(out.getvalue(), tmp_path)
    assert [(x.name, x.path.read_text(), x.compression) for x in stored] == [
        ("node0.log", "node0.log", "tar.gz"),
        ("node1.log", "../node1.log", "tar.gz"),
    ]
    assert {path.parent for path in tmp_path.iterdir()} == {tmp_path}


def test_a_refused_log_leaves_nothing_behind(tmp_path: Path) -> None:
    bomb = gzip.compress(b"a\n" * 4_000_000)
    for raw in (b"", b"\x89PNG....", bomb):
        with pytest.raises(UnreadableLog):
            store(raw, tmp_path, Limits(unpacked_ratio=100, free_unpacked_bytes=1 << 20))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("size", [-1, 0, 1, 300_000, 3_000_000])
def test_a_log_over_the_limit_keeps_head_and_tail_with_the_exact_gap(tmp_path: Path, pack, size: int) -> None:
    kept = 400_000
    line = "[2025-03-08 12:29:13 TP3] Load weight begin. avail mem={:07d}\n"
    raw = "".join(line.format(n) for n in range(1, (kept + 3_000_000) // 60)).encode()[: kept + size]
    limits = Limits(kept_bytes=kept, unpacked_ratio=1000)
    (stored,) = store(pack(raw), tmp_path, limits)
    reader = LineReader([Log("x", io.BytesIO(pack(raw)))], [b"Load weight begin."], limits)
    numbers = [found.number for found in reader]
    info = reader.files[0]
    assert info.gap == stored.gap
    assert info.lines == stored.lines == raw.count(b"\n") + (raw[-1:] != b"\n")
    lines = raw.split(b"\n")
    if size <= 0:
        assert stored.gap is None
        assert stored.path.read_bytes() == raw
        return
    gap = stored.gap
    assert gap is not None
    left_out = lines[gap["first_line"] - 1 : gap["last_line"]]
    assert gap["bytes"] == sum(len(x) + 1 for x in left_out)
    assert len(raw) - gap["bytes"] <= kept
    assert len(raw) - gap["bytes"] > kept - 200
    whole = stored.path.read_bytes().split(b"\n")
    assert whole[: gap["first_line"] - 1] == lines[: gap["first_line"] - 1]
    assert whole[gap["last_line"] :] == lines[gap["last_line"] :]
    assert set(whole[gap["first_line"] - 1 : gap["last_line"]]) == {b""}
    assert not [n for n in numbers if gap["first_line"] <= n <= gap["last_line"]]
    head_bytes = sum(len(x) + 1 for x in lines[: gap["first_line"] - 1])
    assert kept // 4 - 100 < head_bytes <= kept // 4


def test_a_line_longer_than_the_buffer_is_masked_across_its_pieces(tmp_path: Path) -> None:
    secret = "sk-abcdefghijklmnop1234"
    for shift in range(0, 60, 7):
        at = 262_144 - 8_192 - 40 + shift
        raw = ("word " * 60_000)[:at] + f" api_key='{secret}' " + "word " * 90_000 + "\nnext\n"
        (stored,) = store(raw.encode(), tmp_path)
        copied = stored.path.read_text()
        assert secret not in copied
        assert re.sub(r"\[(?:api_key|secret)\]", secret, copied) == raw
        assert stored.lines == 2


def test_a_private_key_over_many_lines_is_not_in_the_copy(tmp_path: Path) -> None:
    body = "\n".join("MIIEpAIBAAKCAQEA" + str(n) for n in range(30))
    raw = f"a\n-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----\nb\n"
    (stored,) = store(raw.encode(), tmp_path)
    copied = stored.path.read_text()
    assert "MIIEp" not in copied
    assert copied.count("\n") == raw.count("\n")
    assert copied.endswith("-----END RSA PRIVATE KEY-----\nb\n")


def test_a_copy_is_as_readable_as_its_log(tmp_path: Path) -> None:
    """Without the colours, what control characters are in it weigh more: none is kept."""
    from kvdiag.diagnosis import diagnose

    raw = (b"\x1b[38;5;123mLoad weight begin. avail mem=1.00 GB\x1b[0m \x01\n") * 60
    (stored,) = store(raw, tmp_path)
    assert stored.path.read_bytes() == b"Load weight begin. avail mem=1.00 GB \n" * 60
    with stored.path.open("rb") as copy:
        assert diagnose(Log("x", copy), is_masked=True).document["launches"]


def test_search_finds_text_and_expressions_in_linear_time(tmp_path: Path) -> None:
    (stored,) = store(b"\n".join(b"Line %d of Text" % n for n in range(1, 2001)), tmp_path)
    assert search(stored.path, "LINE 17 ").lines == ((17, "Line 17 of Text"),)
    some = search(stored.path, "text", most=10)
    assert [n for n, _ in some.lines] == list(range(1, 11))
    assert some.next_line == 11
    more = search(stored.path, "text", from_line=some.next_line, most=5000)
    assert [n for n, _ in more.lines] == list(range(11, 2001))
    assert more.next_line is None
    assert [n for n, _ in search(stored.path, r"line 19\d\b", is_expression=True).lines] == list(range(190, 200))
    for refused in (r"(a)\1", r"(?=x)", r"(unclosed"):
        with pytest.raises(ValueError, match="cannot be searched for"):
            search(stored.path, refused, is_expression=True)
    (evil,) = store(b"a" * 60_000 + b"!\n", tmp_path)
    assert search(evil.path, r"(a|aa)+$", is_expression=True).lines == ()


def test_the_copy_is_diagnosed_like_the_log(tmp_path: Path) -> None:
    from kvdiag.diagnosis import diagnose

    raw = "\n".join(
        [
            "[2025-03-08 12:29:04] server_args=ServerArgs(model_path='/home/zoe/m', api_key='sk-1', tp_size=1, "
            "mem_fraction_static=0.85, host='10.0.0.4')",
            "[2025-03-08 12:29:13 TP0] Load weight begin. avail mem=21.63 GB",
            "[2025-03-08 12:29:21 TP0] Load weight end. type=Qwen2ForCausalLM, dtype=torch.bfloat16, avail mem=6"
            ".09 GB, "
            "mem usage=15.54 GB.",
            "[2025-03-08 12:29:21 TP0] KV Cache is allocated. #tokens: 46611, K size: 1.42 GB, V size: 1.42 GB",
            "[2025-03-08 12:29:21 TP0] Memory pool end. avail mem=2.25 GB",
        ]
    ).encode()
    (stored,) = store(raw, tmp_path)
    of_log = diagnose(Log("x", io.BytesIO(raw))).document
    with stored.path.open("rb") as copy:
        of_copy = diagnose(Log("x", copy)).document
    assert json.dumps(of_copy["launches"]) == json.dumps(of_log["launches"])
    assert "zoe" not in json.dumps(of_log)
    assert "sk-1" not in json.dumps(of_log)
