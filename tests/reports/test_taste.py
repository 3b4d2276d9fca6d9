"""The report in small on the upload page tells the figures of the sample it opens."""

from __future__ import annotations

import re

import pytest
from django.template.loader import render_to_string

from ingest.samples import ALL
from kvdiag.diagnosis import diagnose
from reports.page import ReportPage


@pytest.fixture(scope="module")
def page() -> ReportPage:
    with ALL[0].path.open("rb") as log:
        return ReportPage(diagnose(log).document)


@pytest.fixture(scope="module")
def taste() -> str:
    html = render_to_string("ingest/taste.html", {"sample": ALL[0]})
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", html))


def test_every_pool_is_told_as_the_report_tells_it(page: ReportPage, taste: str) -> None:
    main = page.budget.main
    assert main is not None
    for share in main.shares:
        if share.gib >= 0.1:
            assert f"{share.gib:.2f}" in taste, share.name


def test_the_verdict_and_the_turn_are_the_reports(page: ReportPage, taste: str) -> None:
    assert "159,277 KV tokens on each of 8 GPUs, 7.43 GiB free" in taste
    assert page.verdict_line.startswith("159,277 KV tokens on each of 8 GPUs, 7.43 GiB free.")
    assert "0.904 would fit about 193,800 tokens (+22 %)" in page.verdict_line
    lever = next(lever for lever in page.levers if "0.904" in "".join(lever.flags))
    assert "193,800" in lever.tokens and "5.04" in lever.free
    assert any("2.39 GiB" in cost for cost in lever.costs)
    for said in ("193,800", "5.04 GiB", "2.39 GiB", "0.904"):
        assert said in taste


def test_the_line_is_a_line_of_the_sample(taste: str) -> None:
    cited = re.search(r"(\d+)(\[2026[^|]*?GB)", taste)
    assert cited
    line = ALL[0].path.read_text("utf-8").splitlines()[int(cited[1]) - 1]
    assert line.endswith(cited[2])
