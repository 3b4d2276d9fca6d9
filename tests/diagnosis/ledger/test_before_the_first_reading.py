"""Where the card's size is known, the ledger starts from it: what lines name, and the rest as what it is."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.text import render
from kvdiag.diagnosis.texts import Log

CORPUS = Path(__file__).parents[2] / "corpus"


def log_of(case: str) -> Log:
    return Log("log", io.BytesIO((CORPUS / case / "log.txt").read_bytes()))


def ranks_of(case: str) -> list[dict[str, Any]]:
    return diagnose(log_of(case)).document["launches"][-1]["ranks"]


@pytest.mark.parametrize("case", ["deepseek-r1-fp8-8xh200-piecewise", "kimi-k25-8gpu", "qwen25-15b-gb10-low-free-mem"])
def test_the_card_is_the_first_reading_and_what_was_taken_before(case: str) -> None:
    for rank in ranks_of(case):
        assert rank["opening_gib"] + sum(e["gib"] for e in rank["earlier"]) == pytest.approx(
            rank["capacity_gib"], abs=1e-4
        )
        taken = sum(entry["gib"] for entry in rank["entries"])
        assert rank["opening_gib"] - taken == pytest.approx(rank["free_gib"], abs=1e-4)  # the identity stays as it was


def test_what_no_line_names_is_unexplained_and_as_sure_as_the_card() -> None:
    named, rest = ranks_of("deepseek-r1-fp8-8xh200-piecewise")[0]["earlier"]
    assert (named["pool"], named["basis"]) == ("distributed", "printed")
    assert (rest["pool"], rest["basis"], round(rest["gib"], 2)) == ("unexplained", "assumed", 1.15)
    assert rest["lines"] and "no line names" in rest["what"]


def test_a_shared_memory_is_in_use_by_the_host_and_others() -> None:
    *_, rest = ranks_of("qwen25-15b-gb10-low-free-mem")[0]["earlier"]
    assert (rest["pool"], rest["basis"], rest["what"]) == ("other", "derived", "the host and other programs")
    assert rest["gib"] == pytest.approx(103.09, abs=0.005)


def test_a_log_that_begins_after_the_load_tells_nothing_of_before() -> None:
    assert all(not rank["earlier"] for rank in ranks_of("qwen36-27b-tp3-adaptive-spec-graph-ladder"))


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_the_table_goes_up_to_the_card(form: str) -> None:
    lines = render(diagnose(log_of("qwen25-15b-gb10-low-free-mem")), form).splitlines()
    (host,) = [line for line in lines if "before it: Host, others" in line]
    (card,) = [line for line in lines if "The card" in line]
    assert "103.09" in host and "derived" in host
    assert "119.63" in card and "printed" in card
    assert all(len(line) < 120 for line in (host, card))
