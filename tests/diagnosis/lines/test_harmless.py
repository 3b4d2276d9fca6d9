"""What is taken for harmless is written as the masker would write it, line for line."""

import io
import random
from pathlib import Path

import pytest

from kvdiag.diagnosis.events import DECLARATIONS
from kvdiag.diagnosis.harmless import Harmless
from kvdiag.diagnosis.lines import Log
from kvdiag.diagnosis.masked_copy import masked_copy

PREFIX = "[2026-03-08 12:29:13 TP0] "
SAMPLES = [(PREFIX if d.dense else "") + text for d in DECLARATIONS if d.alone for text in d.samples]
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


def copy(raw: str, folder: Path) -> tuple[bytes, dict[str, int]]:
    folder.mkdir()
    (stored,) = masked_copy(Log("x", io.BytesIO(raw.encode())), folder)
    return (folder / stored.path).read_bytes(), stored.masked


@pytest.mark.parametrize("seed", range(8))
def test_the_copy_is_the_same_with_and_without(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    lines = [rng.choice(SAMPLES if rng.random() < 0.8 else OTHERS) for _ in range(3_000)]
    raw = "\n".join(lines) + "\n"
    short = copy(raw, tmp_path / "short")
    monkeypatch.setattr(Harmless, "learn", lambda self, raw, text: None)
    assert short == copy(raw, tmp_path / "long")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Decode batch, password: 12", "Decode batch, password: 1234567890"),
        ("Decode batch, #x: 1, api-key: 1", "Decode batch, #x: 1, api-key: 1234567890123"),
        ("Decode batch, peer: 1.2", "Decode batch, peer: 10.20.30.40"),
        ("see 127.0.0.1: 1", "see 10.77.1.9: 1"),
        ("Decode batch, note: 5 apples", "Decode batch, note: 7 apples"),
    ],
)
def test_other_lines_than_of_figures_are_never_taken_for_harmless(first: str, second: str) -> None:
    harmless = Harmless()
    harmless.learn(first.encode(), first)
    assert second.encode() not in harmless


def test_lines_of_figures_are() -> None:
    harmless = Harmless()
    for text in SAMPLES:
        harmless.learn(text.encode(), text)
    known = [text for text in SAMPLES if text.replace("1", "27").encode() in harmless]
    assert len(known) > 0.8 * len(SAMPLES)
