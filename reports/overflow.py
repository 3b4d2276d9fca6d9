"""The card at the moment an allocation failed, from the figures of the allocator's message.

A log that is only a trace has no reading of free memory, yet PyTorch says what the card held when it gave up. Parts
add up to the card, so that what lies outside PyTorch is the rest: contexts, communicators, other processes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reports import words
from reports.document import Launch, LineRef, line_refs, listed

# A part below this is the rounding of the message's digits.
_DIGITS = 0.011


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of the card. Places in per cent of the drawing; `look` is the pool whose colour it takes."""

    name: str
    what: str
    look: str
    gib: float
    basis: str
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
    for entry in told:
        parts = _parts(entry)
        if parts:
            return _drawn(entry, parts, len({(e.get("rank"), e.get("gpu")) for e in told}) - 1)
    return None


def _figure(entry: dict[str, Any], name: str) -> float | None:
    value = entry.get(f"{name}_gib")
    return float(value) if isinstance(value, (int, float)) and value >= 0 else None


def _parts(entry: dict[str, Any]) -> list[tuple[str, str, str, float, str]]:
    """Name, explanation, look, GiB and basis of each part; empty where the figures do not fit into the card."""
    card, free, live = (_figure(entry, name) for name in ("capacity", "free", "allocated"))
    if not card or free is None or live is None:
        return []
    graphs = _figure(entry, "private_pools") or 0.0
    idle = _figure(entry, "reserved_unallocated") or 0.0
    outside = card - free - live - idle
    if graphs > live or outside < -_DIGITS * 4:
        return []
    found = [
        ("Held by PyTorch", "weights, pools, activations", "held", live - graphs, "derived" if graphs else "printed"),
        ("In private pools", "CUDA graphs", "graphs", graphs, "printed"),
        ("Reserved, not allocated", "kept by the allocator, in pieces", "work", idle, "printed"),
        ("Outside PyTorch", "contexts, communicators, other processes", "unexplained", max(0.0, outside), "derived"),
    ]
    return [*(part for part in found if part[3] >= _DIGITS / 2), ("Free", "", "free", free, "printed")]


def _drawn(entry: dict[str, Any], parts: list[tuple[str, str, str, float, str]], others: int) -> Overflow:
    card = float(entry["capacity_gib"])
    free, asked = float(entry["free_gib"]), _figure(entry, "tried")
    whole = max(card, card - free + (asked or 0.0))
    placed, at = [], 0.0
    for name, what, look, gib, basis in parts:
        width = gib / whole * 100
        placed.append(Part(name, what, look, gib, basis, round(at, 3), round(width, 3), round(gib / card * 100, 1)))
        at += width
    wanted = None
    if asked:
        left = (card - free) / whole * 100
        wanted = Part("Asked for", "", "asked", asked, "printed", round(left, 3), round(asked / whole * 100, 3), 0.0)
    gpu, rank = entry.get("gpu"), entry.get("rank")
    name = ", ".join(x for x in (str(rank or ""), f"GPU {gpu}" if gpu is not None else "") if x) or "The GPU"
    return Overflow(name, card, tuple(placed), wanted, max(0, others), tuple(line_refs([entry.get("line")])))
