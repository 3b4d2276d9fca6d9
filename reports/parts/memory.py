"""The memory budget: its drawings, its table, and the ranks that differ."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kvdiag.diagnosis.text import beside_one_reading
from reports import charts, words
from reports.budget import Budget, Card, budget_of
from reports.budget_table import Row, budget_rows
from reports.document import dig, line_refs, listed
from reports.overflow import Overflow, overflow_of
from reports.parts.launch import ShownLaunch
from reports.rank_strip import Strip, strip_of
from reports.steps import leading_rank


@dataclass
class Memory(ShownLaunch):
    """What the budget's panel shows."""

    @cached_property
    def budget(self) -> Budget:
        return budget_of(self.launch)

    @cached_property
    def one_reading(self) -> str:
        """What is told in place of a drawing where no card has more than one figure; "" elsewhere."""
        main = self.budget.main
        if main is None or any(share.pool != "free" for card in self.budget.cards for share in card.shares):
            return ""
        whose = "" if self.budget.ranks == 1 else f" of {main.title}"
        rest = beside_one_reading(leading_rank(self.launch) or {})
        return f"The log has one reading of free memory{whose} only, {words.gib(main.opening)} GiB; {rest}."

    @cached_property
    def budget_figure(self) -> charts.Figure | None:
        if self.one_reading:
            return None
        if len(self.budget.cards) > 1:
            return charts.memory_by_rank(self.budget)
        return charts.memory_budget(self.budget)

    @cached_property
    def ranks_figure(self) -> charts.Figure | None:
        """The other view: every rank, or of uneven ranks the largest group alone."""
        if self.budget.ranks < 2 or self.one_reading:
            return None
        if len(self.budget.cards) > 1:
            return charts.memory_budget(self.budget)
        return charts.memory_by_rank(self.budget, each=True) if self.budget.ranks <= charts.MOST_BARS else None

    @cached_property
    def strip(self) -> Strip | None:
        """Every rank, where they are too many for bars."""
        return strip_of(self.budget)

    @cached_property
    def views(self) -> list[tuple[str, str, bool]]:
        """The budget's views: (key, words, pressed)."""
        if self.ranks_figure is None:
            return []
        main = self.budget.main
        assert main is not None
        if len(self.budget.cards) > 1:
            groups = len(self.budget.cards)
            largest = main.name if len(main.name) <= 12 else "Failed" if main.failed else "Largest"
            return [("first", f"{groups} groups", True), ("second", f"{largest} enlarged", False)]
        return [("first", f"Folded × {main.count}", True), ("second", "Every rank", False)]

    @cached_property
    def overflow(self) -> Overflow | None:
        """The card when an allocation failed, where no reading tells the budget."""
        return None if self.budget.main else overflow_of(self.launch)

    @cached_property
    def pool_set_by(self) -> str:
        """What sets the pool's size, and how far the arithmetic holds, as one sentence; "" where nothing is known."""
        if dig(self.launch, "kv_cache", "budget") is None and dig(self.launch, "kv_cache", "tokens") is None:
            return ""
        return words.sentence(dig(self.launch, "kv_cache", "limit", "sentence") or "")

    @cached_property
    def budget_words(self) -> str:
        main = self.budget.main
        if main is None:
            return self.overflow.words if self.overflow else ""
        if self.budget.ranks == 1:
            return "one GPU"
        if len(self.budget.cards) == 1:
            apart = f" within {words.gib(max(self.budget.spread, 0.01))} GiB"
            both = "both agree" if self.budget.ranks == 2 else f"all {self.budget.ranks} agree"
            return f"one GPU; {both}{apart}"
        usual = self.budget.usual_first[0]
        odd = self.budget.ranks - usual.count
        if main.failed:
            alike = f"{usual.count} alike" if usual.count > 1 else "all different"
            return f"{main.title}; {self.budget.ranks} GPUs, {alike}"
        return f"{self.budget.ranks} GPUs; {main.count} alike, {odd} {'differs' if odd == 1 else 'differ'}"

    @cached_property
    def budget_spoken(self) -> str:
        main = self.budget.main
        if main is None:
            return ""
        said = ", ".join(f"{share.name} {words.gib(share.gib)}" for share in main.shares)
        return f"Memory of {main.title}, GiB: {said}, of {words.gib(main.opening)}. The table below says the same."

    @cached_property
    def rows(self) -> list[Row]:
        return budget_rows(self.budget)

    @cached_property
    def earlier(self) -> list[Row]:
        """What was taken before the first reading, outside the identity."""
        return self._outside("earlier")

    @cached_property
    def later(self) -> list[Row]:
        """What was taken after the last reading: it is not off the free memory."""
        return self._outside("later")

    def _outside(self, when: str) -> list[Row]:
        rank = leading_rank(self.launch) or {}
        return [
            Row(
                when,
                str((when == "earlier" and entry.get("what")) or entry.get("pool")),
                gib=entry["gib"],
                lines=tuple(line_refs(entry.get("lines"))),
            )
            for entry in listed(rank, when)
            if isinstance(entry.get("gib"), (int, float)) and entry["gib"] >= 0.005
        ]

    @cached_property
    def capacity(self) -> dict[str, Any] | None:
        gpu = dig(self.launch, "gpu")
        if isinstance(gpu, dict) and gpu.get("capacity_gib"):
            return gpu
        value = self.budget.main.capacity if self.budget.main else None
        return {"capacity_gib": value, "basis": "printed"} if value else None

    @cached_property
    def rank_table(self) -> list[tuple[Card, list[float | None]]]:
        """Groups of ranks against pools, for the table twin of uneven ranks; at most 64 rows, the odd ones first."""
        if len(self.budget.cards) < 2:
            return []
        cards = [*self.budget.usual_first[1:64], self.budget.usual_first[0]]
        return [(card, [card.of(pool) for pool in self.budget.pools]) for card in cards]
