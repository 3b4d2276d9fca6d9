"""What is taken for harmless is written as the masker would write it, line for line."""

import io
import random
from pathlib import Path

import pytest

from kvdiag.diagnosis.events import DECLARATIONS
from kvdiag.diagnosis.harmless import Addressed, Harmless
from kvdiag.diagnosis.lines import Log
from kvdiag.diagnosis.masked_copy import masked_copy

PREFIX = "[2026-03-08 12:29:13 TP0] "
SAMPLES = [(PREFIX if d.dense else "") + text for d in DECLARATIONS if d.alone for text in d.samples]
CARRIERS = [
    "",
    "Mar 08 12:29:13 gpu-node-7.cluster.local sglang[1834]: ",
    "2026-03-08T12:29:13.123456+0000 host-a serve.sh[18]: ",
    "2026-03-08T12:29:13.123456789Z stderr F ",
    "2026-03-08T12:29:13.123456789Z ",
    "sglang-1  | ",
]
OTHERS = [
    "password:",
    "export HF_TOKEN=\\",
    "api_key=sk-abcdefghijklmnop1234",
    "-----BEGIN PRIVATE KEY-----",
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj",
    "-----END PRIVATE KEY-----",
    "Decode batch, #running-req: 1, peer: 10.11.12.13",
    "Decode batch, password: 123456789",
    "Decode batch, password: 12",
    "Decode batch, #token: 1234, token: hf_abcdefghijklmnopqrstuvwxyz",
    'INFO:     10.11.12.14:4000 - "GET / HTTP/1.1" 200 OK',
    "",
    "hunter22222",
]
# Access lines, A for an address: those with nothing but it to hide, and those with more.
ACCESSES = [
    'INFO:     A:4000 - "GET / HTTP/1.1" 200 OK',
    'INFO:     A:51234 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    'INFO:     A:51234 - "POST /v1/chat/completions HTTP/1.1" 503 Service Unavailable',
    'INFO:     A:1 - "GET /health_generate HTTP/1.1" 200 OK',
    'INFO:     A:1 - "GET /v1/models?api_key=sk-abcdefghijklmnop1234 HTTP/1.1" 200 OK',
    'INFO:     A:1 - "GET /v1/sk-abcdefghijklmnop123456789012 HTTP/1.1" 200 OK',
    'INFO:     A:1 - "GET /home/zoe HTTP/1.1" 200 OK',
    'INFO:     A:1 - "GET /v1/models?from=A HTTP/1.1" 200 OK',
    'INFO:     A - "GET / HTTP/1.1" 200 OK',
]
ADDRESSES = ["10.11.12.13", "10.11.12.14", "192.168.0.7", "127.0.0.1", "8.8.8.8", "300.1.1.1", "1.2.3.4"]


def copy(raw: str, folder: Path) -> tuple[bytes, dict[str, int]]:
    folder.mkdir()
    (stored,) = masked_copy(Log("x", io.BytesIO(raw.encode())), folder)
    return (folder / stored.path).read_bytes(), stored.masked


@pytest.mark.parametrize("seed", range(8))
def test_the_copy_is_the_same_with_and_without(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    carrier = CARRIERS[seed % len(CARRIERS)]
    lines = [carrier + rng.choice(SAMPLES if rng.random() < 0.8 else OTHERS) for _ in range(3_000)]
    raw = "\n".join(lines) + "\n"
    short = copy(raw, tmp_path / "short")
    monkeypatch.setattr(Harmless, "learn", lambda self, raw, text: None)
    assert short == copy(raw, tmp_path / "long")


@pytest.mark.parametrize("seed", range(6))
def test_addresses_of_access_lines_are_hidden_the_same_with_and_without(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    carrier = CARRIERS[seed % len(CARRIERS)]
    lines = []
    for _ in range(3_000):
        line = rng.choice(ACCESSES if rng.random() < 0.9 else OTHERS)
        lines.append(carrier + line.replace("A", rng.choice(ADDRESSES)) if line in ACCESSES else carrier + line)
    raw = "\n".join(lines) + "\n"
    short, masked = copy(raw, tmp_path / "short")
    assert b"10.11.12.13" not in short and b"192.168.0.7" not in short and b"127.0.0.1:1 -" in short
    assert masked["ip_address"] > 1_000
    monkeypatch.setattr(Addressed, "learn", lambda self, raw, masked: None)
    assert (short, masked) == copy(raw, tmp_path / "long")


def test_an_address_is_hidden_at_once_where_one_alike_was() -> None:
    addressed = Addressed()
    known = ACCESSES[1].replace("A", "10.11.12.13").encode()
    addressed.learn(known, known.replace(b"10.11.12.13", b"addr-1"))
    assert addressed.masked(known.replace(b"51234", b"7")) == known.replace(b"10.11.12.13:51234", b"addr-1:7")
    assert addressed.masked(known.replace(b"10.11.12.13", b"10.11.12.14")) is None
    for line in (known.replace(b"chat", b"sk-abcdefghijklmnop1"), known + b" x1", known.replace(b"INFO", b"WARN")):
        assert addressed.masked(line) is None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Decode batch, password: 12", "Decode batch, password: 1234567890"),
        ("Decode batch, #x: 1, api-key: 1", "Decode batch, #x: 1, api-key: 1234567890123"),
        ("Decode batch, peer: 1.2", "Decode batch, peer: 10.20.30.40"),
        ("see 127.0.0.1: 1", "see 10.77.1.9: 1"),
        ("Mar 08 12:29:13 1.2.3 a[1]: Decode batch, #x: 1", "Mar 08 12:29:13 10.11.12.13 a[1]: Decode batch, #x: 1"),
        ("Mar 08 12:29:13 a user[1]: Decode batch, #x: 1", "Mar 08 12:29:13 a user[12345678]: Decode batch, #x: 1"),
        ("Decode batch, note: 5 apples", "Decode batch, note: 7 apples"),
    ],
)
def test_other_lines_than_of_figures_are_never_taken_for_harmless(first: str, second: str) -> None:
    harmless = Harmless()
    harmless.learn(first.encode(), first)
    assert second.encode() not in harmless


@pytest.mark.parametrize("carrier", CARRIERS)
def test_lines_of_figures_are(carrier: str) -> None:
    """Also with what a carrier writes before them: journald's logs are the longest."""
    harmless = Harmless()
    for text in SAMPLES:
        harmless.learn((carrier + text).encode(), carrier + text)
    known = [text for text in SAMPLES if (carrier + text).replace("1", "27").encode() in harmless]
    assert len(known) > 0.8 * len([text for text in SAMPLES if not carrier or text.startswith("[")])
