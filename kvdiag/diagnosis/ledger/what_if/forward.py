"""Forward: a launch as the arithmetic sees it, to tokens, memory taken and memory left."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kvdiag.diagnosis.ledger.sizing.arithmetic import Arithmetic
from kvdiag.diagnosis.ledger.sizing.budget import Budget
from kvdiag.diagnosis.ledger.sizing.cell import LATENT_ROW
from kvdiag.diagnosis.ledger.sizing.free_memory import end_free, lowest_free
from kvdiag.diagnosis.ledger.sizing.inputs import Family, SizingInputs
from kvdiag.diagnosis.ledger.sizing.limits import lost_gib
from kvdiag.diagnosis.ledger.sizing.mha import element_size
from kvdiag.diagnosis.ledger.sizing.requests import request_table_bytes, rows_at
from kvdiag.diagnosis.ledger.sizing.sizing import Sizing
from kvdiag.diagnosis.units import GIB


class CannotTell(Exception):
    """The log cannot carry the question; the text says why, in one sentence."""


class NoFraction(CannotTell):
    """No fraction does what is asked for; the text says why, in one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A launch as the arithmetic sees it, before or after a change. GiB of the rank with least.

    target_cell  bytes the target's pools store for one reported token
    draft_cell   bytes a draft's pool stores for it; 0 without a draft
    weights      GiB that the target's weights take more of a rank; draft_weights and graphs the same of theirs
    shaky        GiB by which these and after_weights may be off
    room         GiB that another card has more; negative on a smaller one
    lost         GiB of the budget that the log's pool does not have, whatever the cause; negative when it has more
    context      length of a row of the request table; None where the log does not tell
    rows         its rows where a limit is set; None where SGLang counts them from the tokens
    bound        "at most" or "at least" where an unknown part of the weights makes the figure a bound
    least_after  after_weights at its lowest, most_after at its highest; None where it is known
    """

    opening: float
    after_weights: float
    fraction: float
    arithmetic: Arithmetic
    target_cell: float
    draft_cell: float = 0.0
    weights: float = 0.0
    draft_weights: float = 0.0
    graphs: float = 0.0
    shaky: float = 0.0
    room: float = 0.0
    lost: float = 0.0
    context: int | None = None
    rows: int | None = None
    bound: str | None = None
    least_after: float | None = None
    most_after: float | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def budget(self) -> float:
        """R in GiB."""
        return self.after_weights - self.opening * (1 - self.fraction)

    @property
    def fixed(self) -> float:
        """GiB that appear outside the pools and the request table; negative where they go."""
        return self.weights + self.draft_weights + self.graphs

    def tokens(self) -> int:
        """Tokens of one rank by the arithmetic."""
        return self.arithmetic.tokens(self.budget - self.lost) if self.budget > 0 else 0

    @property
    def is_capped(self) -> bool:
        """Whether --max-total-tokens, not the memory, sets the tokens."""
        return self.budget > 0 and self.tokens() < self.arithmetic.tokens(self.budget - self.lost, capped=False)

    def pools_gib(self, tokens: float) -> float:
        """GiB that pools of so many tokens take: the target's, the draft's, and request states."""
        return self.target_gib(tokens) + self.draft_gib(tokens) + self.state_gib()

    def target_gib(self, tokens: float) -> float:
        """GiB of so many tokens in the target's pools."""
        return tokens * self.target_cell / GIB

    def draft_gib(self, tokens: float) -> float:
        """GiB of so many tokens in the draft's pool."""
        return tokens * self.draft_cell / GIB

    def state_gib(self) -> float:
        """GiB of request states."""
        return self.arithmetic.state_gib(self.budget) if self.budget > 0 else 0.0

    @property
    def boundary(self) -> float:
        """Where the static fraction ends, in GiB from the start of the card."""
        return self.opening * self.fraction


def base_launch(sizing: Sizing) -> Launch:
    """The launch as it is. Raises CannotTell when readings, fraction or cell size are missing."""
    budget = sizing.budget
    if budget is None:
        raise CannotTell(sizing.limit.sentence)
    if sizing.inputs.fraction_doubt:
        raise CannotTell(sizing.inputs.fraction_doubt)
    if budget.arithmetic is None or budget.arithmetic.bytes_per_reported_token <= 0:
        raise CannotTell("neither a pool line nor the model's shape tells the bytes of a token")
    inputs = sizing.inputs
    return Launch(
        opening=budget.readings.opening.value,
        after_weights=budget.readings.after_weights.value,
        fraction=budget.fraction,
        arithmetic=budget.arithmetic,
        target_cell=_stored_cell(sizing, budget),
        draft_cell=_draft_cell(inputs),
        lost=lost_gib(inputs, budget),
        context=inputs.context_length,
        rows=inputs.running_requests if inputs.max_running_requests is not None else None,
    )


def with_fraction(sizing: Sizing, launch: Launch, printed: float) -> Launch:
    """With another --mem-fraction-static; a hidden multiplier of the release stays in place."""
    given = sizing.inputs.fraction
    factor = sizing.budget.fraction / given if sizing.budget is not None and given else 1.0
    return replace(launch, fraction=printed * factor)


def tokens_of(sizing: Sizing, base: Launch, then: Launch) -> int:
    """Tokens of the changed launch: the log's own count plus what the arithmetic says the change moves."""
    observed = sizing.inputs.tokens
    count = then.tokens()
    if observed is None or not count:
        return count
    moved = max(0, observed + count - base.tokens())
    page = page_of(then)
    cap = then.arithmetic.cap
    if cap is not None:
        moved = min(moved, cap // page * page)
    return moved


def tokens_before(sizing: Sizing, base: Launch) -> int:
    """Tokens of the launch as it is: the log's own count, else the arithmetic's: the pool was there all the same."""
    return base.tokens() if sizing.inputs.tokens is None else sizing.inputs.tokens


def taken_more(sizing: Sizing, base: Launch, then: Launch, tokens: int) -> float:
    """GiB that the changed launch takes more of this card: pools, the request table, what is fixed, less more room."""
    before = tokens_before(sizing, base)
    pools = then.pools_gib(tokens) - base.pools_gib(before)
    return pools + table_gib(sizing, then, tokens) - table_gib(sizing, base, before) + then.fixed - then.room


def table_gib(sizing: Sizing, launch: Launch, tokens: float) -> float:
    """GiB of the request table at so many tokens; 0 where the log does not tell its rows."""
    rows = launch.rows if launch.rows is not None else rows_at(sizing.inputs, int(tokens))
    if rows is None or launch.context is None:
        return 0.0
    return request_table_bytes(rows, launch.context) / GIB


def free_of(sizing: Sizing, base: Launch, then: Launch) -> float | None:
    """GiB free at the end of the changed launch; None where this log does not reach its end."""
    end = end_free(sizing.inputs)
    if end is None:
        return None
    return end - taken_more(sizing, base, then, tokens_of(sizing, base, then))


def lowest_of(sizing: Sizing, base: Launch, then: Launch) -> float | None:
    """GiB free at the lowest point on the way to the end, changed launch; None where the log does not show it."""
    lowest = lowest_free(sizing.inputs)
    if lowest is None:
        return None
    return lowest - taken_more(sizing, base, then, tokens_of(sizing, base, then))


def page_of(launch: Launch) -> int:
    """Tokens of one page."""
    return max(1, launch.arithmetic.page)


def _stored_cell(sizing: Sizing, budget: Budget) -> float:
    """Bytes the target's pools really store for a reported token, without a draft's share."""
    inputs, cell = sizing.inputs, budget.cell
    way = budget.arithmetic
    assert way is not None
    if way.window is not None and way.window_tokens is not None:
        return way.window.full  # the window pool stays as it is
    if cell is not None and element_size(inputs.kv_dtype) == 0.5 and cell.basis == "geometry":
        return cell.charged.value  # its pool line may leave the scales out
    if cell is not None and cell.stored is not None and inputs.pools.tokens:
        if cell.stored.low * 0.998 <= cell.charged.value <= cell.stored.high * 1.002:
            return cell.charged.value  # what is stored is what is charged, within the printed digits
        return cell.stored.value
    if way.window is not None or cell is None:
        return way.bytes_per_reported_token
    return cell.charged.value


def _draft_cell(inputs: SizingInputs) -> float:
    draft = inputs.draft
    if draft is not None and draft.pool is None and inputs.family is Family.MLA and draft.weights is not None:
        return LATENT_ROW * element_size(inputs.kv_dtype) * draft.layers  # 0.4.3 and 0.4.4 print no line of it
    if draft is None or not draft.pool or not draft.tokens:
        return 0.0
    return draft.pool * GIB / (draft.tokens + inputs.page_size)
