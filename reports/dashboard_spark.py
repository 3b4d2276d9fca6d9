"""The small line of KV tokens over a deployment's launches, as SVG drawn by the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

HEIGHT, TOP, FLOOR, FAILED_AT = 30.0, 4.0, 26.0, 22.0


@dataclass(frozen=True, slots=True)
class Spark:
    """Coordinates in per cent across and pixels down: the step line, the area below it, its end, the failed starts."""

    line: str
    area: str
    end: tuple[float, float] | None
    failed: tuple[float, ...]


def spark(history: Sequence[Sequence[Any]]) -> Spark | None:
    """The line of [KV tokens or null, outcome] pairs, oldest first; None when no launch says anything.

    A launch without tokens, or one that failed, leaves the line at its last height: the deployment held what it held
    before. The newest is on the right, also when it is the only one.
    """
    if not history:
        return None
    last = max(len(history) - 1, 1)
    places = [100 * number / last for number in range(len(history))] if len(history) > 1 else [100.0]
    failed = tuple(round(x, 1) for x, (tokens, outcome) in zip(places, history, strict=True) if outcome == "failed")
    points = [
        (x, tokens)
        for x, (tokens, outcome) in zip(places, history, strict=True)
        if tokens is not None and outcome != "failed"
    ]
    if not points:
        return Spark("", "", None, failed) if failed else None
    low, high = min(tokens for _, tokens in points), max(tokens for _, tokens in points)
    spread = (high - low) or max(high, 1)

    def y(tokens: float) -> float:
        # a change of a few per cent should not look like a cliff: the line uses at most what its change deserves
        share = (tokens - low) / spread if high > low else 0.5
        room = min(1.0, 4 * (high - low) / max(high, 1)) if high > low else 0.0
        middle = (TOP + FLOOR) / 2
        return round(middle + (FLOOR - TOP) * room * (0.5 - share), 1)

    x0, first = points[0]
    line = f"M{x0:.1f} {y(first)}"
    for x, tokens in points[1:]:
        line += f"H{x:.1f}V{y(tokens)}"
    xn, latest = points[-1]
    if len(points) == 1 and len(history) == 1:
        line, x0 = f"M0 {y(first)}H100", 0.0
    area = f"{line}V{HEIGHT:.0f}H{x0:.1f}Z"
    return Spark(line, area, (round(xn, 1), y(latest)), failed)
