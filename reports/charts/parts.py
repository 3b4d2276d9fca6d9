"""What figures are made of: bars in a pool's colour, lines, words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from reports.budget import Card, Share, split_at_boundary

Figure = dict[str, Any]


INSIDE = {"weights": "@on-weights", "kv": "@on-kv"}


STRONG = {"size": 11.5, "weight": 600, "color": "@ink"}


def segment(pool: str, size: float, start: float, row: int, **more: Any) -> dict[str, Any]:
    """A bar in a pool's colour and pattern, which charts.js knows by the pool's name."""
    return {"pool": pool, "x": [round(size, 5)], "base": [round(start, 5)], "y": [row], **more}


def note(x: float | str, y: float | str, text: str, **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "x": x,
        "y": y,
        "text": text,
        "showarrow": False,
        "font": {"size": 11.5, "color": "@ink-2"},
        "xref": "x",
        "yref": "paper",
        "yanchor": "bottom",
    }
    return made | more


def line(x0: float, x1: float, y0: float, y1: float, *, x: str = "x", y: str = "paper", **line: Any) -> dict[str, Any]:
    style = {"color": "@ink", "width": 2} | line
    return {"type": "line", "xref": x, "yref": y, "x0": x0, "x1": x1, "y0": y0, "y1": y1, "line": style}


def _where(share: Share) -> str:
    """How a figure is known: "printed, L231"."""
    marks = ", ".join(ref.label for ref in share.lines[:3])
    return ", ".join(part for part in (share.basis or "", marks) if part)


def told(share: Share, prefix: str = "") -> dict[str, Any]:
    return {
        "name": f"{prefix}{share.name}",
        "gib": round(share.gib, 5),
        "where": _where(share),
        "anchor": share.lines[0].anchor if share.lines else None,
    }


def ordered(card: Card) -> list[tuple[Share, float]]:
    """A card's shares with where each begins; what gave memory back moves the next one to the left."""
    inside, outside = split_at_boundary(card)
    placed, at = [], 0.0
    for share in (*inside, *outside):
        placed.append((share, at))
        at += share.gib
    return placed


def reach(cards: Iterable[Card]) -> float:
    """Where the scale ends: at the card's end, unless others hold so much of it that the rest would be a stub."""
    return max((max(min(card.capacity or 0.0, 2 * card.opening), card.opening) for card in cards), default=1.0)
