"""Report → Plotly figures, as plain dictionaries. No Django, no Plotly import, no theme.

Colours are names ("@pool-kv") that static/js/charts.js resolves, so one figure is right in light and dark. Words come
from fixed lists and figures from the document: log text never enters a figure, because Plotly reads labels as HTML.

Beside Plotly's own keys a figure carries a few of ours, which charts.js takes out before it draws:

    annotation.kv   {"name", "gib", "axis", "span"}: words that follow the unit switch, left out where they do not fit
    annotation.only "wide" or "narrow": shown on that width only
    trace.pool      the pool of a horizontal bar, which gives it type, colour, pattern and outline
    trace.kv        {"name", "gib", "where", "anchor"}: what hover says, and the log line a click leads to
    figure.scale    {"opening", "bytes_per_token"}: what the unit switch divides by
    figure.narrow   layout that replaces parts of `layout` on a phone
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from reports import words
from reports.budget import Budget, Card, Share, split_at_boundary
from reports.document import line_refs
from reports.pools import POOLS
from reports.steps import Step

Figure = dict[str, Any]

_INSIDE = {"weights": "@on-weights", "kv": "@on-kv"}
_STRONG = {"size": 11.5, "weight": 600, "color": "@ink"}

# More bars than this are not read one by one: the odd ones stay, the rest is one bar.
MOST_BARS = 16


def _segment(pool: str, size: float, start: float, row: int, **more: Any) -> dict[str, Any]:
    """A bar in a pool's colour and pattern, which charts.js knows by the pool's name."""
    return {"pool": pool, "x": [round(size, 5)], "base": [round(start, 5)], "y": [row], **more}


def _note(x: float | str, y: float | str, text: str, **more: Any) -> dict[str, Any]:
    note: dict[str, Any] = {
        "x": x,
        "y": y,
        "text": text,
        "showarrow": False,
        "font": {"size": 11.5, "color": "@ink-2"},
        "xref": "x",
        "yref": "paper",
        "yanchor": "bottom",
    }
    return note | more


def _line(x0: float, x1: float, y0: float, y1: float, *, x: str = "x", y: str = "paper", **line: Any) -> dict[str, Any]:
    style = {"color": "@ink", "width": 2} | line
    return {"type": "line", "xref": x, "yref": y, "x0": x0, "x1": x1, "y0": y0, "y1": y1, "line": style}


def _where(share: Share) -> str:
    """How a figure is known: "printed, L231"."""
    marks = ", ".join(ref.label for ref in share.lines[:3])
    return ", ".join(part for part in (share.basis or "", marks) if part)


def _told(share: Share, prefix: str = "") -> dict[str, Any]:
    return {
        "name": f"{prefix}{share.name}",
        "gib": round(share.gib, 5),
        "where": _where(share),
        "anchor": share.lines[0].anchor if share.lines else None,
    }


def _ordered(card: Card) -> list[tuple[Share, float]]:
    """A card's shares with where each begins; what gave memory back moves the next one to the left."""
    inside, outside = split_at_boundary(card)
    placed, at = [], 0.0
    for share in (*inside, *outside):
        placed.append((share, at))
        at += share.gib
    return placed


def _reach(cards: Iterable[Card]) -> float:
    return max((max(card.capacity or 0.0, card.opening) for card in cards), default=1.0)


# --- One card: whole, and its tight end enlarged ----------------------------------------------------------------------


def memory_budget(budget: Budget) -> Figure | None:
    """The largest group's card as one bar, and below it the end where the reserve is spent. None without figures."""
    card = budget.main
    if card is None or not card.shares:
        return None
    placed = _ordered(card)
    end = _reach([card])
    zoom = _zoom(budget, card, placed, end)
    top, low = ((0.56, 0.80), (0.15, 0.36)) if zoom else ((0.28, 0.72), (0.0, 0.0))
    data, notes, shapes = [], [], []
    for share, start in placed:
        if share.gib <= 0:
            continue
        data.append(_segment(share.pool, share.gib, start, 0, kv=_told(share)))
        middle = (top[0] + top[1]) / 2
        if share.pool in _INSIDE or (share.pool == "free" and not zoom):
            font = {"size": 12, "weight": 600, "color": _INSIDE.get(share.pool, "@ink")}
            kv = {"name": POOLS[share.pool], "gib": share.gib, "axis": "x", "span": share.gib}
            notes.append(_note(start + share.gib / 2, middle, "", yanchor="middle", font=font, kv=kv))
        if not zoom:
            continue
        first, last = max(start, zoom[0]), min(start + share.gib, zoom[1])
        if last <= first:
            continue
        shown = _segment(share.pool, last - first, first - zoom[0], 0, kv=_told(share), xaxis="x2", yaxis="y2")
        data.append(shown)
        font = {"size": 11.5, "weight": 550, "color": "@ink"}
        kv = {"name": POOLS[share.pool], "gib": share.gib, "axis": "x2", "span": last - first}
        at = (first + last) / 2 - zoom[0]
        notes.append(_note(at, low[0] - 0.02, "", xref="x2", yanchor="top", font=font, kv=kv))
    if budget.boundary is not None:
        _draw_boundary(budget, end, top, notes, shapes)
    if card.capacity and card.capacity > card.opening + 0.01:
        box = {"type": "rect", "xref": "x", "yref": "paper", "x0": card.opening, "x1": card.capacity}
        shapes.append(box | {"y0": top[0], "y1": top[1], "line": {"color": "@line-2", "width": 1, "dash": "dot"}})
    if zoom:
        _draw_funnel(budget, zoom, end, top, low, notes, shapes)
    layout = {
        "height": 236 if zoom else 132,
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
    return {"data": data, "layout": layout, "scale": _scale(budget, card)}


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
    shapes.append(_line(boundary, boundary, top[0] - 0.02, top[1] + 0.075))
    right = boundary / end > 0.5
    anchor = {"xanchor": "right", "xshift": -4} if right else {"xanchor": "left", "xshift": 4}
    full = f"static budget ends at {words.gib(boundary)}"
    if budget.fraction is not None and budget.reserve is not None:
        full += f" = {words.fraction(budget.fraction)} × {words.gib(boundary + budget.reserve)}"
    font = {"size": 11.5, "color": "@ink"}
    notes.append(_note(boundary, top[1] + 0.07, full, only="wide", font=font, **anchor))
    short = f"static budget {words.gib(boundary)}"
    notes.append(_note(boundary, top[1] + 0.07, short, only="narrow", font=font, **anchor))
    if right and budget.reserve is not None and boundary / end < 0.9:
        text = f"reserve {words.gib(budget.reserve)}"
        notes.append(_note(boundary, top[1] + 0.07, text, only="wide", xanchor="left", xshift=5))


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
        shapes.append(_line(above, below, top[0], low[1], x="paper", color="@line-2", width=1))
    if budget.over is not None and budget.boundary is not None:
        over = words.gib(budget.over)
        long = f"From {zoom[0]:.0f} GiB on, enlarged: the weights end {over} GiB after the budget does"
        short = f"From {zoom[0]:.0f} GiB on, enlarged"
        for x, bounds, shift in (("x", top, 0.0), ("x2", low, zoom[0])):
            box = {"type": "rect", "xref": x, "yref": "paper", "y0": bounds[0], "y1": bounds[1]}
            span = {"x0": budget.boundary - shift, "x1": budget.boundary + budget.over - shift}
            shapes.append(box | span | {"line": {"color": "@critical", "width": 2}})
        at = budget.boundary - zoom[0]
        shapes.append(_line(at, at, low[0] - 0.02, low[1] + 0.03, x="x2"))
        middle = at + budget.over / 2
        kv = {"name": "over by", "gib": budget.over, "axis": "x2", "span": budget.over}
        font = {"size": 11.5, "color": "@on-weights"}
        notes.append(_note(middle, (low[0] + low[1]) / 2, "", xref="x2", yanchor="middle", font=font, kv=kv))
    elif budget.reserve is not None:
        long = f"The reserve, {words.gib(budget.reserve)} GiB, enlarged: what comes after the pool is paid from here"
        short = f"The reserve, {words.gib(budget.reserve)} GiB, enlarged"
    else:
        long = short = "What comes after the weights and the pool, enlarged"
    place = {"xref": "paper", "xanchor": "right", "xshift": -8}
    notes.append(_note(1, low[1] + 0.012, long, only="wide", **place))
    notes.append(_note(1, low[1] + 0.012, short, only="narrow", **place))


def _scale(budget: Budget, card: Card | None) -> dict[str, Any]:
    return {"opening": card.opening if card else None, "bytes_per_token": budget.bytes_per_token}


# --- Many cards on one scale ------------------------------------------------------------------------------------------


def memory_by_rank(budget: Budget, *, each: bool = False) -> Figure | None:
    """A bar for each group of alike ranks, or for each rank while there are few; free memory at the right."""
    cards = _bars(budget, each=each)
    if not cards:
        return None
    end = _reach(card for _, card in cards)
    names = [name for name, _ in cards]
    data, notes = [], []
    for row, (name, card) in enumerate(cards):
        for share, start in _ordered(card):
            if share.gib > 0:
                data.append(_segment(share.pool, share.gib, start, row, width=0.66, kv=_told(share, f"{name} · ")))
        if card.free is not None:
            place = {"xref": "paper", "yref": "y", "xanchor": "left", "xshift": 8, "yanchor": "middle"}
            notes.append(_note(1, row, "", font=_STRONG, kv={"name": "", "gib": card.free}, **place))
    notes.append(_note(1, 1, "free", xref="paper", xanchor="left", xshift=8))
    shapes = []
    if budget.boundary is not None:
        shapes.append(_line(budget.boundary, budget.boundary, 0, 1, width=1.5))
        text = f"static budget {words.gib(budget.boundary)}"
        notes.append(_note(budget.boundary, 1, text, xanchor="right", xshift=-4, font={"size": 11, "color": "@ink"}))
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
        "scale": _scale(budget, budget.main) | {"axis": "x"},
    }


def _bars(budget: Budget, *, each: bool) -> list[tuple[str, Card]]:
    if each and budget.ranks <= MOST_BARS:
        return sorted(((card.name, card) for card in budget.every), key=_natural)
    cards = list(budget.cards)
    bars = [(_bar_name(card), card) for card in cards[: MOST_BARS - 1]]
    rest = cards[MOST_BARS - 1 :]
    if rest:
        middle = rest[len(rest) // 2]
        bars.append((f"{sum(card.count for card in rest)} others, as {middle.ranks[0]}", middle))
    return bars[1:] + bars[:1] if len(bars) > 1 else bars


def _bar_name(card: Card) -> str:
    if card.count == 1:
        return card.name
    name = card.name if len(card.name) <= 16 else f"{card.ranks[0] or 'GPU'} and others"
    return f"{name} × {card.count}"


def _natural(bar: tuple[str, Card]) -> tuple[Any, ...]:
    """TP2 before TP10, node0 before node1."""
    parts, digits = [], ""
    for letter in bar[0] + " ":
        if letter.isdigit():
            digits += letter
            continue
        if digits:
            parts.append((0, int(digits), ""))
            digits = ""
        parts.append((1, 0, letter))
    return tuple(parts)


# --- Free memory step by step -----------------------------------------------------------------------------------------


def waterfall(steps: Sequence[Step]) -> Figure | None:
    """Free memory after each step of the start, with the seconds it took beside it. None with fewer than two steps."""
    if len(steps) < 2 or steps[0].free is None:
        return None
    opening = steps[0].free
    # The axis is cut where the weights end, so that all that comes after them can be seen.
    at = next((index for index, step in enumerate(steps) if step.pool == "weights"), None)
    rest = [step.free for step in steps[at or 1 :] if step.free is not None]
    cut = _round_up(max(rest) * 1.08) if rest and 0 < max(rest) < 0.6 * opening else None
    views = (
        {"zoom": _waterfall(steps, opening, cut), "all": _waterfall(steps, opening, None)}
        if cut
        else {"all": _waterfall(steps, opening, None)}
    )
    first = next(iter(views.values()))
    return first | {"views": views} if len(views) > 1 else first


def _round_up(value: float) -> float:
    step = 10 if value >= 100 else 2 if value >= 10 else 0.5
    return float(-(-value // step) * step)


def _waterfall(steps: Sequence[Step], opening: float, cut: float | None) -> Figure:
    most = cut if cut else opening * 1.04
    data, notes, shapes = [], [], []
    longest = max((step.seconds or 0.0 for step in steps), default=0.0)
    timed = longest > 0
    width = 0.72 if timed else 1.0
    free = opening
    for row, step in enumerate(steps):
        start, size = (0.0, step.free or 0.0) if step.total else (free - step.gib, step.gib)
        if not step.total:
            free -= step.gib
        drawn = min(start + size, most * 1.2) - start
        kv = {"name": step.name, "gib": -step.gib if not step.total else size, "where": _step_words(step, free)}
        kv["anchor"] = step.lines[0].anchor if step.lines else None
        left, length = (start, drawn) if size >= 0 else (start + drawn, -drawn)
        data.append(_segment(step.pool, max(length, 0.0), left, row, width=0.62, kv=kv))
        label = words.gib(size) if step.total else words.gib(-step.gib)
        place = {"yref": "y", "yanchor": "middle", "font": _STRONG}
        if start + size > most:
            if (most - start) / most < 0.16:
                notes.append(_note(start, row, f"{label}  ▸", xanchor="right", xshift=-6, **place))
            else:
                colour = _INSIDE.get(step.pool, "@ink")
                place["font"] = {"size": 11.5, "weight": 600, "color": colour}
                notes.append(_note(most, row, f"{label}  ▸", xanchor="right", xshift=-6, **place))
        elif (start + size) / most > 0.84 and start > 0.14 * most:
            notes.append(_note(left, row, label, xanchor="right", xshift=-6, **place))
        elif (start + size) / most > 0.84:
            notes.append(_note(left + length, row, label, xanchor="right", xshift=-6, **place))
        else:
            notes.append(_note(left + length, row, label, xanchor="left", xshift=6, **place))
        if row < len(steps) - 1 and free <= most:
            shapes.append(_line(free, free, row + 0.31, row + 0.69, y="y", color="@control", width=1))
        if step.seconds and timed:
            bar = {"type": "bar", "orientation": "h", "x": [step.seconds], "y": [row], "width": 0.36, "xaxis": "x2"}
            data.append(
                bar | {"marker": {"color": "@ink-2"}, "kv": {"name": step.name, "text": step.time}, "only": "wide"}
            )
            beside = {"xref": "x2", "xanchor": "left", "xshift": 6}
            notes.append(_note(step.seconds, row, step.time, only="wide", yref="y", yanchor="middle", **beside))
    head = f"free memory, GiB (cut at {most:g})" if cut else "free memory, GiB"
    notes.append(_note(0, 1, head, xanchor="left", yshift=3))
    if timed:
        notes.append(_note(0, 1, "time", only="wide", xref="x2", xanchor="left", yshift=3))
    axis = {"range": [0, most], "domain": [0, width], "nticks": 9}
    return {
        "data": data,
        "layout": {
            "height": 56 + 33 * len(steps),
            "barmode": "overlay",
            "margin": {"l": 158, "r": 4, "t": 24, "b": 24},
            "xaxis": axis,
            "xaxis2": {"range": [0, (longest or 1.0) * 1.6], "domain": [0.77, 1], "visible": False, "anchor": "y"},
            "yaxis": {
                "range": [len(steps) - 0.5, -0.5],
                "tickvals": list(range(len(steps))),
                "ticktext": [step.name for step in steps],
                "showgrid": False,
                "ticklabelstandoff": 10,
                "tickfont": {"size": 12, "color": "@ink"},
            },
            "annotations": notes,
            "shapes": shapes,
        },
        "narrow": {
            "margin": {"l": 116, "r": 4, "t": 24, "b": 24},
            "xaxis": axis | {"domain": [0, 1], "nticks": 5},
        },
    }


def _step_words(step: Step, free: float) -> str:
    marks = ", ".join(ref.label for ref in step.lines[:2])
    after = "" if step.total else f"{words.gib(free)} GiB free afterwards"
    return ", ".join(part for part in (after, marks) if part)


# --- Serving ----------------------------------------------------------------------------------------------------------

_SERIES = (
    ("usage", "Use of the pool, per cent", "@pool-kv", 100.0),
    ("running", "Running requests", "@ink-2", 1.0),
    ("queued", "Queued requests", "@warning", 1.0),
    ("throughput", "Generated tokens per second", "@pool-state", 1.0),
)

# More points than this are not seen on any screen; every n-th is drawn, and the peaks stand in the table.
MOST_POINTS = 1500


def serving(points: Sequence[dict[str, Any]]) -> Figure | None:
    """Use of the pool, running and queued requests and throughput over the batch lines. None with fewer than two."""
    every = max(1, -(-len(points) // MOST_POINTS))
    points = points[::every]
    shown = [entry for entry in _SERIES if any(isinstance(point.get(entry[0]), (int, float)) for point in points)]
    if not shown or len(points) < 2:
        return None
    timed = all(isinstance(point.get("at"), str) for point in points)
    refs = [line_refs(point.get("line")) for point in points]
    x = [point["at"] for point in points] if timed else [ref[0].line if ref else n for n, ref in enumerate(refs)]
    data, layout, notes = [], {}, []
    gap = 0.07
    share = (1 - gap * (len(shown) - 1)) / len(shown)
    for row, (key, name, colour, scale) in enumerate(shown):
        values = [
            round(point[key] * scale, 3) if isinstance(point.get(key), (int, float)) else None for point in points
        ]
        axis = "" if row == 0 else str(row + 1)
        top = 1 - row * (share + gap)
        line = {"color": colour, "width": 1.5, "shape": "linear"}
        trace = {"type": "scatter", "mode": "lines", "x": x, "y": values, "yaxis": f"y{axis}", "line": line}
        data.append(trace | {"connectgaps": True, "kv": {"name": name, "series": True}})
        layout[f"yaxis{axis}"] = {
            "domain": [round(max(0.0, top - share), 4), round(top, 4)],
            "nticks": 3,
            "rangemode": "tozero",
        }
        font = {"size": 11, "color": "@ink-3"}
        notes.append(_note(0, top, name, xref="paper", xanchor="left", yanchor="bottom", font=font))
    return {
        "data": data,
        "layout": layout
        | {
            "height": 64 + 92 * len(shown),
            "margin": {"l": 48, "r": 8, "t": 20, "b": 42},
            "xaxis": {"anchor": f"y{len(shown)}" if len(shown) > 1 else "y", "showgrid": False}
            | ({"type": "date"} if timed else {"tickprefix": "L"}),
            "annotations": notes,
            "shapes": [],
        },
    }


# --- What if ----------------------------------------------------------------------------------------------------------


def scenario(
    observed: Card,
    changed: Card | None,
    boundaries: tuple[float | None, float | None],
    fractions: tuple[float | None, float | None],
) -> Figure:
    """The observed card, pale and thin, above the changed one, on one scale. An impossible change has no bar."""
    data, notes, shapes = [], [], []
    for row, card in enumerate((observed, changed)):
        name = ("Observed", "What if")[row]
        for share, start in _ordered(card) if card else ():
            if share.gib <= 0:
                continue
            bar = _segment(share.pool, share.gib, start, row, width=0.74 if row else 0.4, opacity=1 if row else 0.62)
            data.append(bar | {"kv": {"name": f"{name} · {share.name}", "gib": round(share.gib, 4)}})
        fraction = fractions[row]
        text = f"{name}, {words.fraction(fraction)}" if fraction is not None else name
        if card is None:
            text = f"{text}: does not start"
        font = {"size": 11.5, "color": "@ink" if row else "@ink-3"}
        place = {"yref": "y", "xanchor": "left", "yanchor": "bottom", "yshift": 27 if row else 16}
        notes.append(_note(0, row, text, font=font, **place))
        boundary = boundaries[row]
        if boundary is not None:
            shapes.append(_line(boundary, boundary, row - 0.44, row + 0.44, y="y", width=2 if row else 1))
    end = _reach([observed])
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


# --- Launches beside each other ---------------------------------------------------------------------------------------


def budgets_compared(columns: Sequence[tuple[str, str, Budget]]) -> Figure | None:
    """The main card of each launch on one scale, its boundary drawn. `columns` are (letter, words, budget)."""
    shown = [(letter, text, budget) for letter, text, budget in columns if budget.main]
    if not shown:
        return None
    end = _reach(budget.main for _, _, budget in shown if budget.main)
    data, notes, shapes = [], [], []
    for row, (letter, text, budget) in enumerate(shown):
        card = budget.main
        assert card is not None
        for share, start in _ordered(card):
            if share.gib <= 0:
                continue
            data.append(_segment(share.pool, share.gib, start, row, width=0.5, kv=_told(share, f"{letter} · ")))
            if share.pool in ("weights", "kv", "free"):
                font = {"size": 11.5, "weight": 600, "color": _INSIDE.get(share.pool, "@ink")}
                kv = {"name": POOLS[share.pool], "gib": share.gib, "axis": "x", "span": share.gib}
                notes.append(_note(start + share.gib / 2, row, "", yref="y", yanchor="middle", font=font, kv=kv))
        font = {"size": 11.5, "weight": 550, "color": "@ink"}
        place = {"yref": "y", "xanchor": "left", "yanchor": "bottom", "yshift": 17}
        notes.append(_note(0, row, f"{letter}: {text}", font=font, **place))
        if budget.boundary is not None:
            shapes.append(_line(budget.boundary, budget.boundary, row - 0.34, row + 0.34, y="y"))
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
    """From one free figure to another: a bar for each change that moved memory. `moves` are (name, pool, GiB taken)."""
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
        data.append(_segment(pool, length, start, row, width=0.6, kv={"name": name, "text": f"{label} GiB"}))
        place = {"yref": "y", "xanchor": "left", "xshift": 6, "yanchor": "middle", "font": _STRONG}
        notes.append(_note(start + length, row, label, **place))
        if 0 < row < len(rows) - 1:
            running -= moves[row - 1][2]
        if row < len(rows) - 1:
            shapes.append(_line(running, running, row + 0.3, row + 0.7, y="y", color="@control", width=1))
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
