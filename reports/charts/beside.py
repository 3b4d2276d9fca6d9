"""Launches, and what-if scenarios, beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reports import words
from reports.budget import Budget, Card
from reports.charts.parts import INSIDE, STRONG, Figure, line, note, ordered, reach, segment, told
from reports.pools import POOLS


def scenario(
    observed: Card,
    changed: Card | None,
    boundaries: tuple[float | None, float | None],
    fractions: tuple[float | None, float | None],
    *,
    without: str = "does not start",
) -> Figure:
    """The observed card, pale and thin, above the changed one, on one scale.

    without  what is said in place of a bar: of an impossible change, or of one that the log cannot tell
    """
    data, notes, shapes = [], [], []
    for row, card in enumerate((observed, changed)):
        name = ("Observed", "What if")[row]
        for pool, entry, gib, start in _entries(card) if card else ():
            bar = segment(pool, gib, start, row, width=0.74 if row else 0.4, opacity=1 if row else 0.62)
            data.append(bar | {"kv": {"name": f"{name} · {entry}", "gib": round(gib, 4)}})
        fraction = fractions[row]
        text = f"{name}, {words.fraction(fraction)}" if fraction is not None else name
        if card is None:
            text = f"{text}: {without}"
        font = {"size": 11.5, "color": "@ink" if row else "@ink-3"}
        place = {"yref": "y", "xanchor": "left", "yanchor": "bottom", "yshift": 27 if row else 16}
        notes.append(note(0, row, text, font=font, **place))
        boundary = boundaries[row]
        if boundary is not None:
            shapes.append(line(boundary, boundary, row - 0.44, row + 0.44, y="y", width=2 if row else 1))
    end = reach([observed, changed] if changed else [observed])
    return {
        "data": data,
        "layout": {
            "height": 190,
            "barmode": "overlay",
            "margin": {"l": 2, "r": 2, "t": 18, "b": 22},
            "annotations": notes,
            "shapes": shapes,
            "xaxis": {"range": [0, end], "nticks": 10, "showgrid": True},
            "yaxis": {"visible": False, "range": [1.5, -0.6]},
        },
        "narrow": {"xaxis": {"range": [0, end], "nticks": 5, "showgrid": True}},
        "scale": {"opening": observed.opening, "bytes_per_token": None},
    }


def _entries(card: Card) -> Iterator[tuple[str, str, float, float]]:
    """Pool, name, size and start of each bar: workspaces and tables one by one, so that a table which grows shows."""
    for share, start in ordered(card):
        if share.pool == "work" and share.parts and all(part.gib > 0 for part in share.parts):
            for part in share.parts:
                yield share.pool, part.name, part.gib, start
                start += part.gib
        elif round(share.gib, 3) > 0:
            yield share.pool, share.name, share.gib, start


def budgets_compared(columns: Sequence[tuple[str, str, Budget]]) -> Figure | None:
    """The main card of each launch on one scale, its boundary drawn. `columns` are (letter, words, budget)."""
    shown = [(letter, text, budget) for letter, text, budget in columns if budget.main]
    if not shown:
        return None
    end = reach(budget.main for _, _, budget in shown if budget.main)
    data, notes, shapes = [], [], []
    for row, (letter, text, budget) in enumerate(shown):
        card = budget.main
        assert card is not None
        for share, start in ordered(card):
            if share.gib <= 0:
                continue
            data.append(segment(share.pool, share.gib, start, row, width=0.5, kv=told(share, f"{letter} · ")))
            if share.pool in ("weights", "kv", "free"):
                font = {"size": 11.5, "weight": 600, "color": INSIDE.get(share.pool, "@ink")}
                kv = {"name": POOLS[share.pool], "gib": share.gib, "axis": "x", "span": share.gib}
                notes.append(note(start + share.gib / 2, row, "", yref="y", yanchor="middle", font=font, kv=kv))
        font = {"size": 11.5, "weight": 550, "color": "@ink"}
        place = {"yref": "y", "xanchor": "left", "yanchor": "bottom", "yshift": 18}
        notes.append(note(0, row, f"{letter}: {text}", font=font, **place))
        if budget.boundary is not None:
            # It stands out below the bar alone: above it are the bar's words.
            shapes.append(line(budget.boundary, budget.boundary, row - 0.25, row + 0.36, y="y"))
    return {
        "data": data,
        "layout": {
            "height": 34 + 69 * len(shown),
            "barmode": "overlay",
            "margin": {"l": 2, "r": 2, "t": 10, "b": 24},
            "annotations": notes,
            "shapes": shapes,
            "xaxis": {"range": [0, end], "nticks": 11},
            "yaxis": {"visible": False, "range": [len(shown) - 0.6, -0.75]},
        },
        "narrow": {"xaxis": {"range": [0, end], "nticks": 5}},
    }


def difference(first: tuple[str, float], last: tuple[str, float], moves: Sequence[tuple[str, str, float]]) -> Figure:
    """From one free figure to another: a bar for each change that moved memory. `moves` are (name, pool, GiB taken).

    What gave memory back comes first, so that the running sum never falls below the smaller end: free memory below
    zero is neither true nor on the axis.
    """
    moves = sorted(moves, key=lambda move: move[2] > 0)
    rows = [(first[0], "free", 0.0, first[1], words.gib(first[1]))]
    at = first[1]
    reach = max(first[1], last[1])
    for name, pool, taken in moves:
        at -= taken
        reach = max(reach, at)
        rows.append((name, pool, min(at, at + taken), abs(taken), words.signed_gib(-taken)))
    rows.append((last[0], "free", 0.0, last[1], words.gib(last[1])))
    data, notes, shapes = [], [], []
    running = first[1]
    for row, (name, pool, start, length, label) in enumerate(rows):
        length = max(length, reach / 200)  # the least that is seen
        data.append(segment(pool, length, start, row, width=0.6, kv={"name": name, "text": f"{label} GiB"}))
        place = {"yref": "y", "xanchor": "left", "xshift": 6, "yanchor": "middle", "font": STRONG}
        notes.append(note(start + length, row, label, **place))
        if 0 < row < len(rows) - 1:
            running -= moves[row - 1][2]
        if row < len(rows) - 1:
            shapes.append(line(running, running, row + 0.3, row + 0.7, y="y", color="@control", width=1))
    return {
        "data": data,
        "layout": {
            "height": 52 + 28 * len(rows),
            "barmode": "overlay",
            "margin": {"l": 300, "r": 8, "t": 6, "b": 24},
            "annotations": notes,
            "shapes": shapes,
            "xaxis": {"range": [0, reach * 1.12], "nticks": 8},
            "yaxis": {
                "range": [len(rows) - 0.5, -0.5],
                "tickvals": list(range(len(rows))),
                "ticktext": [row[0] for row in rows],
                "showgrid": False,
                "ticklabelstandoff": 8,
                "tickfont": {"size": 12, "color": "@ink"},
            },
        },
        "narrow": {
            "margin": {"l": 150, "r": 8, "t": 6, "b": 24},
            "xaxis": {"range": [0, reach * 1.4], "nticks": 4},
        },
    }
