"""Hundreds of ranks at a glance: a column for each, alike neighbours drawn as one, and how much each has free.

Coordinates are whole numbers: a rank is one unit wide, a lane 1,000 high. What the drawing shows in colour its
reader also gets in words, rank by rank (static/js/ranks.js), and the table of groups below says it without either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from reports import words
from reports.budget import Budget, Card, split_at_boundary
from reports.charts.parts import ordered, reach
from reports.charts.ranks import MOST_BARS, natural
from reports.pools import POOLS

HEIGHT = 1000
SHADES = 5  # of free memory, from most to least
TICKS = 8
_Spans = dict[str, tuple[float, float]]  # by pool from where to where it lies on the card, GiB


@dataclass(frozen=True, slots=True)
class Lane:
    """Stacked pools over the ranks.

    low, high  what the lane shows of the card, GiB
    areas      (pool, path)
    boundary   where the static budget ends, in the lane's units from above; None outside it
    """

    key: str
    name: str
    low: float
    high: float
    areas: tuple[tuple[str, str], ...]
    boundary: int | None


@dataclass(frozen=True, slots=True)
class Strip:
    """The drawing of all ranks.

    shades  (x, width, shade) of alike neighbours: 0 most free, SHADES - 1 least
    odd     x of each rank outside the largest group
    ticks   (per cent, rank)
    """

    count: int
    lanes: tuple[Lane, ...]
    shades: tuple[tuple[int, int, int], ...]
    odd: tuple[int, ...]
    ticks: tuple[tuple[float, str], ...]
    least: str
    most: str
    told: dict[str, Any]


def strip_of(budget: Budget) -> Strip | None:
    """The strip of a launch with more ranks than are drawn as bars; None for the others."""
    main = budget.main
    if main is None or budget.ranks <= MOST_BARS:
        return None
    cards = budget.usual_first
    group_of = {rank: number for number, card in enumerate(cards) for rank in card.ranks}
    every = sorted(budget.every, key=lambda card: natural(card.ranks[0]))
    groups = [group_of[card.ranks[0]] for card in every]
    names = [card.ranks[0] or "GPU" for card in every]
    frees = [card.free for card in every]
    known = [free for free in frees if free is not None]
    end = reach(budget.cards)
    spans = [_spans(card) for card in cards]
    runs = [(spans[group], len(list(alike))) for group, alike in groupby(groups)]
    lanes = [_lane("whole", "Whole card", budget, runs, 0.0, end)]
    tight = _tight_end(budget)
    if tight is not None:
        lanes.append(_lane("end", f"From {words.gib(tight, 0)} GiB on", budget, runs, tight, main.opening))
    step = max(1, -(-len(every) // TICKS))
    return Strip(
        count=len(every),
        lanes=tuple(lanes),
        shades=tuple(_shades(frees, known)) if known and max(known) - min(known) >= 0.01 else (),
        odd=tuple(number for number, group in enumerate(groups) if group),
        ticks=tuple((100 * number / len(every), names[number]) for number in range(0, len(every), step)),
        least=words.gib(min(known, default=None)),
        most=words.gib(max(known, default=None)),
        told={"names": names, "free": frees, "group": groups, "groups": [card.count for card in cards]},
    )


def _tight_end(budget: Budget) -> float | None:
    """Where the part worth enlarging begins: the end of what the static fraction pays, on the fullest card."""
    starts = [sum(share.gib for share in split_at_boundary(card)[0]) for card in budget.cards]
    start, main = min(starts), budget.main
    assert main is not None
    return float(int(start)) if 0.5 * main.opening < start < 0.985 * main.opening else None


def _lane(key: str, name: str, budget: Budget, runs: list[tuple[_Spans, int]], low: float, high: float) -> Lane:
    """`runs` are neighbouring ranks that are alike: what one holds, and how many they are."""
    scale = HEIGHT / (high - low)

    def y(gib: float) -> int:
        return round(HEIGHT - (min(max(gib, low), high) - low) * scale)

    areas = []
    for pool in POOLS:
        edges = [(*(y(gib) for gib in spans.get(pool, (low, low))), width) for spans, width in runs]
        if any(bottom != top for bottom, top, _ in edges):
            areas.append((pool, _path(edges)))
    boundary = y(budget.boundary) if budget.boundary is not None and low < budget.boundary < high else None
    return Lane(key, name, low, high, tuple(areas), boundary)


def _spans(card: Card) -> _Spans:
    return {share.pool: (start, start + share.gib) for share, start in ordered(card) if share.gib > 0}


def _path(edges: list[tuple[int, int, int]]) -> str:
    """An outline along the tops and back along the bottoms. `edges` are (bottom, top, width)."""
    path = [f"M0 {edges[0][1]}"]
    for at, (_, top, width) in enumerate(edges):
        path.append(f"h{width}")
        if at + 1 < len(edges) and edges[at + 1][1] != top:
            path.append(f"V{edges[at + 1][1]}")
    path.append(f"V{edges[-1][0]}")
    for at in range(len(edges) - 1, -1, -1):
        path.append(f"h-{edges[at][2]}")
        if at and edges[at - 1][0] != edges[at][0]:
            path.append(f"V{edges[at - 1][0]}")
    return "".join(path) + "z"


def _shades(frees: list[float | None], known: list[float]) -> Iterator[tuple[int, int, int]]:
    most, apart = max(known), max(known) - min(known)

    def shade(free: float | None) -> int | None:
        return None if free is None else min(SHADES - 1, int((most - free) / apart * SHADES))

    x = 0
    for value, alike in groupby(map(shade, frees)):
        width = len(list(alike))
        if value is not None:
            yield x, width, value
        x += width
