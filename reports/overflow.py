"""The card at the moment an allocation failed, from the figures of the allocator's message.

Drawn where a log has no reading of free memory: a lone trace, most often.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvdiag.diagnosis.text import CARD_PARTS
from reports import words
from reports.document import Launch, LineRef, line_refs, listed

# What the document's parts hold, and the look they are drawn with.
PARTS = {
    "pytorch": ("weights, pools, activations", "held"),
    "private_pools": ("CUDA graphs", "graphs"),
    "reserved_unallocated": ("kept by the allocator, in pieces", "work"),
    "own": ("context, communicators, libraries", "own"),
    "others": ("on the same card", "unexplained"),
    "outside": ("contexts, communicators, other processes", "unexplained"),
    "free": ("", "free"),
}


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of the card. Places in per cent of the drawing; `look` is the pool whose colour it takes."""

    name: str
    what: str
    look: str
    gib: float
    basis: str | None
    x: float
    width: float
    percent: float


@dataclass(frozen=True, slots=True)
class Overflow:
    """What the drawing and its table show.

    card    GiB of the whole card
    asked   GiB that were asked for, and where they would have lain; None where the message does not say
    others  how many further cards overflowed
    """

    name: str
    card: float
    parts: tuple[Part, ...]
    asked: Part | None
    others: int
    lines: tuple[LineRef, ...]

    @property
    def words(self) -> str:
        asked = f"when {words.gib(self.asked.gib)} GiB were asked for" if self.asked else "when the allocation failed"
        return f"{self.name} {asked}"

    @property
    def spoken(self) -> str:
        """The drawing for who does not see it."""
        told = ", ".join(f"{part.name} {words.gib(part.gib)} GiB" for part in self.parts)
        return f"{self.words}: {told}; the card has {words.gib(self.card)} GiB."


def overflow_of(launch: Launch) -> Overflow | None:
    """The first overflow of a launch whose message accounts for the card; None where no message does."""
    told = [entry for entry in listed(launch, "oom") if isinstance(entry, dict)]
    cards = {(entry.get("rank"), entry.get("gpu")) for entry in told}
    return next(
        (_drawn(entry, len(cards) - 1) for entry in told if _figure(entry, "capacity") and entry.get("card")), None
    )


def _figure(entry: dict[str, Any], name: str) -> float | None:
    value = entry.get(f"{name}_gib")
    return float(value) if isinstance(value, (int, float)) and value >= 0 else None


def _drawn(entry: dict[str, Any], others: int) -> Overflow:
    card, free, asked = (_figure(entry, name) or 0.0 for name in ("capacity", "free", "tried"))
    whole = max(card, card - free + asked)
    placed, at = [], 0.0
    for share in listed(entry, "card"):
        part = str(share.get("part"))
        name, (what, look) = CARD_PARTS.get(part, part), PARTS.get(part, ("", "unexplained"))
        gib = float(share.get("gib") or 0.0)
        width = gib / whole * 100
        percent = round(gib / card * 100, 1)
        placed.append(Part(name, what, look, gib, share.get("basis"), round(at, 3), round(width, 3), percent))
        at += width
    wanted = None
    if asked:
        left = (card - free) / whole * 100
        wanted = Part("Asked for", "", "asked", asked, "printed", round(left, 3), round(asked / whole * 100, 3), 0.0)
    gpu, rank = entry.get("gpu"), entry.get("rank")
    name = ", ".join(x for x in (str(rank or ""), f"GPU {gpu}" if gpu is not None else "") if x) or "The GPU"
    return Overflow(name, card, tuple(placed), wanted, others, tuple(line_refs([entry.get("line")])))
