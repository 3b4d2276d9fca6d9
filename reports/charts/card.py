"""One card: whole, and its tight end enlarged."""

from __future__ import annotations

from typing import Any

from reports import words
from reports.budget import Budget, Card, Share, split_at_boundary
from reports.charts.parts import INSIDE, Figure, line, note, ordered, reach, segment, told
from reports.pools import POOLS


def memory_budget(budget: Budget) -> Figure | None:
    """The largest group's card as one bar, and below it the end where the reserve is spent. None without figures."""
    card = budget.main
    if card is None or not card.shares:
        return None
    placed = ordered(card)
    end = reach([card])
    zoom = _zoom(budget, card, placed, end)
    height, top, low = _rows(has_boundary=budget.boundary is not None, has_zoom=zoom is not None)
    data, notes, shapes = [], [], []
    for share, start in placed:
        if share.gib <= 0:
            continue
        data.append(segment(share.pool, share.gib, start, 0, kv=told(share)))
        middle = (top[0] + top[1]) / 2
        if share.pool in INSIDE or (share.pool == "free" and not zoom):
            font = {"size": 12, "weight": 600, "color": INSIDE.get(share.pool, "@ink")}
            kv = {"name": POOLS[share.pool], "gib": share.gib, "axis": "x", "span": share.gib}
            notes.append(note(start + share.gib / 2, middle, "", yanchor="middle", font=font, kv=kv))
        if not zoom:
            continue
        first, last = max(start, zoom[0]), min(start + share.gib, zoom[1])
        if last <= first:
            continue
        shown = segment(share.pool, last - first, first - zoom[0], 0, kv=told(share), xaxis="x2", yaxis="y2")
        data.append(shown)
        font = {"size": 11.5, "weight": 550, "color": "@ink"}
        kv = {"name": POOLS[share.pool], "gib": share.gib, "axis": "x2", "span": last - first}
        at = (first + last) / 2 - zoom[0]
        notes.append(note(at, low[0] - 0.02, "", xref="x2", yanchor="top", font=font, kv=kv))
    if budget.boundary is not None:
        _draw_boundary(budget, end, top, notes, shapes)
    if card.capacity and card.capacity > card.opening + 0.01:
        box = {"type": "rect", "xref": "x", "yref": "paper", "x0": card.opening, "x1": card.capacity}
        shapes.append(box | {"y0": top[0], "y1": top[1], "line": {"color": "@line-2", "width": 1, "dash": "dot"}})
    if zoom:
        _draw_funnel(budget, zoom, end, top, low, notes, shapes)
    layout = {
        "height": height,
        "barmode": "overlay",
        "margin": {"l": 2, "r": 2, "t": 4, "b": 4},
        "xaxis": {"range": [0, end], "visible": False},
        "yaxis": {"domain": list(top), "visible": False, "range": [-0.5, 0.5]},
        "annotations": notes,
        "shapes": shapes,
    }
    if zoom:
        layout["xaxis2"] = {"range": [0, zoom[1] - zoom[0]], "visible": False, "anchor": "y2"}
        layout["yaxis2"] = {"domain": list(low), "visible": False, "range": [-0.5, 0.5], "anchor": "x2"}
    return {"data": data, "layout": layout, "scale": scale_of(budget, card)}


def _rows(*, has_boundary: bool, has_zoom: bool) -> tuple[int, tuple[float, float], tuple[float, float]]:
    """The drawing's height, and where the card and its enlarged end lie in it: room only for what is written there."""
    if has_zoom:
        return (222, (0.58, 0.84), (0.15, 0.37)) if has_boundary else (192, (0.68, 0.98), (0.17, 0.42))
    return (96, (0.04, 0.64), (0.0, 0.0)) if has_boundary else (64, (0.04, 0.96), (0.0, 0.0))


def _zoom(budget: Budget, card: Card, placed: list[tuple[Share, float]], end: float) -> tuple[float, float] | None:
    """The end of the card worth enlarging; None where everything is wide enough already."""
    if budget.over is not None and budget.boundary is not None:
        start = budget.boundary - 0.35 * (card.opening - budget.boundary)
        return (max(0.0, start), card.opening)
    start = budget.boundary
    if start is None:
        inside, _ = split_at_boundary(card)
        start = sum(share.gib for share in inside)
    if not 0.5 * end < start < 0.985 * card.opening:
        return None
    # From just before the boundary, so that what ends there is seen to end there.
    first = min((begin for share, begin in placed if begin >= start - 0.2 and share.pool != "weights"), default=start)
    return (min(start, first), card.opening)


def _draw_boundary(
    budget: Budget, end: float, top: tuple[float, float], notes: list[dict[str, Any]], shapes: list[dict[str, Any]]
) -> None:
    boundary = budget.boundary or 0.0
    shapes.append(line(boundary, boundary, top[0] - 0.02, top[1] + 0.075))
    right = boundary / end > 0.5
    anchor = {"xanchor": "right", "xshift": -4} if right else {"xanchor": "left", "xshift": 4}
    full = f"static budget ends at {words.gib(boundary)}"
    if budget.fraction is not None and budget.reserve is not None:
        full += f" = {words.fraction(budget.fraction)} × {words.gib(boundary + budget.reserve)}"
    font = {"size": 11.5, "color": "@ink"}
    notes.append(note(boundary, top[1] + 0.07, full, only="wide", font=font, **anchor))
    short = f"static budget {words.gib(boundary)}"
    notes.append(note(boundary, top[1] + 0.07, short, only="narrow", font=font, **anchor))
    if right and budget.reserve is not None and boundary / end < 0.9:
        text = f"reserve {words.gib(budget.reserve)}"
        notes.append(note(boundary, top[1] + 0.07, text, only="wide", xanchor="left", xshift=5))


def _draw_funnel(
    budget: Budget,
    zoom: tuple[float, float],
    end: float,
    top: tuple[float, float],
    low: tuple[float, float],
    notes: list[dict[str, Any]],
    shapes: list[dict[str, Any]],
) -> None:
    left, right = zoom[0] / end, zoom[1] / end
    path = f"M {left} {top[0]} L {right} {top[0]} L 1 {low[1]} L 0 {low[1]} Z"
    area = {"type": "path", "xref": "paper", "yref": "paper", "layer": "below", "line": {"width": 0}}
    shapes.append(area | {"fillcolor": "@sunken", "path": path})
    for above, below in ((left, 0), (right, 1)):
        shapes.append(line(above, below, top[0], low[1], x="paper", color="@line-2", width=1))
    if budget.over is not None and budget.boundary is not None:
        over = words.gib(budget.over)
        long = f"From {zoom[0]:.0f} GiB on, enlarged: the weights end {over} GiB after the budget does"
        short = f"From {zoom[0]:.0f} GiB on, enlarged"
        for x, bounds, shift in (("x", top, 0.0), ("x2", low, zoom[0])):
            box = {"type": "rect", "xref": x, "yref": "paper", "y0": bounds[0], "y1": bounds[1]}
            span = {"x0": budget.boundary - shift, "x1": budget.boundary + budget.over - shift}
            shapes.append(box | span | {"line": {"color": "@critical", "width": 2}})
        at = budget.boundary - zoom[0]
        shapes.append(line(at, at, low[0] - 0.02, low[1] + 0.03, x="x2"))
        middle = at + budget.over / 2
        kv = {"name": "over by", "gib": budget.over, "axis": "x2", "span": budget.over}
        font = {"size": 11.5, "color": "@on-weights"}
        notes.append(note(middle, (low[0] + low[1]) / 2, "", xref="x2", yanchor="middle", font=font, kv=kv))
    elif budget.reserve is not None:
        long = f"The reserve, {words.gib(budget.reserve)} GiB, enlarged: what comes after the pool is paid from here"
        short = f"The reserve, {words.gib(budget.reserve)} GiB, enlarged"
    else:
        long = "What comes after the weights and the pool, enlarged"
        short = "What comes after, enlarged"
    place = {"xref": "paper", "xanchor": "right", "xshift": -8}
    notes.append(note(1, low[1] + 0.012, long, only="wide", **place))
    notes.append(note(1, low[1] + 0.012, short, only="narrow", **place))


def scale_of(budget: Budget, card: Card | None) -> dict[str, Any]:
    return {"opening": card.opening if card else None, "bytes_per_token": budget.bytes_per_token}
