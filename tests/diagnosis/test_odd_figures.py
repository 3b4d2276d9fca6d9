"""Figures that no server prints, in a log that is otherwise whole: the report is made, and is JSON."""

import io
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.lines import Log

LOG = (Path(__file__).parent.parent / "corpus" / "kimi-k25-8gpu" / "log.txt").read_text()


def document(text: str) -> dict[str, Any]:
    report = diagnose(Log("log.txt", io.BytesIO(text.encode())))
    report.to_json()  # raises on a figure that JSON has not
    return report.document


@pytest.mark.parametrize("figure", ["nan", "inf", "-inf", "1e999", "1" + "0" * 30, "-5", "0"])
@pytest.mark.parametrize(
    ("what", "expression"),
    [
        ("token usage: ", r"token usage: [\d.]+"),
        ("context_len=", r"context_len=\d+"),
        ("avail mem=", r"avail mem=[\d.]+"),
        ("#tokens: ", r"#tokens: \d+"),
    ],
)
def test_a_figure_without_sense_breaks_no_report_and_no_rule(
    what: str, expression: str, figure: str, caplog: pytest.LogCaptureFixture
) -> None:
    text, count = re.subn(expression, what + figure, LOG)
    assert count
    with caplog.at_level(logging.ERROR):
        assert document(text)["launches"]
    assert not caplog.records


def test_marks_that_turn_the_direction_of_text_reach_no_report() -> None:
    found = document(LOG.replace("/models/Kimi-K2.5-INT4", "/models/\u202egnp\u2066.exe\u2069"))
    assert found["launches"][0]["model"]["path"] == "/models/gnp.exe"
