"""A part of a long log line that holds the figures it is cited for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?(?![\w]|\.\d)")
_TELLING = re.compile(r"\d+(?:,\d{3})+|\d{3,}|\d+\.\d+")  # of a sentence: a small count would be found anywhere
BEFORE = 48  # characters kept before the first figure: its name, as a rule


def excerpt(text: str, width: int, value: Any = None, name: str | None = None, sentence: str = "") -> str:
    """A line of at most `width` characters, cut around its figures where it is longer; an ellipsis stands at each cut.

    value, name  the figure cited, and what the line calls it where that is known
    sentence     other figures that the line may be cited for
    """
    if len(text) <= width:
        return text
    own = list(_spans(text, [value], name))
    beside = list(_spans(text, [float(x.replace(",", "")) for x in _TELLING.findall(sentence)]))
    for spans in (own + beside, own, own[:1], beside[:1]):
        if spans and max(end for _, end in spans) - min(begin for begin, _ in spans) <= width - BEFORE - 4:
            return _around(text, width, min(begin for begin, _ in spans), max(end for _, end in spans))
    return _around(text, width, 0, 0)


def _spans(text: str, figures: Sequence[Any], name: str | None = None) -> Iterator[tuple[int, int]]:
    """Where figures stand in a line; of those that the line names, only there."""
    wanted = {round(float(x), 4) for x in figures if isinstance(x, int | float) and not isinstance(x, bool)}
    found = [m for m in _NUMBER.finditer(text) if wanted and round(float(m[0].replace(",", "")), 4) in wanted]
    named = [m for m in found if name and re.search(rf"\b{re.escape(name)}\W{{1,4}}$", text[: m.start()][-80:])]
    yield from (m.span() for m in named or found)


def _around(text: str, width: int, begin: int, end: int) -> str:
    """The line from its beginning, where that reaches the end of the figures; else from a little before them."""
    if end <= width - 2:
        return f"{_to_a_gap(text[: width - 2], end)} …"
    first = min(max(begin - BEFORE, 0), len(text) - (width - 2))
    gap = text.find(" ", first, begin)
    rest = text[gap + 1 if gap >= 0 else first :]
    return f"… {rest}" if len(rest) <= width - 2 else f"… {_to_a_gap(rest[: width - 4], BEFORE + end - begin)} …"


def _to_a_gap(text: str, least: int = 0) -> str:
    """Without a last word that is cut, where one ends within reach."""
    gap = text.rfind(" ", max(least, len(text) - 40))
    return (text if gap < 0 else text[:gap]).rstrip(" ,")


__all__ = ["excerpt"]
