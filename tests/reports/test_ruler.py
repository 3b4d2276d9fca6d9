"""The fraction ruler: zones, marks and the turn, from the engine's numbers alone."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.texts import Log
from reports import words
from reports.fractions import least_that_starts
from reports.page import ReportPage
from reports.ruler import ruler_of
from reports.what_if import answer
from tests.documents import document


def ruler(name: str, number: int = 0):
    made = document(name)
    return ruler_of(made, made["launches"][number])


def test_the_red_zone_ends_at_the_least_fraction_that_starts() -> None:
    drawn = ruler("kimi-k25-8gpu")
    bad = [zone for zone in drawn.zones if zone.kind == "bad"]
    assert [(zone.x, zone.width) for zone in bad] == [(0.0, 23.33)]
    assert drawn.low_words == "cannot start below 0.77"


def test_without_an_upper_bound_nothing_is_said_not_to_fit() -> None:
    drawn = ruler("kimi-k25-8gpu")
    assert drawn.high_words == ""
    assert "does not fit" not in drawn.spoken


def test_a_healthy_start_gets_no_arrow() -> None:
    drawn = ruler("kimi-k25-8gpu")
    assert drawn.arrow is None
    assert [mark.text for mark in drawn.marks] == ["0.904", "now 0.88"]


def test_the_arrow_goes_from_what_was_tried_to_what_is_advised() -> None:
    drawn = ruler("llama-two-launches", 1)
    assert drawn.arrow[0] < drawn.arrow[1]
    texts = [f"{mark.text}{mark.after}" for mark in drawn.marks]
    assert texts == ["0.90 advised", "0.80 refused", "0.95 OOM"]


def test_a_log_that_does_not_tell_its_fraction_has_no_ruler() -> None:
    assert ruler("lone-oom-line") is None
    made = document("kimi-k25-8gpu")
    made["launches"][0]["kv_cache"]["fractions"] = None
    assert ruler_of(made, made["launches"][0]) is None


def test_the_words_of_a_low_fraction_have_room_on_their_left() -> None:
    made = document("kimi-k25-8gpu")
    launch = made["launches"][0]
    launch["kv_cache"]["fractions"] |= {"observed": 0.2, "keeps_wanted_free": 0.4}
    launch["kv_cache"]["budget"] |= {"mem_fraction_static": 0.2, "smallest_fraction": 0.18}
    drawn = ruler_of(made, launch)
    now = next(mark for mark in drawn.marks if mark.kind == "now")
    assert now.words_left and now.x >= 20
    assert [tick.text for tick in drawn.ticks] == ["0.00", "0.20", "0.40", "0.60", "0.80", "1.00"]


def test_near_the_right_edge_the_fraction_stands_alone() -> None:
    made = document("kimi-k25-8gpu")
    launch = made["launches"][0]
    launch["kv_cache"]["fractions"] |= {"observed": 0.84, "keeps_wanted_free": 0.92}
    launch["kv_cache"]["budget"] |= {"mem_fraction_static": 0.84, "smallest_fraction": 0.07}
    launch["kv_cache"]["fractions"]["smallest_that_starts"] = 0.07
    drawn = ruler_of(made, launch)
    keeps = next(mark for mark in drawn.marks if mark.kind == "to")
    assert keeps.x > 82 and not keeps.words_left
    assert keeps.text == "0.92" and keeps.after == "" and keeps.words_above


def test_a_failed_fraction_near_the_right_edge_keeps_only_its_figure_on_a_phone() -> None:
    made = document("llama-two-launches")
    launch = made["launches"][1]
    launch["kv_cache"]["fractions"] |= {"observed": 0.97, "starts_from": 0.6}
    drawn = ruler_of(made, launch)
    assert drawn is not None
    last = max((mark for mark in drawn.marks if mark.bad), key=lambda mark: mark.x)
    assert (last.text, last.after) == ("0.97", " refused")


def drawn_for(observed: float, to: float | None = None, **known: float):
    made = document("kimi-k25-8gpu")
    launch = made["launches"][0]
    launch["kv_cache"]["fractions"] |= {"observed": observed} | known
    launch["kv_cache"]["budget"] |= {"mem_fraction_static": observed, "smallest_fraction": None}
    if to is not None:
        direction = "raise" if to > observed else "lower"
        remedy = {"flag": "--mem-fraction-static", "direction": direction, "from": str(observed), "to": str(to)}
        launch["findings"] = [{"rule": "x", "severity": "advice", "remedies": [remedy]}]
    return ruler_of(made, launch)


@pytest.mark.parametrize(
    ("observed", "to"), [(0.82, 0.917), (0.9, 0.8), (0.95, 0.9), (0.97, 0.6), (0.6, 0.98), (0.93, 0.99), (0.58, 0.7)]
)
def test_on_a_phone_the_words_of_a_mark_stay_inside(observed: float, to: float) -> None:
    for mark in drawn_for(observed, to, starts_from=0.57).marks:
        width = 7.4 * len(mark.text)
        at = 280 * mark.x / 100
        start = at - 6 - width if mark.words_left else at + 6
        assert start >= -8 and start + width <= 288
        whole = f"{mark.before}{mark.text}{mark.after}"  # wider screens have all of the words
        assert f"{to:.2f} advised" in whole or f"{to} advised" in whole or f"now {observed:.2f}" in whole


@pytest.mark.parametrize("observed", [0.06, 0.3, 0.45, 0.57, 0.62, 0.68, 0.8, 0.95])
def test_on_a_phone_no_tick_lies_on_another(observed: float) -> None:
    drawn = drawn_for(observed, keeps_wanted_free=observed + 0.02)
    assert (drawn.ticks[0].x, drawn.ticks[-1].text) == (0.0, "1.00")
    ends, width = [], 26.0
    for tick in drawn.ticks:
        if not tick.spare:
            start = 280 * tick.x / 100 - {"start": 0.0, "middle": width / 2, "end": width}[tick.place]
            ends.append((start, start + width))
    assert all(one[1] < other[0] for one, other in itertools.pairwise(ends))


def words_of(mark, letter: float = 7.4, width: float = 280.0) -> tuple[float, float]:
    """From where to where a mark's words reach on a phone, px."""
    x, length = mark.x / 100 * width, len(mark.text) * letter
    if mark.words_above:
        return x - length / 2, x + length / 2
    return (x - 6 - length, x - 6) if mark.words_left else (x + 6, x + 6 + length)


@pytest.mark.parametrize("outcome", ["ready", "failed"])
@pytest.mark.parametrize("observed", [0.45, 0.6, 0.7, 0.8, 0.88, 0.93, 0.97])
@pytest.mark.parametrize("apart", [-0.2, -0.12, -0.07, 0.07, 0.12, 0.2])
def test_the_words_of_two_marks_do_not_lie_on_each_other(outcome: str, observed: float, apart: float) -> None:
    to = round(observed + apart, 3)
    if not 0.3 < to < 0.99:
        return
    made = document("kimi-k25-8gpu")
    launch = made["launches"][0]
    launch["outcome"] = outcome
    launch["kv_cache"]["fractions"] |= {"observed": observed}
    launch["kv_cache"]["budget"] |= {"mem_fraction_static": observed, "smallest_fraction": 0.3}
    remedy = {"flag": "--mem-fraction-static", "direction": "raise" if apart > 0 else "lower", "to": str(to)}
    launch["findings"] = [{"rule": "x", "severity": "warning", "summary": "", "evidence": [], "remedies": [remedy]}]
    drawn = ruler_of(made, launch)
    (first_from, first_to), (second_from, second_to) = sorted(words_of(mark) for mark in drawn.marks)
    assert first_to <= second_from, [(mark.text, mark.x, mark.words_left) for mark in drawn.marks]
    assert first_from > -12 and second_to < 292


CORPUS = Path(__file__).parents[1] / "corpus"


@pytest.mark.parametrize("case", ["kimi-k25-8gpu", "kimi-k25-8gpu-refused", "qwen25-15b-gb10-low-free-mem"])
def test_a_least_fraction_starts_and_is_one_figure_everywhere(case: str) -> None:
    made = diagnose(Log("log.txt", io.BytesIO((CORPUS / case / "log.txt").read_bytes()))).document
    launch = made["launches"][-1]
    drawn, least = ruler_of(made, launch), least_that_starts(launch)
    assert least is not None and least > launch["kv_cache"]["budget"]["smallest_fraction"]
    spelled = words.fraction(least)
    assert drawn.low_words in ("", f"cannot start below {spelled}")
    assert f"none below {spelled}" in drawn.caption
    assert f"below {spelled} the server cannot start" in drawn.spoken
    tiles = {key.name: key.figure for key in ReportPage(made, len(made["launches"]) - 1).keys}
    assert tiles.get("Least fraction", spelled) == spelled
    found, _ = answer(launch, {"mem_fraction_static": str(least)})
    assert found["starts_from"] == least and found["tokens"]["after"] > 0
    below, _ = answer(launch, {"mem_fraction_static": str(round(least - 0.001, 3))})
    assert below["refused"]


def test_a_limit_of_more_digits_is_rounded_to_its_safe_side() -> None:
    made = document("kimi-k25-8gpu")
    known = made["launches"][0]["kv_cache"]["fractions"]
    known |= {"smallest_that_starts": None, "keeps_wanted_free": 0.9047, "largest_that_fits": 0.9838}
    made["launches"][0]["kv_cache"]["budget"]["smallest_fraction"] = 0.7691
    drawn = ruler_of(made, made["launches"][0])
    assert drawn.low_words == "cannot start below 0.77"
    assert (drawn.thin_words[-5:], drawn.high_words[-5:]) == ("0.904", "0.983")
