"""Log lines in pieces: the clock, plain text, and the figures that are evidence."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from reports.document import LineRef


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a log line: plain, the dimmed clock ("ts"), or a marked figure ("mark")."""

    text: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    """One line a finding rests on."""

    ref: LineRef | None
    pieces: tuple[Piece, ...]


# A journal's own date and unit, then SGLang's bracket with clock and rank; either may stand alone.
_CLOCK = re.compile(r"^(?=\[|[A-Z][a-z]{2} )(?:[A-Z][a-z]{2} +\d+ [\d:]{8} \S+ \S+: ?)?(?:\[[^\]\n]{8,60}\])?")


_NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?:\s?(?:GB|GiB|MiB|MB))?(?![\w])")


def pieces_of(text: str, *figures: Any) -> tuple[Piece, ...]:
    """A log line cut into its clock, plain stretches and the figures that are evidence."""
    pieces: list[Piece] = []
    clock = _CLOCK.match(text)
    at = 0
    if clock and clock.group():
        pieces.append(Piece(clock.group(), "ts"))
        at = clock.end()
    wanted = {round(float(figure), 4) for figure in figures if isinstance(figure, (int, float))}
    if wanted:
        for match in _NUMBER.finditer(text, at):
            number = re.sub(r"[^\d.]", "", match.group())
            if number and round(float(number), 4) in wanted:
                pieces += [Piece(text[at : match.start()]), Piece(match.group(), "mark")]
                at = match.end()
    pieces.append(Piece(text[at:]))
    return tuple(piece for piece in pieces if piece.text)
