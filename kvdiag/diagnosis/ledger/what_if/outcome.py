"""Outcome: a launch before and after a change, and every figure of it with its interval."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvdiag.diagnosis.ledger.sizing.estimate import HALF_DIGIT
from kvdiag.diagnosis.ledger.sizing.free_memory import end_free
from kvdiag.diagnosis.ledger.sizing.requests import ROW_BYTES, matching_limits
from kvdiag.diagnosis.ledger.sizing.sizing import Sizing
from kvdiag.diagnosis.ledger.what_if.answer import Figure
from kvdiag.diagnosis.ledger.what_if.change import Change
from kvdiag.diagnosis.ledger.what_if.flags import running_limit
from kvdiag.diagnosis.ledger.what_if.forward import Launch, free_of, lowest_of, page_of, tokens_before, tokens_of
from kvdiag.diagnosis.units import GIB


@dataclass(frozen=True, slots=True)
class Outcome:
    """The launch before and after; `printed` is the fraction to set, None where it stays."""

    sizing: Sizing
    change: Change
    base: Launch
    then: Launch
    printed: float | None

    def tokens(self) -> Figure:
        """Tokens of one rank."""
        before = self.sizing.inputs.tokens
        after = tokens_of(self.sizing, self.base, self.then)
        margin = self.margin(after)
        page = page_of(self.then)
        low, high = max(0, int(after - margin) // page * page), int(after + margin) // page * page
        if self.then.bound is None:
            return Figure(before, after, min(after, low), max(after, self._capped(high)))
        least, most = self._at(self.then.least_after), self._at(self.then.most_after)
        if self.then.bound == "at most":
            # nothing at the least would say no more than that it is at most the rest
            return Figure(before, after, least or None, max(after, self._capped(high)), "at most")
        return Figure(before, after, min(after, low), most, "at least")

    def _at(self, after_weights: float | None) -> int | None:
        """Tokens with other weights: the far end of a bound; None where it is not known."""
        if after_weights is None:
            return None
        return tokens_of(self.sizing, self.base, replace(self.then, after_weights=after_weights))

    def margin(self, after: int) -> float:
        """Tokens by which the printed digits leave the count open."""
        before, base, then = self.sizing.inputs.tokens, self.base, self.then
        if before is not None and after == before and then == base:
            return 0.0
        cell = then.arithmetic.cell
        relative = (cell.high - cell.low) / 2 / cell.value if cell.value else 0.0
        loose = HALF_DIGIT * abs(then.fraction - base.fraction) + then.shaky
        if before is None:
            loose += HALF_DIGIT * (2 - then.fraction)
        else:
            after = after - before
        budget = self.sizing.budget
        if budget is not None and base.is_capped and not then.is_capped:  # the readings alone tell what memory holds
            loose += max(budget.kv.high - budget.kv.value, budget.kv.value - budget.kv.low)
        if then.budget != base.budget or then.arithmetic != base.arithmetic:
            loose += then.arithmetic.state_slot
        return then.arithmetic.page + abs(after) * relative + loose * GIB / then.arithmetic.bytes_per_reported_token

    def _capped(self, tokens: int) -> int:
        cap = self.then.arithmetic.cap
        if cap is None:
            return tokens
        page = page_of(self.then)
        return min(tokens, cap // page * page)

    def free(self) -> Figure | None:
        """GiB free at the end, on the rank with least."""
        end = end_free(self.sizing.inputs)
        if end is None:
            return None
        after = free_of(self.sizing, self.base, self.then)
        assert after is not None
        tokens = tokens_of(self.sizing, self.base, self.then)
        cells = self.then.target_cell + self.then.draft_cell
        margin = 0.0 if self.then == self.base else self.margin(tokens) * cells / GIB + self.then.shaky
        inputs, before = self.sizing.inputs, tokens_before(self.sizing, self.base)
        if self.then.rows is None and tokens != inputs.tokens and not matching_limits(inputs, tokens):
            margin += abs(tokens - before) * ROW_BYTES / GIB  # the table may grow with the tokens
        draft = inputs.draft
        if draft is not None and draft.pool and self.then.draft_cell:
            moved = abs(tokens - before) * self.then.draft_cell / GIB
            margin += moved * HALF_DIGIT * draft.figures / draft.pool
        return Figure(end, after, after - margin - HALF_DIGIT, after + margin + HALF_DIGIT)

    def refused(self, tokens: Figure, free: Figure | None) -> str | None:
        """Why the changed launch would not start; None where it would."""
        then = self.then
        if then.after_weights <= 0:
            usage = f"{then.opening - then.after_weights:.1f} GiB of the {then.opening:.2f} a card has free"
            if then.bound == "at least":  # what every rank keeps whole does not grow
                return f"no start where all weights divide over the ranks: they would take up to {usage}"
            return f"no start: the weights would take at least {usage}"
        if then.budget <= 0:
            factor = self.sizing.budget.fraction / (self.sizing.inputs.fraction or 1.0) if self.sizing.budget else 1.0
            least = (1 - then.after_weights / then.opening) / factor
            return (
                f"no start: the weights leave {then.after_weights:.2f} GiB, the reserve would be "
                f"{then.opening * (1 - then.fraction):.2f}; raise --mem-fraction-static above {least:.4f}"
            )
        if not tokens.after:
            return "no start: the budget does not hold a single page of tokens"
        if free is not None and free.after is not None and free.after < 0:
            return f"no start: {-free.after:.2f} GiB more would be needed than the card has"
        lowest = lowest_of(self.sizing, self.base, then)
        if lowest is not None and lowest < 0:
            return f"no start: {-lowest:.2f} GiB more would be needed on the way than the card has"
        return None

    def requests(self, tokens: Figure, length: int | None) -> Figure | None:
        """Requests of a length that run at once on the whole server."""
        if not length:
            return None
        inputs = self.sizing.inputs
        groups = inputs.dp if inputs.dp_attention else 1
        limit = running_limit(self.sizing, self.base, Change(), int(tokens.before or 0))

        def count(value: float | None, most: int | None, ranks: int) -> int | None:
            if value is None:
                return None
            fit = int(value) // length
            return ranks * (fit if most is None else min(fit, most))

        then_groups = self.change.dp_attention or groups
        most = running_limit(self.sizing, self.then, self.change, int(tokens.after or 0))
        low = count(tokens.low, most, then_groups)
        low = None if tokens.bound == "at most" and not low else low
        return Figure(
            count(tokens.before, limit, groups),
            count(tokens.after, most, then_groups),
            low,
            count(tokens.high, most, then_groups),
            tokens.bound,
        )

    def total(self, tokens: Figure) -> Figure | None:
        """Tokens of the whole server where DP ranks each have their own."""
        inputs = self.sizing.inputs
        before = inputs.dp if inputs.dp_attention else 1
        after = self.change.dp_attention or before
        if before == after == 1 or tokens.after is None:
            return None
        return Figure(
            None if tokens.before is None else tokens.before * before,
            tokens.after * after,
            None if tokens.low is None else tokens.low * after,
            None if tokens.high is None else tokens.high * after,
            tokens.bound,
        )

    def host(self, tokens: Figure) -> Figure | None:
        """Host memory a rank, in 10^9 bytes: the size given, or ratio × tokens × bytes of a token."""
        inputs, change = self.sizing.inputs, self.change

        def size(count: float | None, cell: float, ratio: float | None, given: float | None) -> float | None:
            if given:
                return given
            return None if not ratio or count is None else ratio * count * cell / 1e9

        before = size(tokens.before, self.base.target_cell, inputs.hicache_ratio or 2.0, inputs.hicache_gb)
        before = before if inputs.hicache else None
        if change.hicache_ratio is not None:
            return Figure(before, size(tokens.after, self.then.target_cell, change.hicache_ratio, None))
        if change.hicache_size_gb is not None:
            return Figure(before, change.hicache_size_gb)
        if not inputs.hicache:
            return None
        after = size(tokens.after, self.then.target_cell, inputs.hicache_ratio or 2.0, inputs.hicache_gb)
        return Figure(before, after)

    def pool(self, tokens: Figure) -> Figure:
        """GiB of the target's pools."""
        before, after = _pool(self.base, tokens.before), _pool(self.then, tokens.after)
        if tokens.bound is None:
            return Figure(before, after)
        return Figure(before, after, _pool(self.then, tokens.low), _pool(self.then, tokens.high), tokens.bound)


def _pool(launch: Launch, tokens: float | None) -> float | None:
    if tokens is None:
        return None
    way = launch.arithmetic
    beside = way.window.window * way.window_tokens if way.window is not None and way.window_tokens is not None else 0.0
    return (tokens * launch.target_cell + beside) / GIB
