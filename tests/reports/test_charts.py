"""Figures: they add up, name colours, and carry no words of a log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from reports import charts
from reports.budget import budget_of
from reports.page import ReportPage
from reports.pools import POOLS
from reports.still import still
from reports.words import gib
from tests.documents import NAMES, changed, document, with_ranks


def figures(name: str) -> Iterator[dict[str, Any]]:
    made = document(name)
    for launch in made["launches"]:
        page = ReportPage(made, launch["number"])
        found = (page.budget_figure, page.ranks_figure, page.waterfall_figure, page.serving_figure)
        yield from (figure for figure in found if figure)


def test_the_segments_of_a_card_reach_from_nothing_to_its_first_reading() -> None:
    figure = charts.memory_budget(budget_of(document("kimi-k25-8gpu")["launches"][0]))
    whole = [trace for trace in figure["data"] if "xaxis" not in trace]
    ends = [(trace["base"][0], trace["base"][0] + trace["x"][0]) for trace in whole]
    assert ends[0][0] == 0
    assert all(before[1] == pytest.approx(after[0], abs=1e-4) for before, after in zip(ends, ends[1:], strict=False))
    assert ends[-1][1] == pytest.approx(94.04, abs=1e-4)


def test_memory_given_back_moves_the_next_segment_to_the_left() -> None:
    made = document("kimi-k25-8gpu")
    rank = made["launches"][0]["ranks"][0]
    rank["entries"][-1]["gib"] -= 0.2
    rank["free_gib"] += 0.2
    figure = charts.memory_budget(budget_of({"ranks": [rank], "outcome": "ready"}))
    last = [trace for trace in figure["data"] if "xaxis" not in trace][-1]
    assert last["base"][0] + last["x"][0] == pytest.approx(94.04, abs=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_colours_are_names_of_the_design(name: str) -> None:
    for figure in figures(name):
        for trace in figure["data"]:
            assert trace.get("pool", "free") in POOLS
            for colour in (trace.get("marker", {}).get("color"), trace.get("line", {}).get("color")):
                assert colour is None or re.fullmatch(r"@[a-z0-9-]+", colour)


@pytest.mark.parametrize("name", NAMES)
def test_no_word_of_a_log_enters_a_figure(name: str) -> None:
    marked = changed(document(name), lambda leaf: f"EVIL<b>{leaf}" if isinstance(leaf, str) and " " in leaf else leaf)
    for launch in marked["launches"]:
        page = ReportPage(marked, launch["number"])
        for figure in (page.budget_figure, page.ranks_figure, page.waterfall_figure):
            assert "EVIL" not in json.dumps(figure)


@pytest.mark.parametrize("name", NAMES)
def test_no_markup_in_words(name: str) -> None:
    # Plotly makes style attributes of <b>, which the content security policy refuses.
    assert not any("<" in json.dumps(figure["layout"].get("annotations")) for figure in figures(name))


def test_weights_beyond_the_budget_are_framed() -> None:
    figure = charts.memory_budget(budget_of(document("llama-refused")["launches"][0]))
    frames = [shape for shape in figure["layout"]["shapes"] if shape["line"].get("color") == "@critical"]
    assert frames[0]["x0"] == pytest.approx(62.896, abs=1e-3)
    assert frames[0]["x1"] == pytest.approx(65.86, abs=1e-3)


def test_uneven_ranks_stand_apart_with_the_least_free_first() -> None:
    budget = budget_of(with_ranks(64, odd=16)["launches"][0])
    odd = budget.cards[1:]
    assert sum(card.count for card in odd) == 4
    assert [card.free for card in odd] == sorted(card.free for card in odd)


def test_the_waterfall_ends_where_the_log_does() -> None:
    steps = ReportPage(document("kimi-k25-8gpu")).steps
    assert (steps[0].free, steps[-1].free) == (94.04, 7.43)
    assert steps[-2].free == pytest.approx(7.43, abs=1e-4)


def test_the_difference_of_two_launches_ends_at_the_second() -> None:
    figure = charts.difference(("A", 12.0), ("B", 7.0), [("KV cache", "kv", 3.0), ("Draft model", "draft", 2.0)])
    assert [trace["x"][0] for trace in figure["data"]] == [12.0, 3.0, 2.0, 7.0]
    assert figure["data"][2]["base"][0] == 7.0


def test_a_small_difference_has_a_bar_that_is_seen() -> None:
    figure = charts.difference(("A", 20.0), ("B", 19.98), [("Request table", "work", 0.02)])
    assert figure["data"][1]["x"][0] == pytest.approx(0.1)
    assert figure["layout"]["annotations"][1]["text"] == "−0.02"


def test_a_difference_larger_than_what_was_free_stays_on_the_axis() -> None:
    moves = [("Weights", "weights", 40.0), ("KV cache", "kv", -46.0), ("CUDA graphs", "graphs", 1.0)]
    figure = charts.difference(("A", 2.0), ("B", 7.0), moves)
    low, high = figure["layout"]["xaxis"]["range"]
    bars = [(trace["base"][0], trace["base"][0] + trace["x"][0]) for trace in figure["data"]]
    assert all(low <= start < end <= high for start, end in bars)
    assert len(bars) == len(moves) + 2 == len(figure["layout"]["annotations"])
    assert [note["text"] for note in figure["layout"]["annotations"]] == ["2.00", "+46.00", "−40.00", "−1.00", "7.00"]
    assert figure["layout"]["yaxis"]["ticktext"] == ["A", "KV cache", "Weights", "CUDA graphs", "B"]


def test_a_long_series_is_thinned() -> None:
    points = [{"line": n, "at": None, "usage": 0.5, "running": 1, "queued": 0} for n in range(20_000)]
    figure = charts.serving(points)
    assert len(figure["data"][0]["x"]) <= charts.MOST_POINTS


def test_a_boundary_stays_below_the_words_of_its_bar() -> None:
    budget = budget_of(document("kimi-k25-8gpu")["launches"][0])
    figure = charts.budgets_compared([("A", "one", budget), ("B", "two", budget)])
    assert figure is not None
    layout = figure["layout"]
    low, high = layout["yaxis"]["range"]
    pixels = (layout["height"] - layout["margin"]["t"] - layout["margin"]["b"]) / (low - high)
    shifts = [note["yshift"] for note in layout["annotations"] if "yshift" in note]
    tops = [(row - shape["y0"]) * pixels for row, shape in enumerate(layout["shapes"])]
    assert len(tops) == len(shifts) == 2
    assert all(top < shift for top, shift in zip(tops, shifts, strict=True))


def batches(*entries: tuple[int, float, int]) -> list[dict[str, Any]]:
    """Batch lines: seconds, use of the pool, running requests."""
    start = datetime(2026, 11, 29, 9, 14)
    return [
        {"line": n, "at": (start + timedelta(seconds=at)).isoformat(), "usage": usage, "running": running}
        for n, (at, usage, running) in enumerate(entries, start=1)
    ]


def test_a_count_stays_until_a_line_says_otherwise_and_nothing_is_drawn_over_a_pause() -> None:
    pairs = [(n, 0.1, 1) for n in range(8)]
    figure = charts.serving(batches(*pairs, (62, 0.0, 0), (63, 0.2, 2), (64, 0.2, 2)))
    assert figure is not None
    usage, running = figure["data"]
    assert running["line"]["shape"] == "hv" and usage["line"]["shape"] == "linear"
    for trace in (usage, running):
        assert trace["y"][8] is None and trace["connectgaps"] is False
        assert len(trace["x"]) == len(trace["y"]) == len(trace["marker"]["size"]) == 12
    drawn = still(figure)
    assert drawn.count("<polyline") == 4


def test_a_single_line_between_two_pauses_is_a_dot() -> None:
    pairs = [(n, 0.1, 1) for n in range(8)]
    figure = charts.serving(batches(*pairs, (100, 0.5, 3), (200, 0.2, 2), (201, 0.2, 2)))
    assert figure is not None
    sizes = figure["data"][1]["marker"]["size"]
    assert [value for value, size in zip(figure["data"][1]["y"], sizes, strict=True) if size] == [3]
    assert still(figure).count("<circle") == 2


@pytest.mark.parametrize(("most", "step"), [(0, 1), (1, 1), (2, 1), (3, 2), (7, 5), (48, 50), (300, 200)])
def test_whole_counts_get_whole_ticks(most: int, step: int) -> None:
    figure = charts.serving(batches((0, 0.1, 0), (1, 0.1, most)))
    assert figure is not None
    assert figure["layout"]["yaxis2"]["dtick"] == step


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_has_a_still_drawing(name: str) -> None:
    for figure in figures(name):
        drawn = still(figure, "in words")
        assert drawn.startswith("<svg") and drawn.endswith("</svg>")
        assert "style=" not in drawn


def test_a_still_drawing_says_the_same_figures() -> None:
    page = ReportPage(document("kimi-k25-8gpu"))
    drawn = still(page.budget_figure, "words")
    assert all(gib(figure) in drawn for figure in (72.33, 10.42, 7.43))
