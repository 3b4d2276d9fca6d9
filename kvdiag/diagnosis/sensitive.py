"""Which lines of a block may hold something to mask: found in one scan, so that the others are copied as they are."""

from __future__ import annotations

from kvdiag.diagnosis.masking import Triggers


def sensitive_lines(block: bytes, triggers: Triggers) -> list[tuple[int, int]]:
    """Begin and end (without the line end) of each line that a pattern may match; every line without Vectorscan."""
    spans: list[tuple[int, int]] = []
    ends = triggers.ends(block)
    if ends is None:
        at = 0
        while at < len(block):
            end = block.find(b"\n", at)
            end = len(block) if end < 0 else end
            spans.append((at, end))
            at = end + 1
        return spans
    done = -1
    for found in ends:
        at = max(found - 1, 0)
        if at < done:
            continue
        begin = block.rfind(b"\n", 0, at) + 1
        end = block.find(b"\n", at)
        end = len(block) if end < 0 else end
        spans.append((begin, end))
        done = end + 1
    return spans
