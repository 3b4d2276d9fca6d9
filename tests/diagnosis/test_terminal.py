"""The report in the terminal: the same figures as the document, and nothing that drives the terminal."""

from __future__ import annotations

import io
import unicodedata
from pathlib import Path

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.text import render

CORPUS = Path(__file__).parent.parent / "corpus"


def text_of(case: str, colour: bool = False) -> str:
    with (CORPUS / case / "log.txt").open("rb") as log:
        return render(diagnose(log), "text", colour)


def test_the_budget_is_told_with_its_equation_and_its_limit() -> None:
    lines = text_of("kimi-k25-8gpu").splitlines()
    budget = next(i for i, line in enumerate(lines) if line.startswith("Budget: "))
    assert lines[budget].startswith("Budget: 21.71 − 94.04 × (1 − 0.88) = 10.425 GiB ≈ 159,294 tokens")
    assert lines[budget + 1] == "Limited by: memory. The budget of 10.425 GiB is used to the last page."


def test_a_refused_start_says_why_there_is_no_pool() -> None:
    text = text_of("kimi-k25-8gpu-refused")
    assert "No pool: the weights leave 21.71 GiB" in text and "above 0.7691" in text
    assert "unknown" not in text.split("Budget:")[1].split("\n\n")[0]


def test_every_entry_of_the_ledger_has_its_line() -> None:
    rows = [line for line in text_of("kimi-k25-8gpu").splitlines() if "█" in line or "▏" in line]
    assert len(rows) >= 10
    assert all(" L" in row for row in rows)


def test_colour_is_only_where_it_is_asked_for() -> None:
    assert "\x1b[" not in text_of("kimi-k25-8gpu")
    assert "\x1b[32m" in text_of("kimi-k25-8gpu", colour=True)


@pytest.mark.parametrize("code", ["\x1b]0;owned\x07", "\x1b[2J", "\u202e", "\x9b31m"])
def test_a_log_cannot_drive_the_terminal(code: str) -> None:
    log = (
        f"[2026-04-26 14:38:11] server_args=ServerArgs(model_path='m{code}odel', tp_size=1)\n"
        f"[2026-04-26 14:38:12 TP0] Scheduler hit an exception: RuntimeError: {code} boom\n"
    )
    shown = render(diagnose(io.BytesIO(log.encode())), "text")
    assert "failed" in shown
    assert not any(unicodedata.category(c) in ("Cc", "Cf") and c != "\n" for c in shown)
