"""A deployment's launches as small drawings by the server: figures over time, and budgets side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from ingest.models import StoredReport
from kvdiag.diagnosis.endings import came_up
from reports import words
from reports.deployments_changes import launch_of
from reports.document import listed
from reports.pools import POOLS, pool_of

_LETTER_SHARE = 0.7  # per cent of the width that a letter of a mark's words takes
LEFT, RIGHT = 7.0, 98.0  # per cent of the width that the times span; the scale's words stand on the left
EDGE = 92.0  # right of it a date has no room on both of its sides


@dataclass(frozen=True, slots=True)
class Tick:
    """A height with its word."""

    y: float
    word: str


@dataclass(frozen=True, slots=True)
class Day:
    """A date below the drawing: per cent across, and which part of its word stands there."""

    x: float
    word: str
    place: str = "middle"


@dataclass(frozen=True, slots=True)
class Dot:
    """One launch: per cent across, pixels down, and what it says when asked."""

    x: float
    y: float
    word: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One figure over time as a step line. `dots` are the starts that came up, `failed` those that did not."""

    title: str
    kind: str
    height: int
    line: str
    dots: tuple[Dot, ...]
    ticks: tuple[Tick, ...]
    baseline: Tick | None = None
    failed: tuple[Dot, ...] = ()

    @property
    def count(self) -> int:
        return len(self.dots) + len(self.failed)


@dataclass(frozen=True, slots=True)
class Mark:
    """Where release, driver, image or flags changed. Its words stand on the side that has the room."""

    x: float
    word: str

    @property
    def is_left(self) -> bool:
        return self.x > 60


@dataclass(frozen=True, slots=True)
class History:
    """All panels on one time axis."""

    panels: tuple[Panel, ...]
    marks: tuple[Mark, ...]
    days: tuple[Day, ...]


def history(
    reports: Sequence[StoredReport], marks: dict[int, list[str]], baseline: StoredReport | None
) -> History | None:
    """The drawing of some launches, newest first; None for fewer than two, which make no line.

    marks  what each changed, by the key of its report
    """
    launches = list(reversed(reports))
    if len(launches) < 2:
        return None
    places = _places([each.upload.created_at for each in launches])
    figures: list[tuple[str, str, int, Callable[[StoredReport], Any], Callable[[Any], str]]] = [
        ("KV cache tokens", "kv", 160, lambda each: each.kv_tokens, words.tokens),
        ("Free after start, GiB", "free", 64, _free_after_start, words.gib),
        ("Weights, GiB", "weights", 48, lambda each: each.weights_gib, words.gib),
        ("From start to ready", "time", 48, lambda each: each.ready_after_s, words.duration),
    ]
    panels = []
    for title, kind, height, of, say in figures:
        pinned = of(baseline) if baseline is not None else None
        panel = _panel(title, kind, height, launches, places, [of(each) for each in launches], say, pinned)
        if panel is not None:
            panels.append(panel)
    changed = [
        Mark(place, shortened([str(each) for each in told]))
        for place, report in zip(places, launches, strict=True)
        if (told := marks.get(report.pk))
    ]
    return History(tuple(panels), _apart(changed), _days(launches, places))


def _free_after_start(report: StoredReport) -> float | None:
    """Free memory, GiB, of a start that came up; older rows may hold what a failed start had left."""
    if report.outcome == "failed" and report.ready_after_s is None:
        return None
    return report.free_gib


def _places(moments: list[datetime]) -> list[float]:
    first, last = moments[0], moments[-1]
    span = (last - first).total_seconds() or 1.0
    return [round(LEFT + (RIGHT - LEFT) * (each - first).total_seconds() / span, 2) for each in moments]


def _panel(
    title: str,
    kind: str,
    height: int,
    launches: list[StoredReport],
    places: list[float],
    values: list[Any],
    say: Callable[[Any], str],
    pinned: Any,
) -> Panel | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    top = max([*known, pinned or 0]) * 1.12 or 1.0
    bottom = height - 4.0

    def y(value: float) -> float:
        return round(bottom - (bottom - 14) * value / top, 1)

    dots, line, failed = [], "", []
    for x, value, report in zip(places, values, launches, strict=True):
        if report.outcome == "failed" and (report.ready_after_s is None or value is None):
            # It held nothing: a cross where it got to, and the line goes on as it was.
            if value is not None or kind in ("kv", "free"):
                said = f"failed, {say(value)}" if value is not None else "failed"
                at = y(value) if value is not None else bottom - 8
                failed.append(Dot(x, at, f"{report.upload.created_at:%-d %b, %H:%M}: {said}"))
            continue
        if value is None:
            continue
        ended = ", died while serving" if report.outcome == "failed" else ""
        word = f"{report.upload.created_at:%-d %b, %H:%M}: {say(value)}{ended}"
        dots.append(Dot(x, y(value), word))
        line += f"H{x} V{y(value)}" if line else f"M{x} {y(value)}"
    ticks = (Tick(y(max(known)), say(max(known))), Tick(bottom, "0"))
    base = Tick(y(pinned), f"pinned baseline {say(pinned)}") if pinned is not None else None
    return Panel(title, kind, height, line, tuple(dots), ticks, base, tuple(failed))


def shortened(told: list[str], most: int = 44) -> str:
    """Changes as the words of a mark: whole ones as far as there is room, and how many more there are."""
    shown = told[0] if len(told[0]) <= most else told[0][: most - 1].rstrip() + "…"
    for count, each in enumerate(told[1:], start=1):
        if len(shown) + len(each) + 2 > most:
            return f"{shown} and {len(told) - count} more"
        shown += f", {each}"
    return shown


def _apart(marks: list[Mark], least: float = 12.0) -> tuple[Mark, ...]:
    """Marks whose words would lie on each other keep their line and lose the word; the table has all of them."""
    shown: list[Mark] = []
    last = -least
    for mark in marks:
        start = mark.x - _LETTER_SHARE * len(mark.word) if mark.is_left else mark.x
        if start - last >= (0 if mark.is_left else least):
            shown.append(mark)
            last = mark.x if mark.is_left else mark.x + _LETTER_SHARE * len(mark.word) - least
        else:
            shown.append(Mark(mark.x, ""))
    return tuple(shown)


def _days(launches: list[StoredReport], places: list[float]) -> tuple[Day, ...]:
    """The dates below: first, last, and those between that have room. One near the right edge ends there."""
    days = [Day(x, f"{each.upload.created_at:%-d %b}") for x, each in zip(places, launches, strict=True)]
    shown = [days[0]]
    for day in days[1:-1]:
        if day.x - shown[-1].x >= 12 and RIGHT - day.x >= 12 and day.word != shown[-1].word:
            shown.append(day)
    if days[-1].word != shown[-1].word:
        shown.append(days[-1])
    return tuple(replace(day, x=100.0, place="end") if day.x > EDGE else day for day in shown)


@dataclass(frozen=True, slots=True)
class Share:
    """A pool's part of one bar: per cent from the left, per cent wide."""

    pool: str
    x: float
    width: float
    word: str


@dataclass(slots=True)
class Budget:
    """One launch's memory on its tightest rank, on the scale all launches share."""

    report: StoredReport
    free: str
    shares: list[Share] = field(default_factory=list)


def budgets(reports: Sequence[StoredReport]) -> list[Budget]:
    """The budgets of some launches, their documents at hand, as bars on one common scale."""
    found = []
    for report in reports:
        sizes = _sizes(launch_of(report.document) or {})
        if sizes:
            found.append((report, sizes))
    widest = max((sum(sizes.values()) for _, sizes in found), default=0.0)
    bars = []
    for report, sizes in found:
        bar, x = Budget(report, words.gib(report.free_gib)), 0.0
        for pool, name in POOLS.items():
            width = 100 * sizes.get(pool, 0.0) / widest
            if width > 0.05:
                bar.shares.append(Share(pool, round(x, 3), round(width, 3), f"{name} {words.gib(sizes[pool])} GiB"))
                x += width
        bars.append(bar)
    return bars


def _sizes(launch: dict[str, Any]) -> dict[str, float]:
    """GiB by shown pool on the rank with the least memory free; negative entries count as nothing to draw."""
    ranks = [rank for rank in listed(launch, "ranks") if listed(rank, "entries")]
    if not ranks:
        return {}
    rank = min(ranks, key=lambda each: each["free_gib"] if each.get("free_gib") is not None else float("inf"))
    sizes: dict[str, float] = {}
    for entry in rank["entries"]:
        if isinstance(entry.get("gib"), int | float):
            sizes[pool_of(entry)] = sizes.get(pool_of(entry), 0.0) + entry["gib"]
    if isinstance(rank.get("free_gib"), int | float) and came_up(launch):
        sizes["free"] = rank["free_gib"]
    return {pool: max(size, 0.0) for pool, size in sizes.items()}
