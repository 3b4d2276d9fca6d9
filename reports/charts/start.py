"""Free memory step by step, and the time each step took."""

from __future__ import annotations

from collections.abc import Sequence

from reports import words
from reports.charts.parts import INSIDE, STRONG, Figure, line, note, segment
from reports.steps import Step


def waterfall(steps: Sequence[Step]) -> Figure | None:
    """Free memory after each step of the start, with the seconds it took beside it. None without a step."""
    if all(step.total for step in steps) or steps[0].free is None:
        return None  # one reading, shown as the first and as the last
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
    most = cut or opening * 1.04 or 1.0  # a first reading of 0.00 GB has no extent
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
        data.append(segment(step.pool, max(length, 0.0), left, row, width=0.62, kv=kv))
        label = words.gib(size) if step.total else words.gib(-step.gib)
        place = {"yref": "y", "yanchor": "middle", "font": STRONG}
        if start + size > most:
            if (most - start) / most < 0.16:
                notes.append(note(start, row, f"{label}  ▸", xanchor="right", xshift=-6, **place))
            else:
                colour = INSIDE.get(step.pool, "@ink")
                place["font"] = {"size": 11.5, "weight": 600, "color": colour}
                notes.append(note(most, row, f"{label}  ▸", xanchor="right", xshift=-6, **place))
        elif (start + size) / most > 0.84 and start > 0.14 * most:
            notes.append(note(left, row, label, xanchor="right", xshift=-6, **place))
        elif (start + size) / most > 0.84:
            notes.append(note(left + length, row, label, xanchor="right", xshift=-6, **place))
        else:
            notes.append(note(left + length, row, label, xanchor="left", xshift=6, **place))
        if row < len(steps) - 1 and free <= most:
            shapes.append(line(free, free, row + 0.31, row + 0.69, y="y", color="@control", width=1))
        if step.seconds and timed:
            bar = {"type": "bar", "orientation": "h", "x": [step.seconds], "y": [row], "width": 0.36, "xaxis": "x2"}
            data.append(
                bar | {"marker": {"color": "@ink-2"}, "kv": {"name": step.name, "text": step.time}, "only": "wide"}
            )
            beside = {"xref": "x2", "xanchor": "left", "xshift": 6}
            notes.append(note(step.seconds, row, step.time, only="wide", yref="y", yanchor="middle", **beside))
    head = f"free memory, GiB (cut at {most:g})" if cut else "free memory, GiB"
    notes.append(note(0, 1, head, xanchor="left", yshift=3))
    if timed:
        notes.append(note(0, 1, "time", only="wide", xref="x2", xanchor="left", yshift=3))
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
