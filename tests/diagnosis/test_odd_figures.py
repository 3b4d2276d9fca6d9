"""Figures that no server prints, in a log that is otherwise whole: the report is made, and is JSON."""

import io
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.lines import Log
from kvdiag.diagnosis.text import render

LOG = (Path(__file__).parent.parent / "corpus" / "kimi-k25-8gpu" / "log.txt").read_text()


def document(text: str) -> dict[str, Any]:
    report = diagnose(Log("log.txt", io.BytesIO(text.encode())))
    report.to_json()  # raises on a figure that JSON has not
    return report.document


@pytest.mark.parametrize("figure", ["nan", "inf", "-inf", "1e999", "1" + "0" * 30, "-5", "-0.5", "0"])
@pytest.mark.parametrize(
    ("what", "expression"),
    [
        ("token usage: ", r"token usage: [\d.]+"),
        ("context_len=", r"context_len=\d+"),
        ("avail mem=", r"avail mem=[\d.]+"),
        ("#tokens: ", r"#tokens: \d+"),
        ("elapsed=", r"elapsed=[\d.]+"),
        ("max_running_requests=", r"max_running_requests=\d+"),
        ("page_size=", r"page_size=\d+"),
        ("tp_size=", r"tp_size=\d+"),
        ("mem_fraction_static=", r"mem_fraction_static=[\d.]+"),
    ],
)
def test_a_figure_without_sense_breaks_no_report_and_no_rule(
    what: str, expression: str, figure: str, caplog: pytest.LogCaptureFixture
) -> None:
    text, count = re.subn(expression, what + figure, LOG)
    assert count
    with caplog.at_level(logging.ERROR):
        (launch,) = document(text)["launches"]
    assert not caplog.records
    for remedy in (remedy for finding in launch["findings"] for remedy in finding["remedies"]):
        if remedy["flag"] == "--mem-fraction-static" and remedy["to"]:
            assert 0 < float(remedy["to"]) < 1
        if remedy["flag"] == "--max-total-tokens" and remedy["to"]:
            assert int(remedy["to"]) > 0


@pytest.mark.parametrize("fraction", ["1.2", "90", "-0.5"])
def test_no_reserve_is_computed_from_a_fraction_that_is_no_share(fraction: str) -> None:
    odd = re.sub(r"(mem[_-]fraction[_-]static[= ])[\d.]+", rf"\g<1>{fraction}", LOG)
    report = diagnose(Log("log.txt", io.BytesIO(odd.encode())))
    (launch,) = report.document["launches"]
    assert not any(
        remedy["effect"] for finding in launch["findings"] for remedy in finding["remedies"] if remedy["effect"]
    )
    shown = render(report, "text")
    assert "reserve" not in shown
    assert "no mem_fraction_static between 0 and 1" in shown or "Tokens are not predicted" not in shown


def test_a_bar_is_no_longer_than_its_column_whatever_its_share() -> None:
    odd = re.sub(r"(Load weight begin. avail mem=)[\d.]+", r"\g<1>1e-300", LOG)
    shown = render(diagnose(Log("log.txt", io.BytesIO(odd.encode()))), "text")
    assert max(line.count("█") for line in shown.splitlines()) <= 24


def test_marks_that_turn_the_direction_of_text_reach_no_report() -> None:
    found = document(LOG.replace("/models/Kimi-K2.5-INT4", "/models/\u202egnp\u2066.exe\u2069"))
    assert found["launches"][0]["model"]["path"] == "/models/gnp.exe"


FIGURES = r"(?:#tokens: |max_total_num_tokens=|max_prefill_tokens=|max_running_requests=|context_len=)\d+"


@pytest.mark.parametrize("line", sorted({found[0] for found in re.finditer(FIGURES, LOG)}))
def test_a_count_within_which_the_log_is_cut_is_not_read(line: str) -> None:
    whole = document(LOG)["launches"][0]
    end = LOG.index(line) + len(line)
    for left in (1, 2):
        (launch,) = document(LOG[: end - left])["launches"]
        assert all(value in (None, whole["limits"][name]) for name, value in launch["limits"].items() if name != "line")
        assert {rank["kv_tokens"] for rank in launch["ranks"]} <= {None, whole["ranks"][0]["kv_tokens"]}


def test_a_count_that_ends_its_line_is_read() -> None:
    end = LOG.index("context_len=") + len("context_len=131072")
    assert document(LOG[:end] + "\n")["launches"][0]["limits"]["context_len"] == 131072
    assert document(LOG[:end])["launches"][0]["limits"]["context_len"] is None


def test_a_model_named_after_no_parameters_breaks_no_rule(caplog: pytest.LogCaptureFixture) -> None:
    assert document(LOG.replace("Kimi-K2.5-INT4", "tiny-0b"))["launches"]
    assert not caplog.records
