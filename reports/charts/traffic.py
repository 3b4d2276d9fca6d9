"""Serving: use of the pool, requests and throughput over the batch lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reports.charts.parts import Figure, note
from reports.document import line_refs

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
