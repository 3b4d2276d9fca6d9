"""Which lines of a block may hold something to mask: found in one scan, so that the others are copied as they are."""

from __future__ import annotations

from functools import cache
from typing import Any

from kvdiag.diagnosis.masking import PATTERNS


class _Prefilter:
    """All masking patterns in one Vectorscan database. It finds every line that a pattern matches, and some others."""

    def __init__(self) -> None:
        import hyperscan

        self._database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        always = hyperscan.HS_FLAG_PREFILTER | hyperscan.HS_FLAG_MULTILINE
        # What must follow a match stands on the same line, and may as well be part of it here.
        wanted = [(p.expression.replace("(?=", "(?:"), p.ignore_case) for p in PATTERNS]
        wanted.append((r"-----BEGIN [A-Z ]{0,24}PRIVATE KEY", False))
        self._database.compile(
            expressions=[expression.encode() for expression, _ in wanted],
            ids=list(range(len(wanted))),
            flags=[always | (hyperscan.HS_FLAG_CASELESS if ignore_case else 0) for _, ignore_case in wanted],
        )
        self._ends: list[int] = []

    def ends(self, block: bytes) -> list[int]:
        self._ends = []
        self._database.scan(block, match_event_handler=self._note)
        return sorted(set(self._ends))

    def _note(self, number: int, start: int, end: int, flags: int, context: Any) -> None:
        self._ends.append(end)


@cache
def _prefilter() -> _Prefilter | None:
    try:
        return _Prefilter()
    except ImportError:
        return None


def sensitive_lines(block: bytes) -> list[tuple[int, int]]:
    """Begin and end (without the line end) of each line that may need masking; every line without Vectorscan."""
    prefilter = _prefilter()
    spans: list[tuple[int, int]] = []
    if prefilter is None:
        at = 0
        while at < len(block):
            end = block.find(b"\n", at)
            end = len(block) if end < 0 else end
            spans.append((at, end))
            at = end + 1
        return spans
    done = -1
    for found in prefilter.ends(block):
        at = max(found - 1, 0)
        if at < done:
            continue
        begin = block.rfind(b"\n", 0, at) + 1
        end = block.find(b"\n", at)
        end = len(block) if end < 0 else end
        spans.append((begin, end))
        done = end + 1
    return spans
