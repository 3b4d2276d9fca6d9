"""The memory budget of a launch: what each rank's card holds, and which ranks are alike.

The figures are the document's; only their sum per shown pool is made here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from kvdiag.diagnosis.endings import failing_ranks
from reports.document import Launch, LineRef, dig, line_refs, listed
from reports.pools import POOLS, WITHIN_BUDGET, entry_name, pool_of

# Ranks whose pools differ by less than this are drawn as one bar. Log lines are rounded to 0.01 GiB, and drivers
# leave a few MiB of difference between cards that hold the same.
ALIKE_GIB = 0.06

# With more ranks than this, sizes alone are compared first.
CLOSE_LOOK = 64


@dataclass(frozen=True, slots=True)
class Part:
    """One entry of the ledger within a pool: "weights" of the draft model. `what` tells how it was worked out."""

    name: str
    gib: float
    basis: str | None
    lines: tuple[LineRef, ...]
    what: str = ""


@dataclass(frozen=True, slots=True)
class Share:
    """What one shown pool takes of one card.

    gib    may be negative: the step gave back more than it took
    basis  printed | derived | assumed; the weakest of its parts
    """

    pool: str
    name: str
    gib: float
    basis: str | None
    lines: tuple[LineRef, ...]
    parts: tuple[Part, ...] = ()
    what: str = ""

    def percent_of(self, opening: float) -> float:
        """The share of the opening reading, in per cent."""
        return self.gib / opening * 100 if opening else 0.0


@dataclass(frozen=True, slots=True)
class Card:
    """One rank's memory, or that of several ranks that hold the same.

    measured       whether `opening` is a reading; otherwise it is the sum of what the log names
    opening_basis  "derived" where the log begins after a step and prints what it took
    failed         those of its ranks on which the launch failed, where not all ranks did
    """

    ranks: tuple[str, ...]
    opening: float
    capacity: float | None
    shares: tuple[Share, ...]
    free: float | None
    opening_lines: tuple[LineRef, ...] = ()
    measured: bool = True
    opening_basis: str = "printed"
    failed: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return len(self.ranks)

    @property
    def name(self) -> str:
        """How the bar is called: "TP3", "TP0 to TP7 (8)", or "GPU" for a single unprefixed one."""
        return spell_ranks(self.ranks)

    @property
    def title(self) -> str:
        """The name, and that it failed: "TP4, which failed"."""
        if not self.failed:
            return self.name
        return f"{self.name}, which failed" if self.count == 1 else f"{self.name}; {spell_ranks(self.failed)} failed"

    def of(self, pool: str) -> float | None:
        """GiB in a shown pool, None when the ledger has no entry there."""
        return next((share.gib for share in self.shares if share.pool == pool), None)


@dataclass(frozen=True, slots=True)
class Budget:
    """A launch's cards, alike ones folded, the largest group first and the odd ones after it.

    Where the launch failed on some ranks only, theirs come before all others.

    every     the cards one by one, in the log's order
    kv_tokens the pool's own count, where the log prints one
    boundary  where the static fraction ends, in GiB from the start of the card; None when it is not known
    """

    cards: tuple[Card, ...]
    every: tuple[Card, ...]
    boundary: float | None = None
    fraction: float | None = None
    reserve: float | None = None
    boundary_lines: tuple[LineRef, ...] = ()
    bytes_per_token: int | None = None
    kv_tokens: int | None = None
    over: float | None = None
    spread: float = 0.0
    pools: tuple[str, ...] = field(default=())

    @property
    def ranks(self) -> int:
        return len(self.every)

    @property
    def main(self) -> Card | None:
        """The card that is told first: the largest group's, or that of a rank that failed."""
        return self.cards[0] if self.cards else None

    @property
    def usual_first(self) -> tuple[Card, ...]:
        """The cards with the largest group's before all others."""
        usual = max(self.cards, key=lambda card: card.count, default=None)
        return (usual, *(card for card in self.cards if card is not usual)) if usual else ()


_WEAKNESS = {"printed": 0, "derived": 1, "assumed": 2}


def brief_card(rank: dict[str, Any], *, ended: str) -> Card | None:
    """One rank's card with its sizes alone: quick for hundreds of ranks. None as for `card_of`."""
    opening, free = rank.get("opening_gib"), rank.get("free_gib")
    sizes: dict[str, float] = {}
    total = 0.0
    for entry in listed(rank, "entries"):
        gib = entry.get("gib")
        if isinstance(gib, (int, float)):
            pool = pool_of(entry)
            sizes[pool] = sizes.get(pool, 0) + gib
            total += gib
    measured = opening is not None
    if opening is None:
        if not sizes:
            return None
        opening = total + (free or 0.0)
    shares = [
        _size(pool, gib)
        for pool, gib in sorted(sizes.items(), key=_drawn_as)
        if pool != "unexplained" or abs(gib) >= 0.005
    ]
    if free is not None:
        shares.append(Share("free", ended, free, "printed", ()))
    return Card((str(rank.get("id") or ""),), opening, rank.get("capacity_gib"), tuple(shares), free, measured=measured)


_ORDER = {pool: place for place, pool in enumerate(POOLS)}


@lru_cache(maxsize=1024)
def _size(pool: str, gib: float) -> Share:
    """One and the same object for the many ranks that hold the same."""
    return Share(pool, POOLS[pool], gib, None, ())


def _drawn_as(size: tuple[str, float]) -> int:
    return _ORDER[size[0]]


def card_of(rank: dict[str, Any], *, ended: str) -> Card | None:
    """One rank's card; None when the log gives it no reading and no entry."""
    opening, free = rank.get("opening_gib"), rank.get("free_gib")
    entries = [entry for entry in listed(rank, "entries") if isinstance(entry.get("gib"), (int, float))]
    measured = opening is not None
    if opening is None:
        if not entries:
            return None
        opening = sum(entry["gib"] for entry in entries) + (free or 0.0)
    grouped: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        grouped.setdefault(pool_of(entry), []).append(entry)
    shares = []
    for pool, name in POOLS.items():
        if pool not in grouped:
            continue
        members = grouped[pool]
        gib = sum(entry["gib"] for entry in members)
        if pool == "unexplained" and abs(gib) < 0.005:
            continue
        parts = tuple(
            Part(
                entry_name(entry),
                entry["gib"],
                entry.get("basis"),
                tuple(line_refs(entry.get("lines"))),
                str(entry.get("what") or ""),
            )
            for entry in members
        )
        basis = max((part.basis or "assumed" for part in parts), key=lambda word: _WEAKNESS.get(word, 2))
        lines = tuple(dict.fromkeys(line for part in parts for line in part.lines))
        only = parts[0].name if len(parts) == 1 and pool in ("state", "work") else name
        explained = [part for part in parts if part.what]
        told = parts if len(parts) > 1 and (pool != "unexplained" or explained) else ()
        shares.append(Share(pool, only, gib, basis, lines, told, parts[0].what if len(parts) == 1 else ""))
    readings = listed(rank, "readings")
    if free is not None:
        last = tuple(
            line_refs([reading.get("line") for reading in readings if reading.get("available_gib") == free][-1:])
        )
        shares.append(Share("free", ended, free, "printed", last))
    first = tuple(
        line_refs([reading.get("line") for reading in readings if reading.get("available_gib") == opening][:1])
    )
    basis = str(rank.get("opening_basis") or "printed")
    if basis != "printed":
        first = tuple(line_refs([rank["opening_line"]])) if rank.get("opening_line") else ()
    return Card(
        (str(rank.get("id") or ""),),
        opening,
        rank.get("capacity_gib"),
        tuple(shares),
        free,
        first,
        measured,
        basis,
    )


def budget_of(launch: Launch) -> Budget:
    """The budget of a launch, empty when no rank has a figure."""
    ended = "Free when ready" if launch.get("outcome") == "ready" else "Free at the last reading"
    if launch.get("outcome") == "failed":
        ended = "Free at the failure"
    ranks = listed(launch, "ranks")
    # Of hundreds of ranks only those that are drawn are looked at closely.
    brief = len(ranks) > CLOSE_LOOK
    look = brief_card if brief else card_of
    cards = [card for card in (look(rank, ended=ended) for rank in ranks) if card]
    frees = [card.free for card in cards if card.free is not None]
    redone = dig(launch, "kv_cache", "budget") or {}
    fraction, reserve = redone.get("mem_fraction_static"), redone.get("reserve_gib")
    opening = redone.get("opening_gib")
    boundary = opening - reserve if opening is not None and reserve is not None else None
    folded = fold(cards, failing_ranks(launch))
    if brief:
        by_id = {str(rank.get("id") or ""): rank for rank in ranks}
        close = {card.ranks[0]: card_of(by_id[card.ranks[0]], ended=ended) for card in folded[:CLOSE_LOOK]}
        folded = [
            replace(full, ranks=card.ranks, failed=card.failed)
            if (full := close.get(card.ranks[0])) is not None
            else card
            for card in folded
        ]
    over = None
    if boundary is not None and folded:
        weights = folded[0].of("weights")
        over = weights - boundary if weights is not None and weights > boundary + 0.005 else None
    lines = tuple(line_refs(redone.get("lines"))) or (folded[0].opening_lines if folded else ())
    return Budget(
        cards=tuple(folded),
        every=tuple(cards),
        boundary=boundary,
        fraction=fraction,
        reserve=reserve,
        boundary_lines=lines,
        bytes_per_token=dig(launch, "kv_cache", "bytes_per_token"),
        kv_tokens=dig(launch, "kv_cache", "tokens"),
        over=over,
        spread=max(frees) - min(frees) if frees else _apart(cards),
        pools=tuple(pool for pool in POOLS if any(card.of(pool) is not None for card in folded)),
    )


def _apart(cards: list[Card]) -> float:
    """How far the ranks' sums lie from each other, where no rank prints what is free."""
    sums = [card.opening for card in cards]
    return max(sums) - min(sums) if sums else 0.0


def fold(cards: list[Card], failing: Sequence[str] = ()) -> list[Card]:
    """Alike cards as one with all their ranks: the largest group first, then the odd ones, least free memory first.

    Groups with a failing rank come before all others.
    """
    groups: list[list[Card]] = []
    by_shape: dict[tuple[Any, ...], list[list[Card]]] = {}
    by_sizes: dict[tuple[Any, ...], list[Card]] = {}
    for card in cards:
        sizes = (card.opening, *((share.pool, share.gib) for share in card.shares))
        same = by_sizes.get(sizes)
        if same is not None:
            same.append(card)
            continue
        # The coarse shape keeps this linear for hundreds of ranks; the close look decides.
        shape = (tuple(share.pool for share in card.shares), round(card.opening))
        near = [
            group
            for delta in (0, -1, 1)
            for group in by_shape.get((shape[0], shape[1] + delta), ())
            if _alike(group[0], card)
        ]
        if near:
            near[0].append(card)
        else:
            groups.append([card])
            by_shape.setdefault(shape, []).append(groups[-1])
        by_sizes[sizes] = near[0] if near else groups[-1]
    merged = [
        Card(
            tuple(rank for card in group for rank in card.ranks),
            group[0].opening,
            group[0].capacity,
            group[0].shares,
            group[0].free,
            group[0].opening_lines,
            group[0].measured,
            group[0].opening_basis,
            tuple(rank for card in group for rank in card.ranks if rank in failing),
        )
        for group in groups
    ]
    merged.sort(key=lambda card: (not card.failed, -card.count, -len(card.shares)))
    rest = sorted(merged[1:], key=lambda card: (not card.failed, card.free if card.free is not None else 0.0))
    return merged[:1] + rest


def _alike(one: Card, other: Card) -> bool:
    if abs(one.opening - other.opening) > ALIKE_GIB:
        return False
    for a, b in zip(one.shares, other.shares, strict=True):
        difference = a.gib - b.gib
        if difference > ALIKE_GIB or difference < -ALIKE_GIB:
            return False
    return True


def split_at_boundary(card: Card) -> tuple[tuple[Share, ...], tuple[Share, ...]]:
    """The shares that the static fraction pays, and those that the reserve pays."""
    inside = tuple(share for share in card.shares if share.pool in WITHIN_BUDGET)
    return inside, tuple(share for share in card.shares if share.pool not in WITHIN_BUDGET)


def spell_ranks(ranks: tuple[str, ...] | list[str]) -> str:
    """Ranks in words: "TP0", "TP0 to TP7", "TP0, TP3", "TP0 and 14 others"; "GPU" for the one without a prefix."""
    names = [rank or "GPU" for rank in ranks]
    if len(names) <= 2:
        return ", ".join(names) or "GPU"
    stems = {name.rstrip("0123456789") for name in names}
    numbers = sorted(int(name[len(name.rstrip("0123456789")) :] or 0) for name in names)
    if len(stems) == 1 and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
        stem = stems.pop()
        return f"{stem}{numbers[0]} to {stem}{numbers[-1]}"
    if len(names) <= 4:
        return ", ".join(names)
    return f"{names[0]} and {len(names) - 1} others"
