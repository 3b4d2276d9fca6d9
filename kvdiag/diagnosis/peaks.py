"""Where a batch line's figure reaches a new height: found exactly also where only a sample of the lines is read.

One scan of a block asks for any figure above the highest so far; almost always there is none. Where there is one, the
block's figures are compared.
"""

from __future__ import annotations

import re
from typing import Any, Final

# Every pool on its own: a Mamba pool that is always full must not hide what the others do.
USES: Final = ("full token usage: ", "swa token usage: ", "mamba usage: ", ", token usage: ")
COUNTS: Final = ("#running-req: ", "#queue-req: ")
_PATIENCE: Final = 16  # blocks between two searches that are made anew for higher figures


class Peaks:
    """The highest figures so far: uses of the pools in hundredths, running and queued requests."""

    def __init__(self) -> None:
        self.highest = dict.fromkeys((*USES, *COUNTS), -1)
        self._all = {
            key: re.compile(re.escape(key).encode() + (rb"(\d\.\d\d)(?!\d)" if key in USES else rb"(\d{1,9})(?!\d)"))
            for key in self.highest
        }
        # Apart they are compiled in a third of the time, and searched for as fast.
        self._kinds = (_Kinds(USES, self.highest), _Kinds(COUNTS, self.highest))

    def new(self, block: bytes) -> list[int]:
        """The offsets just behind the highest figure of each kind in a block, where it is higher than all before."""
        ends = []
        for kinds in self._kinds:
            for key in kinds.candidates(block):
                printed = {figure: int(figure.replace(b".", b"")) for figure in set(self._all[key].findall(block))}
                best = max(printed, key=printed.__getitem__, default=b"")
                if best and printed[best] > self.highest[key]:
                    self.highest[key] = printed[best]
                    kinds.risen = True
                    ends.append(next(found.end() for found in self._all[key].finditer(block) if found[1] == best))
        return ends


class _Kinds:
    """Kinds of figures that are looked for together.

    risen  whether one of them was found since the search was made
    """

    def __init__(self, keys: tuple[str, ...], highest: dict[str, int]) -> None:
        self._keys, self._highest = keys, highest
        self._met: set[str] = set()
        self._search: Any = None
        self._wait = 0
        self.risen = True

    def candidates(self, block: bytes) -> list[str]:
        """The kinds of which the block may hold a higher figure; all that are in it without Vectorscan.

        A kind that was not met yet is looked for by its name alone.
        """
        self._wait -= 1
        if self._search is None or (self.risen and self._wait <= 0):
            if not self._met or (made := self._higher()) is None:
                found = [key for key in self._keys if key.encode() in block]
                self._met.update(found)
                return found
            self._search, self.risen, self._wait = made, False, _PATIENCE
        hits: set[int] = set()
        self._search.scan(block, match_event_handler=lambda number, start, end, flags, context: hits.add(number))
        found = [key for number, key in enumerate(self._keys) if number in hits]
        if not self._met.issuperset(found):
            self._met.update(found)
            self.risen = True
        return found

    def _higher(self) -> Any:
        """The search for any figure above the highest so far; None without Vectorscan."""
        try:
            import hyperscan
        except ImportError:
            return None
        wanted = [(n, key) for n, key in enumerate(self._keys) if key in COUNTS or self._highest[key] < 100]
        if not wanted:
            return _Nothing()
        search = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        search.compile(
            expressions=[
                (re.escape(key) + (above(self._highest[key], key in USES) if key in self._met else "")).encode()
                for _, key in wanted
            ],
            ids=[n for n, _ in wanted],
            flags=[hyperscan.HS_FLAG_SINGLEMATCH] * len(wanted),
        )
        return search


class _Nothing:
    """The search for nothing: every pool was full."""

    def scan(self, block: bytes, match_event_handler: Any) -> None:
        """Finds nothing."""


def above(figure: int, hundredths: bool = False) -> str:
    """An expression for the whole numbers, or the hundredths up to 1.00, that are higher than a figure."""
    if hundredths:
        ways = [f"0\\.{tens}[{low}-9]" for tens, low in _tens_above(figure)]
        return "(?:" + "|".join([*ways, r"1\.00"]) + ")"
    digits = str(max(figure, 0))
    ways = ["[1-9]" + "[0-9]" * len(digits) + "[0-9]*"]
    ways += [
        f"{digits[:at]}[{int(digit) + 1}-9]" + "[0-9]" * (len(digits) - at - 1)
        for at, digit in enumerate(digits)
        if digit != "9"
    ]
    if figure < 0:
        ways.append("[0-9]")
    return "(?:" + "|".join(ways) + ")"


def _tens_above(figure: int) -> list[tuple[int, int]]:
    return [(tens, max(figure + 1 - tens * 10, 0)) for tens in range(10) if tens * 10 + 9 > figure]
