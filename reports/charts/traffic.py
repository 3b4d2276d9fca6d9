"""Serving: use of the pool, requests and throughput over the batch lines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import Any

from reports.charts.parts import Figure, note
from reports.document import line_refs

_SERIES = (
    ("usage", "Use of the pool, per cent", "@pool-kv", 100.0),
    ("running", "Running requests", "@ink-2", 1.0),
    ("queued", "Queued requests", "@warning", 1.0),
    ("throughput", "Generated tokens per second", "@pool-state", 1.0),
)
_COUNTS = ("running", "queued")  # whole, and as they were until the next line says otherwise

# A pause this many times the usual distance of two lines, and this long in seconds, is no course of anything: the
# server printed nothing, as it does without requests.
_PAUSE, _PAUSE_S = 6.0, 5.0


# More points than this are not seen on any screen; every n-th is drawn, and the peaks stand in the table.
MOST_POINTS = 1500


def serving(points: Sequence[dict[str, Any]]) -> Figure | None:
    """Use of the pool, running and queued requests and throughput over the batch lines. None with fewer than two."""
    every = max(1, -(-len(points) // MOST_POINTS))
    points = points[::every]
    shown = [entry for entry in _SERIES if any(isinstance(point.get(entry[0]), (int, float)) for point in points)]
    if not shown or len(points) < 2:
        return None
    moments = [_moment(point.get("at")) for point in points]
    timed = all(moment is not None for moment in moments)
    refs = [line_refs(point.get("line")) for point in points]
    x = [point["at"] for point in points] if timed else [ref[0].line if ref else n for n, ref in enumerate(refs)]
    data, layout, notes = [], {}, []
    gap = 0.07
    share = (1 - gap * (len(shown) - 1)) / len(shown)
    for row, (key, name, colour, scale) in enumerate(shown):
        known = [n for n, point in enumerate(points) if isinstance(point.get(key), (int, float))]
        runs = _runs(known, moments) if timed else [known]
        axis = "" if row == 0 else str(row + 1)
        top = 1 - row * (share + gap)
        shape = "hv" if key in _COUNTS else "linear"
        trace = {"type": "scatter", "mode": "lines+markers", "yaxis": f"y{axis}"}
        trace |= {"line": {"color": colour, "width": 1.5, "shape": shape}, "connectgaps": False}
        trace |= {"x": [], "y": [], "kv": {"name": name, "series": True}}
        sizes = []
        for run in runs:
            if sizes:  # nothing between two runs
                trace["x"].append(trace["x"][-1])
                trace["y"].append(None)
                sizes.append(0)
            trace["x"] += [x[n] for n in run]
            trace["y"] += [round(points[n][key] * scale, 3) for n in run]
            sizes += [4 if len(run) == 1 else 0] * len(run)  # a single one makes no line
        data.append(trace | {"marker": {"color": colour, "size": sizes, "line": {"width": 0}}})
        layout[f"yaxis{axis}"] = {
            "domain": [round(max(0.0, top - share), 4), round(top, 4)],
            "nticks": 3,
            "rangemode": "tozero",
            "zeroline": True,
        }
        if key in _COUNTS:
            most = max(value for value in trace["y"] if value is not None)
            layout[f"yaxis{axis}"] |= {"dtick": _whole_step(most), "tick0": 0}
            if not most:
                layout[f"yaxis{axis}"]["range"] = [0, 1]
        font = {"size": 11, "color": "@ink-3"}
        notes.append(note(0, top, name, xref="paper", xanchor="left", yanchor="bottom", font=font))
    along = {"anchor": f"y{len(shown)}" if len(shown) > 1 else "y", "showgrid": False, "tickangle": 0} | (
        {"type": "date"} if timed else {"tickprefix": "L"}
    )
    return {
        "data": data,
        "layout": layout
        | {
            "height": 64 + 92 * len(shown),
            "margin": {"l": 48, "r": 8, "t": 20, "b": 42},
            "xaxis": along | {"nticks": 10},
            "annotations": notes,
            "shapes": [],
        },
        "narrow": {"xaxis": along | {"nticks": 4}},
    }


def _moment(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None) if isinstance(text, str) else None
    except ValueError:
        return None


def _runs(known: list[int], moments: Sequence[datetime | None]) -> list[list[int]]:
    """The points of a series, parted where the log pauses."""

    def apart(one: int, other: int) -> float:
        before, after = moments[one], moments[other]
        return (after - before).total_seconds() if before and after else 0.0

    steps = [apart(one, other) for one, other in pairwise(known)]
    pause = max(_PAUSE * median(steps), _PAUSE_S) if steps else 0.0
    runs = [known[:1]]
    for step, point in zip(steps, known[1:], strict=True):
        if step > pause:
            runs.append([])
        runs[-1].append(point)
    return runs


def _whole_step(most: float) -> int:
    """The distance of two ticks of a count: whole, and about two up to its height."""
    rough = max(1.0, most / 2)
    power = 10 ** math.floor(math.log10(rough))
    return int(next(power * by for by in (1, 2, 5, 10) if power * by >= rough))
