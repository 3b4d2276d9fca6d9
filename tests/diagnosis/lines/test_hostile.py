"""Logs from strangers: nothing in them raises, nothing takes long, nothing grows with their size."""

import io
import json
import random
import re
import tracemalloc
from pathlib import Path

import pytest
import regex
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.errors import UnreadableLog
from kvdiag.diagnosis.limits import Limits
from kvdiag.diagnosis.lines import LineReader, Log, LogLine
from kvdiag.diagnosis.masked_copy import masked_copy
from kvdiag.diagnosis.masking import PATTERNS, Masker

RECORD_TEXT = b"Load weight begin. avail mem=21.63 GB"
RECORD = b"[2025-03-08 12:29:13 TP3] " + RECORD_TEXT
PHRASES = [b"Load weight begin.", b"server_args=", b"out of memory", b"Traceback"]
PARTS = [
    RECORD, b"\n", b"\r", b"\r\n", b"\x1b[31m", b"\x1b]8;;http://x\x07", b"\x1b", b"\0", b"\xff\xfe", b"\xef\xbb\xbf",
    b"\xc3",
    "█ ，。".encode(), b'{"log": "', b'\\n",', b'"}', b"server_args=ServerArgs(a='", b"out of memory",
    b"Traceback (most recent",
    b"2025-03-08T12:29:13.159073700Z ", b"worker-1  | ", b"(A pid=1) ", b"Mar 08 12:29:13 h s[1]: ", b"0: ",
    b"[rank0]: ",
    b"> ",
    b"-----BEGIN PRIVATE KEY-----", b"hf_abcdefghijklmnopqrst", b"api_key='", b"[" * 30, b"(" * 30, b"\\" * 9,
    b"x" * 200,
]  # fmt: skip


def read(raw: bytes, limits: Limits | None = None) -> list[LogLine]:
    return list(LineReader([Log("x", io.BytesIO(raw))], PHRASES, limits, dense=[b"Decode batch"]))


def test_a_break_that_is_escaped_twice_breaks_no_line() -> None:
    record = b"[2025-03-08 12:29:13 TP3] Load weight begin. avail mem=21.63 GB"
    lines = read(record + record + b"\\" * 9 + b'\\n",')
    assert len(lines) == 2
    assert all("\n" not in line.shown + line.text for line in lines)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(PARTS) | st.binary(max_size=20), max_size=40))
def test_nothing_in_a_log_raises(tmp_path: Path, parts: list[bytes]) -> None:
    raw = b"".join(parts)
    try:
        found = read(raw)
        (stored,) = masked_copy(Log("x", io.BytesIO(raw)), tmp_path)
    except UnreadableLog:
        return
    for line in found:
        assert 1 <= line.number <= stored.lines
        assert "\n" not in line.shown
        assert "\x1b" not in line.text + line.shown
        line.following(5)
    if b"\0" not in raw and not raw.startswith(b"\xff\xfe"):
        assert stored.path.read_bytes().count(b"\n") == raw.count(b"\n")


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 4000), st.integers(0, 255), st.integers(0, 60))
def test_a_flipped_byte_or_a_cut_spoils_no_other_line(at: int, byte: int, lost: int) -> None:
    lines = [b"x" * (n % 50) if n % 3 else RECORD for n in range(100)]
    raw = bytearray(b"\n".join(lines))
    raw[at % len(raw)] = byte
    del raw[len(raw) - lost :]
    changed = bytes(raw).split(b"\n")
    if len(changed) == len(lines):
        untouched = {n for n, (a, b) in enumerate(zip(lines, changed, strict=True), 1) if a == b == RECORD}
        assert untouched <= {line.number for line in read(bytes(raw))}


# One hostile text for each pattern's way of searching: starts without end, ends without start, long runs.
EVIL = [
    "a" * 60_000,
    "in=" * 20_000 + ", out=",
    ", out=" + "(in=" * 15_000,
    "-eyJ" * 15_000,
    "eyJ" + "a" * 60_000,
    "a@" * 30_000,
    "a." * 30_000 + "@",
    "1." * 30_000,
    "1:" * 30_000 + "::",
    "::" * 30_000,
    "http://" * 9_000,
    "http://" + "a" * 60_000 + ":@",
    "text='" + "\\" * 60_000,
    "api_key='" * 7_000,
    "api_key=" + "'" * 60_000,
    "'token': '" * 6_000,
    "password=" * 7_000,
    "HOST_" * 12_000 + "TOKEN=",
    "A_TOKEN" * 9_000,
    "x-local." * 7_000 + "local",
    "host='" + "a-" * 30_000,
    "/home/" * 10_000,
    "-----BEGIN PRIVATE KEY-----" * 2_000,
    "[2025-03-08 12:29:13 " * 3_000,
    "(" * 60_000,
    "{" * 60_000,
    '{"log": "' + "\\" * 60_001,
    "\x1b[" * 30_000,
    "\x1b]" * 30_000,
    "[1;" * 20_000,
    "> " * 30_000,
    "x |" * 20_000,
    "\\n" * 30_000,
]


@pytest.mark.parametrize("number", range(len(EVIL)))
def test_a_text_made_to_be_slow_is_read_to_its_end(number: int) -> None:
    """Quadratic work on one of these would take minutes."""
    text = EVIL[number]
    Masker().mask(text)
    for wrapped in (text, "[2025-03-08 12:29:13 TP3] " + text, "w-1  | " + text, text.replace("'", '\\"')):
        found = read(b"out of memory " + wrapped.encode() + b" Load weight begin. server_args=\nnext\n" + RECORD)
        assert found[-1].text == "Load weight begin. avail mem=21.63 GB"


@pytest.mark.parametrize("number", range(len(PATTERNS)))
def test_no_pattern_takes_time_that_grows_with_the_square(number: int) -> None:
    """One that does takes minutes on such a text, and is given up after ten seconds."""
    pattern = PATTERNS[number]
    literals = pattern.literals[:2] or ("api",)
    for run in ("a", " ", "1", "1.", "1:", "a@", "'", "\\", "A_", "a-", *literals):
        for literal in literals:
            text = literal + run * (60_000 // len(run)) + literal
            regex.compile(pattern.expression, regex.IGNORECASE if pattern.ignore_case else 0).sub("", text, timeout=10)
            regex.compile(pattern.after).search(text, timeout=10)


def test_lines_that_take_too_long_are_left_out_and_soon_without_trying(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvdiag.diagnosis.masking.TIMEOUT_S", 1e-9)
    masker = Masker()
    long = "api_key='sk-1' " + "x " * 4_000
    for _ in range(20):
        assert masker.mask(long) == "[line left out: it takes too long to mask]"
    assert masker.counts == {"hostile_line": 20}
    assert masker.mask("api_key='sk-1'") == "api_key='[api_key]'"


def test_the_memory_does_not_grow_with_the_size() -> None:
    def peak(megabytes: int) -> int:
        rng = random.Random(1)
        line = b"[2025-03-08 12:29:13 TP0] Decode batch. #running-req: 1, #token: 9, token usage: 0.01\n"
        unit = b"".join(RECORD + b"\n" if rng.random() < 0.003 else line for _ in range(6_000))

        class Repeated(io.RawIOBase):
            left = megabytes * 1_000_000

            def readable(self) -> bool:
                return True

            def read(self, count: int = -1) -> bytes:
                take = min(count, self.left, len(unit))
                self.left -= take
                return unit[:take]

        tracemalloc.start()
        reader = LineReader([Log("x", Repeated())], PHRASES, Limits(exact_batch_bytes=0), dense=[b"Decode batch"])  # type: ignore[arg-type]
        assert sum(1 for _ in reader) > 0
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    small, large = peak(4), peak(24)
    assert large < small + 16_000_000
    assert large < 40_000_000


def test_thousands_of_ranks_are_diagnosed() -> None:
    raw = b"".join(
        b"[2025-03-08 12:29:%02d TP%d] %s\n" % (second, n, text)
        for second, text in enumerate((RECORD_TEXT, b"Memory pool end. avail mem=1.00 GB"))
        for n in range(3_000)
    )
    (launch,) = diagnose(Log("x", io.BytesIO(raw))).document["launches"]
    assert len(launch["ranks"]) == 3_000
    assert launch["ranks"][-1]["opening_gib"] == 21.63


@pytest.mark.parametrize(
    "bomb",
    [
     b"[" * 3_000_000, b"a" * 3_000_000, b"\r" * 3_000_000, b"avail mem=" * 300_000,
     b"server_args=ServerArgs(" * 90_000,
     b'{"log": ' * 300_000, b"\\n" * 1_500_000, "█".encode() * 1_000_000],
    ids=lambda bomb: repr(bomb[:10]),
)  # fmt: skip
def test_a_line_without_end_is_passed_over(bomb: bytes) -> None:
    raw = RECORD + b"\n" + bomb + b"\n" + RECORD.replace(b"TP3", b"TP4") + b"\n"
    launches = diagnose(Log("x", io.BytesIO(raw))).document["launches"]
    assert {rank["id"] for launch in launches for rank in launch["ranks"]} >= {"TP3", "TP4"}
    assert len(json.dumps(launches)) < 2_000_000


@pytest.mark.parametrize("ranks", [5_000])
def test_thousands_of_ranks_are_read(ranks: int) -> None:
    raw = b"".join(b"[2025-03-08 12:29:13 TP%d] Load weight begin. avail mem=1.00 GB\n" % n for n in range(ranks))
    assert len({line.rank for line in read(raw)}) == ranks


def test_expressions_are_flat() -> None:
    """No repetition stands within another that could match the same text in two ways."""
    for pattern in PATTERNS:
        assert not re.search(r"\([^()]*[*+]\)[*+]", pattern.expression), pattern


_START = (
    "[2025-03-08 12:29:04] server_args=ServerArgs(model_path='/m/{}model', quantization='{}', tp_size=1)",
    "[2025-03-08 12:29:08 TP0] Load weight end. type=Llama{}ForCausalLM, dtype=torch.bfloat16, avail mem=63.27 GB",
    "torch.OutOfMemoryError: CUDA out of memory. {} Tried to allocate 2.00 GiB",
    "ValueError: {} bad",
)


@pytest.mark.parametrize("escape", [r"\ud83d", r"\u0000", r"\u202e", r"\u0008"])
@pytest.mark.parametrize("carried", [True, False])
def test_what_only_an_escape_can_spell_is_in_no_report(escape: str, carried: bool) -> None:
    """Half of a pair or a NUL can be stored by no database, and a mark turns the text behind it."""
    lines = [line.replace("{}", escape) for line in _START]
    if carried:
        lines = [f'{{"log":"{line}\\n","stream":"stderr","time":"2025-03-08T12:29:04.1Z"}}' for line in lines]
    document = diagnose(io.BytesIO("\n".join(lines).encode())).document
    assert document["launches"][0]["arguments"]["model_path"]["value"] == "/m/model"
    assert json.loads(f'"{escape}"') not in json.dumps(document, ensure_ascii=False)
    assert not re.search(r"(?<!\\)(?:\\\\)*" + re.escape(escape), json.dumps(document))
