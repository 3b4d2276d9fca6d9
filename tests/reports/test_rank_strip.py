"""The strip of hundreds of ranks: as long as the launch is wide, true to its figures, and small."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from reports.budget import budget_of
from reports.rank_strip import HEIGHT, Strip, strip_of
from tests.documents import document, with_ranks


def strip(count: int, odd: int = 13) -> Strip:
    found = strip_of(budget_of(with_ranks(count, odd=odd)["launches"][0]))
    assert found is not None
    return found


def steps(path: str) -> list[tuple[str, int]]:
    return [(letter, int(value)) for letter, value in re.findall(r"([hV])(-?\d+)", path)]


@pytest.mark.parametrize("count", [1, 8, 16])
def test_few_ranks_are_bars_and_no_strip(count: int) -> None:
    assert strip_of(budget_of(with_ranks(count)["launches"][0])) is None


@pytest.mark.parametrize("count", [17, 64, 512])
def test_every_area_goes_over_all_ranks_and_back(count: int) -> None:
    for lane in strip(count).lanes:
        for pool, path in lane.areas:
            wide = [value for letter, value in steps(path) if letter == "h"]
            assert sum(value for value in wide if value > 0) == count, pool
            assert sum(wide) == 0, pool
            assert all(0 <= value <= HEIGHT for letter, value in steps(path) if letter == "V"), pool


def test_odd_ranks_are_where_they_are_and_only_they() -> None:
    made = strip(64)
    assert made.odd == (12, 25, 38, 51)
    assert {made.told["names"][number] for number in made.odd} == {"TP12", "TP25", "TP38", "TP51"}


def test_ranks_stand_in_their_own_order() -> None:
    launch = with_ranks(64, odd=13)["launches"][0]
    launch["ranks"].reverse()
    found = strip_of(budget_of(launch))
    assert found is not None
    assert found.told["names"][:3] == ["TP0", "TP1", "TP2"] and found.told["names"][-1] == "TP63"


def test_the_least_free_memory_has_the_darkest_shade() -> None:
    made = strip(64)
    shade_at = {x: shade for x, width, shade in made.shades}
    assert sum(width for _, width, _ in made.shades) == 64
    assert shade_at[0] == 0
    frees = made.told["free"]
    worst = frees.index(min(frees))
    assert shade_at[worst] == max(shade_at.values())


def test_ranks_that_are_alike_have_no_shades() -> None:
    assert strip(64, odd=0).shades == ()
    assert strip(64, odd=0).odd == ()


def test_a_rank_without_a_reading_is_a_gap_and_no_zero() -> None:
    launch = with_ranks(32, odd=5)["launches"][0]
    launch["ranks"][7]["free_gib"] = None
    found = strip_of(budget_of(launch))
    assert found is not None
    at = found.told["names"].index("TP7")
    assert found.told["free"][at] is None
    assert not any(x <= at < x + width for x, width, _ in found.shades)


def test_the_strip_of_512_ranks_is_small() -> None:
    made = strip(512)
    paths = sum(len(path) for lane in made.lanes for _, path in lane.areas)
    assert paths < 12_000
    assert len(json.dumps(made.told)) < 16_000


def uneven() -> dict[str, Any]:
    """512 ranks of which no two are alike."""
    made = with_ranks(512)
    for number, rank in enumerate(made["launches"][0]["ranks"]):
        rank["free_gib"] = round(1 + number * 0.07, 2)
        rank["opening_gib"] = round(rank["opening_gib"] + number * 0.07, 2)
    return made


def test_ranks_of_which_no_two_are_alike_still_fit_the_page() -> None:
    found = strip_of(budget_of(uneven()["launches"][0]))
    assert found is not None
    assert sum(len(path) for lane in found.lanes for _, path in lane.areas) < 80_000


def test_the_ticks_lie_within_the_strip() -> None:
    made = strip(512)
    assert made.ticks[0] == (0.0, "TP0")
    assert all(0 <= at < 100 for at, _ in made.ticks)


def test_no_strip_where_no_rank_has_a_figure() -> None:
    launch = document("kimi-k25-8gpu")["launches"][0]
    launch["ranks"] = []
    assert strip_of(budget_of(launch)) is None
