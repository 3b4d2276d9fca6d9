"""Decoding, line numbers, and what a reader says of its files."""

import io
import random

import pytest

from kvdiag.diagnosis import lines
from kvdiag.diagnosis.errors import UnreadableLog
from kvdiag.diagnosis.lines import LineReader, Log

RECORD = "[2025-03-08 12:29:13 TP3] Load weight begin. avail mem=21.63 GB"
TEXT = "Load weight begin. avail mem=21.63 GB"
PAGE = f"first\nÄrger: größer\n{RECORD}\n\n{RECORD}"


@pytest.mark.parametrize(
    ("raw", "encoding"),
    [
        (PAGE.encode(), "utf-8"),
        (b"\xef\xbb\xbf" + PAGE.encode(), "utf-8-sig"),
        (b"\xff\xfe" + PAGE.encode("utf-16-le"), "utf-16-le"),
        (b"\xfe\xff" + PAGE.encode("utf-16-be"), "utf-16-be"),
        (PAGE.encode("utf-16-le"), "utf-16-le"),
        (PAGE.encode("utf-16-be"), "utf-16-be"),
        (b"\xff\xfe\0\0" + PAGE.encode("utf-32-le"), "utf-32-le"),
        (PAGE.encode("latin-1"), "latin-1"),
        (PAGE.replace("\n", "\r\n").encode(), "utf-8"),
        (b"\0" * 70_001 + PAGE.encode(), "utf-8"),
        (PAGE.replace("Load", "Lo\0ad").encode(), "utf-8"),
        (PAGE.encode().replace("ß".encode(), b"\xc3"), "utf-8"),
        (PAGE.replace(" ", "\u00a0").encode(), "utf-8"),
        (PAGE.replace("Load weight", "Load \x1b[01;31m\x1b[Kweight\x1b[m\x1b[K").encode(), "utf-8"),
        (PAGE.replace(".", "。").replace("=", "＝").replace("[", "［").replace("]", "］").encode(), "utf-8"),
    ],
)
def test_a_log_is_read_in_any_encoding(read, raw: bytes, encoding: str) -> None:
    found = read(raw)
    assert [(line.number, line.rank) for line in found] == [(3, "TP3"), (5, "TP3")]
    assert found[0].text in (TEXT, TEXT.replace("21.63", "21.63"))
    assert found.reader.files[0].encoding == encoding
    assert found.reader.files[0].lines == 5


def test_a_file_with_lone_carriage_returns_is_one_line_as_sed_counts(read) -> None:
    found = read(f"first\r{RECORD}\rlast")
    assert [(line.number, line.text) for line in found] == [(1, TEXT)]


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "is empty"),
        (b" \n\n\t", "is empty"),
        (b"\0" * 5000, "no text"),
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40, "PNG picture"),
        (random.Random(1).randbytes(50_000), "binary"),
        (b"7z\xbc\xaf\x27\x1c....", "7z archive"),
    ],
)
def test_what_is_no_text_is_refused_with_what_to_do(read, raw: bytes, says: str) -> None:
    with pytest.raises(UnreadableLog, match=says) as refusal:
        read(raw)
    assert str(refusal.value).count(".") >= 2
    assert "end" in str(refusal.value)  # Send …


def test_one_empty_file_among_others_is_no_failure() -> None:
    reader = LineReader([Log("a", io.BytesIO(b"")), Log("b", io.BytesIO(RECORD.encode()))], [b"Load weight begin."])
    assert [(line.file, line.number) for line in reader] == [(1, 1)]
    assert [info.bytes for info in reader.files] == [0, len(RECORD)]


def test_following_lines_come_peeled_and_masked(read) -> None:
    (line,) = read(
        'w-1  | Traceback (most recent call last):\nw-1  |   File "/home/zoe/x.py"\n'
        "w-1  | [2025-03-08 12:29:13 TP3] ValueError: api_key='sk-verysecretvalue1234'\n"
    )
    assert line.following(2) == ('File "/home/user-a/x.py"', "ValueError: api_key='[api_key]'")
    assert line.following(0) == ()
    assert len(line.following(99)) == 3


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_following_lines_without_a_word_are_not_decoded(read, encoding: str, monkeypatch) -> None:
    (line,) = read('Traceback (most recent call last):\n  File "/opt/sglang/srt/x.py", line 1, in f'.encode(encoding))
    assert line.following(9, "sglang") == line.following(9) == ('File "/opt/sglang/srt/x.py", line 1, in f',)
    monkeypatch.setattr(lines, "_message_of", lambda *_: pytest.fail("decoded"))
    assert line.following(9, "vllm") == ()


@pytest.mark.parametrize("word", ["sg\x1b[31mlang", "sg[0mlang", "sg\u200blang"])
def test_a_word_with_colours_or_unseen_marks_in_it_is_found(read, word: str) -> None:
    (line,) = read(f'Traceback (most recent call last):\n  File "/opt/{word}/srt/x.py", line 1\n'.encode())
    assert line.following(9, "sglang") == line.following(9) != ()


@pytest.mark.parametrize("filler", [100, 262_144 - 200, 262_144 - 8_192, 700_000])
def test_following_lines_reach_over_the_buffers_edge(read, filler: int) -> None:
    (line,) = read(
        "x" * 99 + ("\n" + "x" * 99) * (filler // 100) + "\nTraceback (most recent call last):\nA: 1\nB: 2\n"
    )
    assert line.following(2) == ("A: 1", "B: 2")


@pytest.mark.parametrize("size", [262_000, 262_144, 300_000, 1_000_000])
def test_a_phrase_in_a_line_longer_than_the_buffer_is_found_once(read, size: int) -> None:
    found = read("a\n" + "x" * size + RECORD + "y" * 400_000 + "\n" + RECORD)
    assert [line.number for line in found] == [2, 3]
    assert len(found[0].shown) <= 64 << 10
    assert found[0].text.startswith(TEXT)


def test_every_bar_of_a_long_line_can_hold_a_phrase(read) -> None:
    found = read("\r".join(["Loading ████ 50%"] * 30_000 + [RECORD] + ["Loading ████ 60%"] * 30_000) + "\n" + RECORD)
    assert [(line.number, line.text) for line in found] == [(1, TEXT), (2, TEXT)]


def test_line_numbers_are_those_of_sed_over_many_blocks(read) -> None:
    rng = random.Random(5)
    lines = [RECORD if rng.random() < 0.01 else "x" * rng.randrange(200) for _ in range(20_000)]
    assert [line.number for line in read("\n".join(lines))] == [n for n, x in enumerate(lines, 1) if x == RECORD]


def test_batch_lines_are_all_read_in_a_small_file_and_sampled_in_a_large_one(read) -> None:
    from kvdiag.diagnosis.limits import Limits

    batch = "[2025-03-08 12:29:13 TP0] Decode batch, #running-req: 1, #token: 9, token usage: {:.2f}, #queue-req: 0\n"
    rng = random.Random(3)
    uses = [rng.random() * 0.8 for _ in range(9_000)]
    uses[7_777] = 0.97
    raw = RECORD + "\n" + "".join(batch.format(use) for use in uses)
    dense = [b"Decode batch", b"Prefill batch"]
    every = read(raw, dense=dense)
    assert len(every) == 9_001
    assert every.reader.files[0].batch_lines == {"read": 9_000, "all": 9_000}
    some = read(raw, dense=dense, limits=Limits(exact_batch_bytes=0, batch_sample=8))
    counts = some.reader.files[0].batch_lines
    assert counts is not None
    assert counts["all"] == 9_000
    assert counts["read"] < 300
    assert any("token usage: 0.97" in line.text for line in some)
    assert some[0].text == TEXT
    assert [line.number for line in some] == sorted(line.number for line in some)
