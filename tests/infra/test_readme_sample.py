"""The README shows what the command prints."""

from __future__ import annotations

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.text import render
from tests.live import ROOT


def test_the_sample_of_the_readme_is_what_diagnose_prints() -> None:
    sample = (ROOT / "README.md").read_text("utf-8").partition("$ bin/kvdiag diagnose server.log\n")[2]
    shown = [line.strip() for line in sample.partition("\n\n\n")[0].partition("\nEvery figure")[0].splitlines()]
    shown = [line for line in shown if line and line != "…"]
    with (ROOT / "tests/corpus/kimi-k25-8gpu/log.txt").open("rb") as stream:
        printed = render(diagnose(stream), "text")
    lines = [line.strip() for line in printed.splitlines()]
    assert len(shown) >= 8
    assert [line for line in shown if line not in lines] == []
