"""The lines that a figure is cited from show it."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.texts import Log

CORPUS = Path(__file__).parents[1] / "corpus"
READY = ("kimi-k25-8gpu", "qwq-32b-4xl4-ecs", "qwen25-3b-80gb-nohup-serving")


@cache
def read(case: str) -> tuple[dict[str, Any], list[str]]:
    text = (CORPUS / case / "log.txt").read_bytes()
    return diagnose(Log("log", io.BytesIO(text))).document["launches"][-1], text.decode().splitlines()


@pytest.mark.parametrize("case", READY)
def test_the_time_to_ready_is_cited_by_both_its_ends(case: str) -> None:
    launch, lines = read(case)
    assert launch["ready_after_s"] is not None
    first, last = (lines[number - 1] for number in launch["ready_lines"])
    assert launch["started_at"].replace("T", " ")[:19] in first
    assert "The server is fired up and ready to roll!" in last or "Uvicorn running on" in last


def test_a_start_without_a_time_to_ready_cites_none() -> None:
    launch, _ = read("devstral-24b-awq-2x3090-negative-graph")
    assert launch["ready_after_s"] is None and launch["ready_lines"] == []


@pytest.mark.parametrize("case", READY)
def test_that_no_cap_is_set_is_cited_from_the_arguments(case: str) -> None:
    launch, lines = read(case)
    (clear,) = [c for c in launch["cleared"] if c["because"] == "--max-total-tokens is not set."]
    (cited,) = (lines[number - 1] for number in clear["lines"])
    assert "server_args" in cited or "launch_server" in cited
