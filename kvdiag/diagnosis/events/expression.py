"""Expression: a search that is compiled when a line first needs it, and without a regular expression where it can.

Hundreds of expressions stand in the declarations and a log needs some dozens of them. Most are plain text, or a plain
key with a figure after it: those are found by `str.find`, which costs neither compiling nor a time limit.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Protocol, cast

TIMEOUT_S = 1.0  # of one expression on one line; logs come from strangers
# Up to so many characters a flat expression (no nested repetition) takes no time worth limiting, and a limit costs more
# than the search.
SHORT = 1_024

# Figures that stand after a key. A size has two groups, number and unit, or one (then GB, meaning 2^30). Digits are
# bounded, or a line of nothing else takes time that grows with its square; more of them make no figure anyway.
_DECIMAL = r"-?\d{1,24}(?:\.\d{1,24})?"
NUMBER = r"(-?\d[\d_,]{0,31})"
# Never below zero: a print that is says nothing. A letter behind it is of what was glued onto a line that was cut.
COUNT = r"(\d[\d_,]{0,31})(?![A-Za-z\d])"
DECIMAL = rf"({_DECIMAL}(?:e-?\d{{1,4}})?)"
GIB = rf"({_DECIMAL}(?:e-?\d{{1,4}})?) ?Gi?B"
AMOUNT = rf"({_DECIMAL.removeprefix('-?')}(?:e-?\d{{1,4}})?) ?Gi?B"  # of memory that is there: never below zero
MIB = rf"({_DECIMAL}) ?(Mi?B)"
SIZE = rf"({_DECIMAL}) ?(bytes|[KMGTPE]i?B)"
WORD = r"([\w.+/-]*\w)"
SIZES = r"\[([\d, ]*)\]"

_FIGURES = {text: re.compile(text) for text in (NUMBER, COUNT, DECIMAL, GIB, AMOUNT, MIB, SIZE, WORD, SIZES)}
_ESCAPED = re.compile(r"\\([^\w\s])")
_ONE = re.compile(r"\\.|\[(?:\\.|[^\]])*\]")  # what stands for one character
_REPEATS = re.compile(r"[*+]|\{\d*,\d*\}")
_META = re.compile(r"[.^$*+?{}\[\]|()\\]")


class Found(Protocol):
    """What a search yields, of whichever library."""

    def __getitem__(self, group: int) -> Any:
        """The text of a group, 0 being the whole match."""

    def groups(self) -> tuple[Any, ...]:
        """The texts of all groups."""

    def span(self) -> tuple[int, int]:
        """Where the whole match begins and ends."""


Search = Callable[[str], "Found | None"]


def plain(pattern: str) -> str | None:
    """The text an expression stands for when it holds nothing but plain text; else None."""
    if _META.search(_ESCAPED.sub("", pattern)):
        return None
    return _ESCAPED.sub(r"\1", pattern)


class Expression:
    """One search. Raises TimeoutError after TIMEOUT_S on a text."""

    __slots__ = ("pattern", "search")

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.search: Search = self._first

    def _first(self, text: str) -> Found | None:
        self.search = _compile(self.pattern)
        return self.search(text)


_KNOWN: dict[str, Expression] = {}


def expression(pattern: str) -> Expression:
    """The expression of this pattern; one for all that use it."""
    known = _KNOWN.get(pattern)
    if known is None:
        known = _KNOWN[pattern] = Expression(pattern)
    return known


def _compile(pattern: str) -> Search:
    for figure, compiled in _FIGURES.items():
        if pattern.endswith(figure):
            key = plain(pattern[: -len(figure)])
            if key:
                return _after(key, compiled)
    short, long = re.compile(pattern), _timed(pattern)
    if not _REPEATS.search(_ONE.sub("x", pattern.removesuffix("(.*)"))):
        return short.search  # nothing is tried more than once anywhere
    return lambda text: short.search(text) if len(text) <= SHORT else long(text)


def _timed(pattern: str) -> Search:
    """The search that can be given up, which the first long text compiles."""
    compiled: Any = None

    def search(text: str) -> Found | None:
        nonlocal compiled
        if compiled is None:
            import regex  # takes longer to load than a small log to read

            compiled = regex.compile(pattern)
        return cast("Found | None", compiled.search(text, timeout=TIMEOUT_S))

    return search


def _after(key: str, figure: re.Pattern[str]) -> Search:
    """The first place where the figure follows the key."""
    width, match = len(key), figure.match

    def search(text: str) -> Found | None:
        at = text.find(key)
        while at >= 0:
            found = match(text, at + width)
            if found:
                return found
            at = text.find(key, at + 1)
        return None

    return search
