"""Many cards on one scale."""

from __future__ import annotations

from typing import Any

from reports import words
from reports.budget import Budget, Card
from reports.charts.card import scale_of
from reports.charts.parts import STRONG, Figure, line, note, ordered, reach, segment, told

# More bars than this are not read one by one: the odd ones stay, the rest is one bar.
MOST_BARS = 16


def memory_by_rank(budget: Budget, *, each: bool = False) -> Figure | None:
    """A bar for each group of alike ranks, or for each rank while there are few; free memory at the right."""
    cards = _bars(budget, each=each)
    if not cards:
        return None
    end = reach(card for _, card in cards)
    names = [name for name, _ in cards]
    data, notes = [], []
    for row, (name, card) in enumerate(cards):
        for share, start in ordered(card):
            if share.gib > 0:
                data.append(segment(share.pool, share.gib, start, row, width=0.66, kv=told(share, f"{name} · ")))
        if card.free is not None:
            place = {"xref": "paper", "yref": "y", "xanchor": "left", "xshift": 8, "yanchor": "middle"}
            notes.append(note(1, row, "", font=STRONG, kv={"name": "", "gib": card.free}, **place))
    notes.append(note(1, 1, "free", xref="paper", xanchor="left", xshift=8))
    shapes = []
    if budget.boundary is not None:
        shapes.append(line(budget.boundary, budget.boundary, 0, 1, width=1.5))
        text = f"static budget {words.gib(budget.boundary)}"
        notes.append(note(budget.boundary, 1, text, xanchor="right", xshift=-4, font={"size": 11, "color": "@ink"}))
    widest = max(len(name) for name in names)
    return {
        "data": data,
        "layout": {
            "height": 64 + 34 * len(cards),
            "barmode": "overlay",
            "margin": {"l": min(170, 14 + 7 * widest), "r": 66, "t": 22, "b": 34},
            "xaxis": {"range": [0, end], "nticks": 10, "showgrid": True},
            "yaxis": {
                "range": [len(cards) - 0.5, -0.5],
                "tickvals": list(range(len(cards))),
                "ticktext": names,
                "showgrid": False,
                "tickfont": {"size": 11, "color": "@ink-2"},
            },
            "shapes": shapes,
            "annotations": notes,
        },
        "narrow": {"xaxis": {"range": [0, end], "nticks": 4, "showgrid": True}},
        "scale": scale_of(budget, budget.main) | {"axis": "x"},
    }


def _bars(budget: Budget, *, each: bool) -> list[tuple[str, Card]]:
    if each and budget.ranks <= MOST_BARS:
        return sorted(((card.name, card) for card in budget.every), key=lambda bar: natural(bar[0]))
    cards = list(budget.cards)
    bars = [(_bar_name(card), card) for card in cards[: MOST_BARS - 1]]
    rest = cards[MOST_BARS - 1 :]
    if rest:
        middle = rest[len(rest) // 2]
        bars.append((f"{sum(card.count for card in rest)} others, as {middle.ranks[0]}", middle))
    if cards[0].failed:
        return bars  # the rank that failed is drawn first
    return bars[1:] + bars[:1] if len(bars) > 1 else bars


def _bar_name(card: Card) -> str:
    if card.count == 1:
        return f"{card.name} failed" if card.failed else card.name
    name = card.name if len(card.name) <= 16 else f"{card.ranks[0] or 'GPU'} and others"
    return f"{name} × {card.count}"


def natural(name: str) -> tuple[Any, ...]:
    """An order in which TP2 comes before TP10, and node0 before node1."""
    parts, digits = [], ""
    for letter in name + " ":
        if letter.isdigit():
            digits += letter
            continue
        if digits:
            parts.append((0, int(digits), ""))
            digits = ""
        parts.append((1, 0, letter))
    return tuple(parts)
