"""The table twin of the budget: pools, their parts, and the line where the static budget ends."""

from __future__ import annotations

from dataclasses import dataclass

from reports import words
from reports.budget import Budget, Share, split_at_boundary
from reports.document import LineRef

ROUNDING = 0.011 * 2**30  # bytes by which two printed sizes, K and V, may be off together


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the budget's table: a pool, a part of one, or the line where the static budget ends."""

    kind: str
    name: str
    pool: str = ""
    gib: float | None = None
    percent: float | None = None
    tokens: float | None = None
    basis: str | None = None
    lines: tuple[LineRef, ...] = ()
    words: str = ""


def budget_rows(budget: Budget) -> list[Row]:
    """The table twin of the main card: pools with their parts, the boundary's line, the free rest."""
    card = budget.main
    if card is None:
        return []
    per_token = budget.bytes_per_token

    def tokens(pool: str, gib: float) -> float | None:
        """What the size would hold; of the pool itself its own count, for its size has two decimals only."""
        held = gib * 2**30 / per_token if per_token else None
        counted = budget.kv_tokens
        if pool == "kv" and held and counted and abs(held - counted) * per_token <= ROUNDING:
            return counted
        return held

    def pool_rows(shares: tuple[Share, ...]) -> list[Row]:
        rows = []
        for share in shares:
            for part in (share, *share.parts):
                kind = "pool" if part is share else "sub"
                percent = part.gib / card.opening * 100 if card.opening else None
                known = (part.gib, percent, tokens(share.pool, part.gib), part.basis, part.lines)
                rows.append(Row(kind, part.name, share.pool, *known, words=part.what))
        return rows

    inside, outside = split_at_boundary(card)
    rows = pool_rows(inside)
    if budget.boundary is not None:
        spelled = ""
        if budget.fraction is not None:
            spelled = f"{words.fraction(budget.fraction)} × {words.gib(card.opening)}; "
        if budget.over is not None:
            rows.append(
                Row(
                    "line",
                    "of these over the static budget",
                    gib=budget.over,
                    basis="derived",
                    lines=budget.boundary_lines,
                    words=f"it ends at {words.gib(budget.boundary)}",
                )
            )
        else:
            rest = f"what follows is paid from the reserve of {words.gib(budget.reserve)}"
            rows.append(
                Row(
                    "line",
                    "static budget ends here",
                    gib=budget.boundary,
                    basis="derived",
                    lines=budget.boundary_lines,
                    words=spelled + rest,
                )
            )
    return rows + pool_rows(outside)
