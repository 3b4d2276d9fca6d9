"""Plotly figures of ours as still SVG: for the offline file, which carries no Plotly, and for pages without a script.

Knows what reports/charts/ makes: horizontal bars, lines, straight shapes and words. Colours stay names, as classes'
custom properties, so that the drawing follows light and dark.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils.html import conditional_escape

from reports import words
from reports.charts import Figure

WIDTH = 1000

# What an average letter takes of its font size; words that might not fit are left out.
_LETTER = 0.56
# The patterns of pools, as in charts.js: dots, diagonals, uprights, levels, and the ink hatch of the unexplained.
_PATTERNS = {
    "state": '<circle cx="2" cy="2" r="1"/>',
    "draft": '<path d="M0 5L5 0"/>',
    "graphs": '<path d="M2.5 0V5"/>',
    "work": '<path d="M0 2.5H5"/>',
    "unexplained": '<path d="M0 0L5 5"/>',
}


def still(figure: Figure, spoken: str = "") -> str:
    """The figure as one SVG element of 1000 units' width. `spoken` is its text for who does not see it; without it
    the drawing is decoration within an element that has the words, as tall as the live chart that takes its place."""
    layout = figure["layout"]
    height = layout.get("height", 220)
    margin = {"l": 8, "r": 8, "t": 8, "b": 28} | layout.get("margin", {})
    box = _Box(layout, WIDTH - margin["l"] - margin["r"], height - margin["t"] - margin["b"], margin)
    drawn = [_defs(figure)]
    drawn += _axes(layout, box)
    span = _span(figure)
    for trace in figure["data"]:
        if trace.get("only") != "narrow":
            drawn += _path(trace, box, span) if trace.get("type") == "scatter" else _bar(trace, box)
    drawn += [_shape(shape, box) for shape in layout.get("shapes", ())]
    drawn += [_words(note, box) for note in layout.get("annotations", ()) if note.get("only") != "narrow"]
    told = (
        f'role="img" aria-label="{conditional_escape(spoken)}"' if spoken else f'aria-hidden="true" height="{height}"'
    )
    kind = "still" if spoken else "still still--inside"
    return f'<svg class="{kind}" viewBox="0 0 {WIDTH} {height}" {told}>{"".join(drawn)}</svg>'


class _Box:
    """Where values of an axis lie on the drawing."""

    def __init__(self, layout: dict[str, Any], width: float, height: float, margin: dict[str, float]) -> None:
        self.layout, self.width, self.height, self.margin = layout, width, height, margin

    def axis(self, name: str) -> dict[str, Any]:
        return self.layout.get(f"{name[0]}axis{name[1:]}") or {}

    def x(self, value: float, ref: str = "x") -> float:
        if ref == "paper":
            return self.margin["l"] + value * self.width
        return self.margin["l"] + self.width * self._share(value, ref)

    def y(self, value: float, ref: str = "y") -> float:
        if ref == "paper":
            return self.margin["t"] + (1 - value) * self.height
        return self.margin["t"] + self.height * (1 - self._share(value, ref))

    def _share(self, value: float, ref: str) -> float:
        """How far along the drawing; on an axis without extent, of figures that are all zero, at its start."""
        axis = self.axis(ref)
        low, high = axis.get("range") or (0, 1)
        start, end = axis.get("domain") or (0, 1)
        return float(start + (end - start) * ((value - low) / (high - low) if high != low else 0.0))


def _defs(figure: Figure) -> str:
    pools = dict.fromkeys(trace.get("pool") for trace in figure["data"])
    patterns = [
        f'<pattern id="still-{pool}" class="still__pattern still__pattern--{pool}" width="5" height="5" '
        f'patternUnits="userSpaceOnUse">{_PATTERNS[pool]}</pattern>'
        for pool in pools
        if pool in _PATTERNS
    ]
    return f"<defs>{''.join(patterns)}</defs>" if patterns else ""


def _bar(trace: dict[str, Any], box: _Box) -> list[str]:
    xref, yref = trace.get("xaxis", "x"), trace.get("yaxis", "y")
    pool = trace.get("pool")
    fill = {None: "ink-2", "unexplained": "surface"}.get(pool, f"pool-{pool}")
    line = {None: "surface", "free": "pool-free-line", "unexplained": "pool-unexplained"}.get(pool, "surface")
    drawn = []
    for size, start, row in zip(trace["x"], trace.get("base") or [0] * len(trace["x"]), trace["y"], strict=False):
        half = trace.get("width", 1) / 2
        left, right = box.x(start, xref), box.x(start + size, xref)
        edge = box.x((box.axis(xref).get("range") or (0, 1))[1], xref)
        left, right = min(left, edge), min(right, edge)
        top, bottom = sorted((box.y(row - half, yref), box.y(row + half, yref)))
        shape = f'x="{left:.1f}" y="{top:.1f}" width="{max(0.0, right - left):.1f}" height="{bottom - top:.1f}"'
        pale = f' opacity="{trace["opacity"]}"' if "opacity" in trace else ""
        told = trace.get("kv") or {}
        title = ""
        if told.get("gib") is not None:
            title = f"<title>{conditional_escape(told['name'])} {words.gib(told['gib'])} GiB</title>"
        drawn.append(f'<rect class="f-{fill} s-{line}" {shape}{pale}>{title}</rect>')
        if pool in _PATTERNS:
            drawn.append(f'<rect fill="url(#still-{pool})" {shape}{pale} pointer-events="none"/>')
    return drawn


def _place(value: Any) -> float:
    """A moment or a line number along a series' axis."""
    return datetime.fromisoformat(value).replace(tzinfo=None).timestamp() if isinstance(value, str) else float(value)


def _span(figure: Figure) -> tuple[float, float]:
    """From where to where the series of a figure reach."""
    places = [
        _place(trace["x"][end])
        for trace in figure["data"]
        if trace.get("type") == "scatter" and trace["x"]
        for end in (0, -1)
    ]
    return (min(places), max(places)) if places else (0.0, 1.0)


def _path(trace: dict[str, Any], box: _Box, span: tuple[float, float]) -> list[str]:
    """A line over its points, broken where a value is missing; the axes of a series carry no range, so it is taken
    from the values."""
    values = [value for value in trace["y"] if value is not None]
    yref = trace.get("yaxis", "y")
    start, end = box.axis(yref).get("domain") or (0, 1)
    most = max(values, default=0) or 1
    is_step = trace["line"].get("shape") == "hv"
    runs: list[list[tuple[float, float]]] = [[]]
    for place, value in zip(trace["x"], trace["y"], strict=True):
        if value is None:
            runs.append([])
            continue
        x = box.margin["l"] + box.width * (_place(place) - span[0]) / ((span[1] - span[0]) or 1.0)
        y = box.margin["t"] + box.height * (1 - (start + (end - start) * 0.86 * value / most))
        if is_step and runs[-1]:
            runs[-1].append((x, runs[-1][-1][1]))
        runs[-1].append((x, y))
    colour = str(trace["line"]["color"])[1:]
    drawn = []
    for run in runs:
        if len(run) == 1:
            drawn.append(f'<circle class="f-{colour}" cx="{run[0][0]:.1f}" cy="{run[0][1]:.1f}" r="2"/>')
        elif run:
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in run)
            drawn.append(f'<polyline class="s-{colour} still__line" points="{points}"/>')
    return drawn


def _axes(layout: dict[str, Any], box: _Box) -> list[str]:
    drawn = []
    axis = layout.get("xaxis") or {}
    if axis.get("range") and axis.get("visible") is not False:
        foot = box.margin["t"] + box.height
        for value in _ticks(*axis["range"], axis.get("nticks", 6)):
            x = box.x(value)
            drawn.append(f'<path class="s-line" d="M{x:.1f} {box.margin["t"]}V{foot:.1f}"/>')
            drawn.append(
                f'<text class="still__tick" x="{x:.1f}" y="{foot + 16:.1f}" text-anchor="middle">{value:g}</text>'
            )
    rows = layout.get("yaxis") or {}
    for row, text in zip(rows.get("tickvals") or (), rows.get("ticktext") or (), strict=False):
        place = f'x="{box.margin["l"] - 10:.1f}" y="{box.y(row) + 4:.1f}" text-anchor="end"'
        drawn.append(f'<text class="still__row" {place}>{conditional_escape(text)}</text>')
    return drawn


def _ticks(low: float, high: float, most: int) -> list[float]:
    rough = (high - low) / max(1, most)
    power = 10 ** (len(str(int(rough))) - 1) if rough >= 1 else 0.1
    step = next((power * by for by in (1, 2, 5, 10) if power * by >= rough), power * 10)
    count = int((high - low) / step + 1e-9)
    return [round(low + n * step, 6) for n in range(count + 1)]


def _shape(shape: dict[str, Any], box: _Box) -> str:
    if shape["type"] == "path":
        points = [float(part) for part in shape["path"].replace("M", "").replace("L", "").replace("Z", "").split()]
        pairs = [
            f"{box.x(points[n], 'paper'):.1f},{box.y(points[n + 1], 'paper'):.1f}" for n in range(0, len(points), 2)
        ]
        return f'<polygon class="f-{str(shape["fillcolor"])[1:]}" points="{" ".join(pairs)}"/>'
    x0, x1 = box.x(shape["x0"], shape["xref"]), box.x(shape["x1"], shape["xref"])
    y0, y1 = box.y(shape["y0"], shape["yref"]), box.y(shape["y1"], shape["yref"])
    line = shape["line"]
    dashed = ' stroke-dasharray="3 3"' if line.get("dash") else ""
    kind = f'class="s-{str(line["color"])[1:]} still__hollow" stroke-width="{line.get("width", 1)}"{dashed}'
    if shape["type"] == "rect":
        top, bottom = sorted((y0, y1))
        return f'<rect {kind} x="{x0:.1f}" y="{top:.1f}" width="{x1 - x0:.1f}" height="{bottom - top:.1f}"/>'
    return f'<path {kind} d="M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}"/>'


def _words(note: dict[str, Any], box: _Box) -> str:
    font = note.get("font") or {}
    size = font.get("size", 11.5)
    text = note["text"]
    kv = note.get("kv")
    if kv:
        room = float("inf")
        if kv.get("span") is not None:
            room = box.x(kv["span"], kv["axis"]) - box.x(0, kv["axis"]) - 6
        long = f"{kv['name']} {words.gib(kv['gib'])}".strip()
        text = next((said for said in (long, words.gib(kv["gib"])) if len(said) * size * _LETTER <= room), "")
        if not text:
            return ""
    anchor = {"left": "start", "right": "end"}.get(note.get("xanchor", "center"), "middle")
    x = box.x(note["x"], note.get("xref", "x")) + note.get("xshift", 0)
    y = box.y(note["y"], note.get("yref", "paper")) - note.get("yshift", 0)
    y += {"bottom": -4, "middle": size * 0.36, "top": size}.get(note.get("yanchor", "middle"), 0)
    weight = f' font-weight="{font["weight"]}"' if font.get("weight") else ""
    kind = f'class="f-{str(font.get("color", "@ink-2"))[1:]}" font-size="{size}"{weight}'
    return f'<text {kind} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{conditional_escape(text)}</text>'
