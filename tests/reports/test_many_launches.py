"""A log with thousands of starts: what is left out is said in every form of the report, and each start is in reach."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from django.template.loader import render_to_string

from kvdiag.diagnosis.left_out import left_out
from kvdiag.diagnosis.markdown import to_markdown
from kvdiag.diagnosis.report import Report
from kvdiag.diagnosis.text import render
from reports.launch_tabs import MOST_TABS
from reports.offline import offline_page
from reports.page import ReportPage
from reports.sharing_scope import facts_only
from tests.documents import document

SAID = "The log holds 3,412 server starts: the first 2 and the last 3 are read."


def cut() -> dict[str, Any]:
    """Five of 3,412 starts: 1, 2, and 3,410 to 3,412."""
    made = document("kimi-k25-8gpu")
    pattern = made["launches"][0]
    made["launches"] = []
    for number in (1, 2, 3410, 3411, 3412):
        made["launches"].append(copy.deepcopy(pattern) | {"number": number})
    made["upload"]["launches"] = {"read": 5, "all": 3412}
    return made


def many(count: int) -> dict[str, Any]:
    made = document("kimi-k25-8gpu")
    pattern = made["launches"][0]
    made["launches"] = [copy.deepcopy(pattern) | {"number": number} for number in range(1, count + 1)]
    return made


def page_of(made: dict[str, Any], number: int = 3412) -> str:
    context = {"page": ReportPage(made, number), "report_url": "/r/x/", "report_base": "/r/x"}
    return render_to_string("reports/body.html", context)


def text_of(made: dict[str, Any]) -> str:
    return render(Report(made), "text")


@pytest.mark.parametrize("form", [to_markdown, text_of, offline_page, page_of, lambda made: page_of(facts_only(made))])
def test_what_is_left_out_is_said_everywhere(form: Any) -> None:
    assert SAID in form(cut())


@pytest.mark.parametrize("form", [to_markdown, text_of, offline_page, page_of])
def test_nothing_is_said_where_nothing_is_left_out(form: Any) -> None:
    made = cut()
    del made["upload"]["launches"]
    assert "server starts:" not in form(made)


@pytest.mark.parametrize("form", [to_markdown, text_of, offline_page, page_of, lambda made: page_of(facts_only(made))])
def test_ranks_that_are_not_read_are_said_everywhere(form: Any) -> None:
    made = cut()
    made["launches"][-1]["ranks_read"] = 4_096
    assert "Of each start only the first 4,096 ranks are read." in form(made)


@pytest.mark.parametrize("counts", [None, {}, {"read": 5}, {"read": 5, "all": 5}, {"read": "5", "all": "9"}])
def test_counts_that_say_nothing_are_no_sentence(counts: Any) -> None:
    made = cut()
    made["upload"]["launches"] = counts
    assert left_out(made) == ""


@pytest.mark.parametrize("number", [1, 7, 100, 200])
def test_of_many_launches_those_around_the_shown_one_have_a_tab(number: int) -> None:
    page = ReportPage(many(200), number)
    shown = [tab.number for tab in page.near_tabs]
    assert len(shown) == MOST_TABS
    assert number in shown
    assert shown == sorted(shown)


def test_a_list_leads_to_every_launch() -> None:
    html = page_of(many(200), 100)
    assert html.count("<option") == 200
    assert '<option value="100" selected>' in html


def test_few_launches_need_no_list() -> None:
    assert "<option" not in page_of(many(MOST_TABS), 3)
