"""Arithmetic: one release's way from a budget to tokens, with one launch's numbers in it."""

from __future__ import annotations

from dataclasses import dataclass

from kvdiag.diagnosis.ledger.sizing import swa
from kvdiag.diagnosis.ledger.sizing.estimate import Estimate
from kvdiag.diagnosis.ledger.sizing.inputs import Family
from kvdiag.diagnosis.units import GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Arithmetic:
    """From a budget in GiB to the tokens one rank reports.

    fraction       the one in effect, hidden multipliers included
    cell           bytes charged for one reported token; a draft's share included where the release charges it
    headroom       tokens added for a draft after the division (0.4.3–0.5.6)
    state          GiB of request states taken first, for a budget of `state_of`; None without such states
    state_scales   whether those states grow with the budget (sized by ratio) or are fixed (sized by slots)
    state_fixed    GiB of them that stay all the same: those of draft tokens, by the requests that may run
    state_after    GiB of the budget that are taken before the ratio applies (0.5.7–0.5.12: draft tokens' states)
    state_slot     GiB of one slot: what is left of the ratio's share when no whole slot fits stays with the pool
    window         both cell sizes of a sliding-window hybrid, its ratio and split rule
    window_tokens  tokens of the window pool where requests size it (0.5.14 and later, prefix cache off)
    reserved       GiB of the budget kept for something else (multimodal reservation of 0.5.19 and later)
    assumptions    in words, what is taken for granted where the log does not decide
    likely         False for the way of a release that the log's wording rules out: builds between two releases
                   carry rules of either, so it counts where the likely ones do not fit
    """

    family: Family
    fraction: float
    cell: Estimate
    page: int = 1
    cap: int | None = None
    headroom: int = 0
    state: float = 0.0
    state_of: float = 0.0
    state_scales: bool = False
    state_fixed: float = 0.0
    state_after: float = 0.0
    state_slot: float = 0.0
    window: swa.WindowCells | None = None
    ratio: float = 0.8
    split: swa.SplitRule = swa.SplitRule.JOINT
    window_tokens: int | None = None
    reserved: float = 0.0
    assumptions: tuple[str, ...] = ()
    likely: bool = True

    def state_gib(self, budget: float) -> float:
        """GiB of request states out of a budget."""
        if self.state_scales and self.state_of > 0:
            share = max(0.0, budget - self.state_after) / (self.state_of - self.state_after)
            return self.state_fixed + (self.state - self.state_fixed) * share
        return self.state

    def kv_gib(self, budget: float) -> float:
        """What is left of a budget for keys and values."""
        return budget - self.reserved - self.state_gib(budget)

    def tokens(self, budget: float, scale: float = 1.0, capped: bool = True) -> int:
        """Tokens after division, headroom, cap and page rounding; never below 0. `scale` multiplies the cell size.

        Order of steps (0.4.5 and later): integer division, headroom, --max-total-tokens, whole pages.
        Source: 0.4.5–0.5.9 model_runner.py, init_memory_pool(); 0.5.10 _resolve_token_capacity();
        0.5.11+ pool_configurator.py, calculate_pool_sizes().
        """
        size = self.kv_gib(budget) * GIB
        cap = self.cap if capped else None
        if size <= 0:
            return 0
        if self.window is not None:
            cells = swa.WindowCells(
                self.window.full * scale,
                self.window.window * scale,
                self.window.full_layers,
                self.window.window_layers,
            )
            return swa.split(size, cells, self.ratio, self.page, self.split, cap, self.window_tokens).full
        count = int(size // (self.cell.value * scale)) + self.headroom
        if cap is not None:
            count = min(count, cap)
        page = max(1, self.page)
        return count // page * page

    def bounded(self, budget: Estimate, capped: bool = True) -> Estimate:
        """Tokens with the bounds that the printed digits of budget and cell size leave."""
        value = self.tokens(budget.value, capped=capped)
        low = self.tokens(budget.low, self.cell.high / self.cell.value, capped=capped)
        high = self.tokens(budget.high, self.cell.low / self.cell.value, capped=capped)
        return Estimate(value, min(low, value), max(high, value))

    @property
    def bytes_per_reported_token(self) -> float:
        """Bytes the KV pools take for one more reported token."""
        if self.window is not None:
            return self.window.full + self.ratio * self.window.window
        return self.cell.value
