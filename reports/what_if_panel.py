"""The what-if panel of a page: its knobs and what it says at first, and the answers its script asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from reports.document import Launch, dig
from reports.knobs import PREFIX, asked_of, knobs_of, turned
from reports.page import ReportPage
from reports.scenario_words import refused_scenario, shown_scenario
from reports.what_if import answer

Narrow = Callable[[dict[str, Any]], dict[str, Any]]


def panel_of(
    page: ReportPage, given: Mapping[str, str], launch: Launch | None = None, narrow: Narrow | None = None
) -> dict[str, Any]:
    """What the panel's templates need: knobs where the address puts them, and the scenario's words.

    launch  the one to reckon with, where the page shows less of it
    narrow  of a link's readers: takes from an answer what they may not see
    """
    if not page.what_if:
        return {"knobs": []}
    knobs = knobs_of(page.launch)
    asked = asked_of(given, knobs)
    found, status = answer(launch or page.launch, asked, page.budget)
    if status == 200:
        told, arguments = _told(found, page.launch, narrow)
        scenario = shown_scenario(told, is_observed=not asked, arguments=arguments)
    else:
        scenario = refused_scenario(found["error"])
    return {
        "knobs": turned(knobs, asked),
        "scenario": scenario,
        "scenario_more": any(knob.more and knob.name in asked for knob in knobs),
    }


def _told(found: dict[str, Any], launch: Launch, narrow: Narrow | None) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """An answer as its reader may see it, and the launch's arguments: not all of a link's readers may see them."""
    return (found, dig(launch, "arguments")) if narrow is None else (narrow(found), None)


def panel_answer(launch: Launch, given: Mapping[str, str], narrow: Narrow | None = None) -> tuple[dict[str, Any], int]:
    """The answer of reports/what_if.py with the panel's words in `shown`, and its status."""
    found, status = answer(launch, given)
    if status != 200:
        return found | {"shown": refused_scenario(found["error"]).to_json()}, status
    told, arguments = _told(found, launch, narrow)
    shown = shown_scenario(told, is_observed=not set(given) - {"launch"}, arguments=arguments)
    return told | {"shown": shown.to_json()}, status


def scenario_query(page: ReportPage, given: Mapping[str, str]) -> str:
    """The query of a page with a scenario and nothing else: what the form sends holds all knobs."""
    asked = asked_of(given, knobs_of(page.launch)) if page.what_if else {}
    return urlencode({"launch": page.number} | {f"{PREFIX}{name}": value for name, value in asked.items()})
