"""Graphs of several captures are told apart as far as the log tells."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.text import render
from kvdiag.diagnosis.texts import Log
from reports.pools import entry_name

CORPUS = Path(__file__).parents[2] / "corpus"
BEGIN = "[2026-03-01 10:00:00] Load weight begin. avail mem=79.00 GB\n"
END = "[2026-03-01 10:00:0{}] Capture {} end. Time elapsed: 3.32 s. mem usage=0.{} GB. avail mem={} GB.\n"


def graphs_of(text: str) -> list[dict[str, Any]]:
    (rank,) = diagnose(Log("log", io.BytesIO(text.encode()))).document["launches"][-1]["ranks"]
    return [entry for entry in rank["entries"] if entry["pool"] == "cuda_graphs"]


@pytest.mark.parametrize(
    ("capture", "name"),
    [
        ("cuda graph", "Decode graphs"),
        ("piecewise CUDA graph", "Prefill graphs"),
        ("target prefill CUDA graph", "Prefill graphs"),
        ("target verify CUDA graph", "Verify graphs"),
        ("draft cuda graph", "Draft decode graphs"),
        ("draft extend cuda graph", "Draft extend graphs"),
    ],
)
def test_a_capture_is_named_by_its_line(capture: str, name: str) -> None:
    (entry,) = graphs_of(BEGIN + END.format(1, capture, 40, "78.60"))
    assert entry_name(entry) == name


def test_an_unlabelled_capture_of_a_target_with_a_draft_is_not_guessed() -> None:
    arguments = "[2026-03-01 10:00:00] server_args=ServerArgs(model_path='m', speculative_algorithm='EAGLE')\n"
    (entry,) = graphs_of(arguments + BEGIN + END.format(1, "cuda graph", 40, "78.60"))
    assert "graphs" not in entry and entry_name(entry) == "CUDA graphs"


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_the_table_has_a_row_for_each_kind(form: str) -> None:
    log = Log("log", io.BytesIO((CORPUS / "deepseek-r1-fp8-8xh200-piecewise" / "log.txt").read_bytes()))
    text = render(diagnose(log), form)
    assert "Decode graphs" in text and "Prefill graphs" in text and "CUDA graphs  " not in text
