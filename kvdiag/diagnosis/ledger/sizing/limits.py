"""What the pool's size rests on, decided by evidence: a cap, a rank, a ratio, slots, a known fault, or memory."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kvdiag.diagnosis.ledger.sizing.budget import Budget
from kvdiag.diagnosis.ledger.sizing.estimate import HALF_DIGIT
from kvdiag.diagnosis.ledger.sizing.inputs import Family, SizingInputs
from kvdiag.diagnosis.ledger.sizing.readings import EXACT
from kvdiag.diagnosis.ledger.sizing.swa import SplitRule
from kvdiag.diagnosis.units import GIB

UNIFIED = 0.3
"""GiB by which the memory of a device that shares it with the host may move between reading and measurement."""
_NOTABLE = 0.5
"""GiB: what the smallest rank must cost another before it is called the limit."""
_NOTABLE_SHARE = 0.03
_UNALLOCATED = 1.0
"""GiB above the reserve that must stay free after the pool before a sizing fault is named."""
_RETURNED = 0.5
"""GiB that must come back after the pool before a duplicate embedding of the draft is named."""
_LARGE_SHARE = 0.25
_HALF = 0.5


class LimitedBy(StrEnum):
    """The report document's words."""

    MEMORY = "memory"
    MAX_TOTAL_TOKENS = "max_total_tokens"
    SMALLEST_RANK = "smallest_rank"
    SWA_RATIO = "swa_ratio"
    MAMBA_RATIO = "mamba_ratio"
    REQUEST_SLOTS = "request_slots"
    SIZING_FAULT = "sizing_fault"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class RankCost:
    """What one rank gives up because the pool is sized for the smallest: GiB and tokens."""

    rank: str
    gib: float
    tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What limits the pool, in one word and one sentence, with the figures behind it.

    gap          predicted minus allocated, in GiB; positive when the pool is smaller than the arithmetic
    unexplained  the gap where no cause is known, else None
    fault        the id of a known sizing fault, else None; `fault_gib` what it costs
    smallest     the rank that sets the size for all, and what that costs each other rank
    """

    kind: LimitedBy
    sentence: str
    gap: float | None = None
    unexplained: float | None = None
    fault: str | None = None
    fault_gib: float | None = None
    smallest: str | None = None
    costs: tuple[RankCost, ...] = ()


def decide(inputs: SizingInputs, budget: Budget | None, of_fraction: str = "") -> Limit:
    """What limits the pool. A discrepancy beyond the rounding without a known cause stays unexplained.

    of_fraction  what there is to say of a fraction that no line prints
    """
    if cap_binds(inputs):
        return Limit(
            kind=LimitedBy.MAX_TOTAL_TOKENS,
            sentence=f"--max-total-tokens {inputs.max_total_tokens:,} sets the pool; memory would allow more"
            if budget is None or budget.memory_tokens is None
            else f"--max-total-tokens {inputs.max_total_tokens:,} sets the pool; "
            f"memory would allow about {int(budget.memory_tokens.value):,} tokens",
            costs=(),
        )
    if budget is None or budget.tokens is None or budget.arithmetic is None or not inputs.tokens:
        return Limit(kind=LimitedBy.UNKNOWN, sentence=_why_unknown(inputs, budget, of_fraction))
    cell = budget.arithmetic.bytes_per_reported_token
    gap = (budget.tokens.value - inputs.tokens) * cell / GIB
    share = abs(budget.tokens.value / inputs.tokens - 1)
    inside = budget.tokens.low <= inputs.tokens <= budget.tokens.high
    cap = inputs.max_total_tokens
    by_cap = cap is not None and budget.memory_tokens is not None and budget.memory_tokens.low > cap
    # a cap leaves no room for readings that are a little off
    exact = UNIFIED if inputs.unified_memory else EXACT
    if not inside and share > 0.005 and (by_cap or abs(gap) > exact):
        return _explain(inputs, budget, gap)
    return _exact(inputs, budget, gap)


def cap_binds(inputs: SizingInputs) -> bool:
    """Whether --max-total-tokens, rounded down to pages, is the log's count."""
    cap = inputs.max_total_tokens
    if cap is None or not inputs.tokens or cap <= 0:
        return False
    page = max(1, inputs.page_size)
    return inputs.tokens in (cap, cap // page * page)


def lost_gib(inputs: SizingInputs, budget: Budget) -> float:
    """GiB of the budget that the log's pool does not have, whatever the cause; negative when it has more."""
    if not inputs.tokens or budget.tokens is None or budget.arithmetic is None or cap_binds(inputs):
        return 0.0
    return (budget.tokens.value - inputs.tokens) * budget.arithmetic.bytes_per_reported_token / GIB


def rank_costs(inputs: SizingInputs, budget: Budget) -> tuple[str, tuple[RankCost, ...]]:
    """The smallest rank, and what each other rank could have had by its own two readings."""
    cell = budget.arithmetic.bytes_per_reported_token if budget.arithmetic else 0.0
    alone = {
        rank.id: rank.after_weights - rank.opening * (1 - budget.fraction)
        for rank in inputs.ranks
        if rank.after_weights is not None and rank.opening is not None
    }
    costs = []
    if inputs.pp > 1:
        return _stage_costs(inputs, budget, cell)
    for rank, kv in alone.items():
        surplus = kv - budget.kv.value
        if surplus > 0.01:
            costs.append(RankCost(rank, surplus, int(surplus * GIB // cell) if cell > 0 else None))
    return budget.readings.smallest_rank, tuple(costs)


def _stage_costs(inputs: SizingInputs, budget: Budget, cell: float) -> tuple[str, tuple[RankCost, ...]]:
    """The pipeline stage with the largest pool, and what the others leave because all take its tokens."""
    pools = [(rank.pool, rank.id) for rank in inputs.ranks if rank.pool is not None]
    if not pools:
        return budget.readings.smallest_rank, ()
    largest, name = max(pools)
    ends = {rank.id: rank.pool_end for rank in inputs.ranks if rank.pool_end is not None}
    least = min(ends.values(), default=0.0)
    costs = [
        RankCost(rank, largest - pool, int((largest - pool) * GIB // cell) if cell > 0 else None)
        for pool, rank in pools
        if largest - pool > 0.01 and ends.get(rank, least + 1.0) - least > 0.01
    ]
    return name, tuple(costs)


def surplus_after_pool(inputs: SizingInputs, budget: Budget) -> float | None:
    """GiB free after the pool beyond the reserve, on the rank with least; None without the reading."""
    ends = [rank.pool_end for rank in inputs.ranks if rank.pool_end is not None]
    return min(ends) - budget.reserve if ends else None


def _explain(inputs: SizingInputs, budget: Budget, gap: float) -> Limit:
    """A pool that is not what the arithmetic says: a known fault with its evidence, or an unexplained gap."""
    if inputs.fraction_doubt:
        return Limit(kind=LimitedBy.UNKNOWN, sentence=inputs.fraction_doubt, gap=gap, unexplained=gap)
    surplus = surplus_after_pool(inputs, budget)
    unseen = inputs.world - len([rank for rank in inputs.ranks if rank.after_weights is not None])
    left = surplus is not None and surplus > _UNALLOCATED
    if gap > 0 and left and surplus is not None and abs(surplus - gap) < max(0.5, 0.1 * gap):
        if inputs.family is Family.SWA and inputs.release.may("0.5.8", "0.5.9"):
            return Limit(
                kind=LimitedBy.SIZING_FAULT,
                sentence=f"{gap:.2f} GiB of the budget were not allocated: the release counts window layers twice",
                gap=gap,
                fault="swa-cell-double-count",
                fault_gib=gap,
            )
        if unseen <= 0 and inputs.pp == 1 and inputs.release.reaches("0.5.19") is not True:
            return Limit(
                kind=LimitedBy.SIZING_FAULT,
                sentence=f"{gap:.2f} GiB of the budget were not allocated although they are free after the pool: "
                "buffers of the loader were still held when SGLang measured",
                gap=gap,
                fault="loader-memory-still-referenced",
                fault_gib=gap,
            )
    if gap > 0 and inputs.post_capture:
        return Limit(
            kind=LimitedBy.MEMORY,
            sentence=f"memory: the pool was sized again after the graphs, which took {gap:.2f} GiB of its budget",
            gap=gap,
        )
    if gap > 0 and unseen > 0:
        sentence = (
            f"the pool is {gap:.2f} GiB smaller than these ranks allow; {unseen} of {inputs.world} ranks are not in "
            "the log, and the smallest of all sets the size"
        )
    elif gap > 0:
        sentence = f"the pool is {gap:.2f} GiB smaller than the arithmetic gives, for no known reason"
    else:
        sentence = f"the pool is {-gap:.2f} GiB larger than the arithmetic gives, for no known reason"
    return Limit(kind=LimitedBy.UNKNOWN, sentence=sentence, gap=gap, unexplained=gap)


def _exact(inputs: SizingInputs, budget: Budget, gap: float) -> Limit:
    """The arithmetic holds: which of its terms made the pool what it is."""
    way = budget.arithmetic
    assert way is not None
    smallest, costs = rank_costs(inputs, budget)
    returned = _returned_after_pool(inputs)
    if returned is not None and returned > _RETURNED:
        return Limit(
            kind=LimitedBy.SIZING_FAULT,
            sentence=f"{returned:.2f} GiB came back after the pool was sized: the draft's own embedding and output "
            "head, freed too late to count",
            gap=gap,
            fault="draft-embed-dup-after-sizing",
            fault_gib=returned,
            smallest=smallest,
            costs=costs,
        )
    surplus = surplus_after_pool(inputs, budget)
    twice = way.window is not None and way.split is SplitRule.DOUBLE_COUNT
    if twice and surplus is not None and surplus > _UNALLOCATED:
        return Limit(
            kind=LimitedBy.SIZING_FAULT,
            sentence=f"{surplus:.2f} GiB of the budget were not allocated: the release counts window layers twice",
            gap=gap,
            fault="swa-cell-double-count",
            fault_gib=surplus,
            smallest=smallest,
            costs=costs,
        )
    overshoot = _overshoot(inputs, budget)
    if overshoot > _NOTABLE:
        return Limit(
            kind=LimitedBy.SIZING_FAULT,
            sentence=f"the pool stores {overshoot:.2f} GiB more than its budget: rows are larger than the release "
            "charges for them",
            gap=gap,
            fault="dsa-pool-exceeds-budget",
            fault_gib=overshoot,
            smallest=smallest,
            costs=costs,
        )
    notable = max(_NOTABLE, _NOTABLE_SHARE * budget.kv.value)
    dear = [cost for cost in costs if cost.gib >= notable]
    if dear:
        most = max(dear, key=lambda cost: cost.gib)
        tokens = f", {most.tokens:,} tokens" if most.tokens is not None else ""
        return Limit(
            kind=LimitedBy.SMALLEST_RANK,
            sentence=f"{smallest or 'the smallest rank'} has least memory and sets the pool of all; "
            f"{most.rank} alone could have {most.gib:.2f} GiB more{tokens}",
            smallest=smallest,
            costs=costs,
            gap=gap,
        )
    kind, sentence = _share(inputs, budget, gap)
    return Limit(kind=kind, sentence=sentence, smallest=smallest, costs=costs, gap=gap)


def _share(inputs: SizingInputs, budget: Budget, gap: float) -> tuple[LimitedBy, str]:
    """A second pool that takes a large part of the budget, or plain memory."""
    way = budget.arithmetic
    assert way is not None
    kv = budget.kv.value
    state = way.state_gib(kv)
    if state > _LARGE_SHARE * kv:
        by = f"request states take {state:.2f} GiB of the budget of {kv:.2f}"
        if way.state_scales:
            return LimitedBy.MAMBA_RATIO, f"{by}, by --mamba-full-memory-ratio"
        return LimitedBy.REQUEST_SLOTS, f"{by}, by the number of slots"
    if way.window is not None:
        part = way.ratio * way.window.window / max(way.bytes_per_reported_token, 1e-9)
        if part > _HALF:
            by = f"the sliding-window pool takes {100 * part:.0f} % of each reported token"
            if way.split is SplitRule.REQUEST_CAP:
                return LimitedBy.REQUEST_SLOTS, f"{by}, by the number of requests"
            return LimitedBy.SWA_RATIO, f"{by}, by --swa-full-tokens-ratio {way.ratio:g}"
    if inputs.unified_memory and abs(gap) > HALF_DIGIT:
        size = "smaller" if gap > 0 else "larger"
        return LimitedBy.MEMORY, (
            f"memory: the pool is {abs(gap):.2f} GiB {size} than the two readings give; host and GPU share one memory, "
            "so page cache, swap and other programs move what is available between a reading and the measurement"
        )
    return LimitedBy.MEMORY, f"memory: the budget of {kv:.3f} GiB is used to the last page"


def _returned_after_pool(inputs: SizingInputs) -> float | None:
    """GiB that were free again after the pool, on the rank where it is least; only with a draft loaded before."""
    if inputs.draft is None or inputs.draft.before_pool is not True:
        return None
    back = [
        rank.after_pool - rank.pool_end
        for rank in inputs.ranks
        if rank.after_pool is not None and rank.pool_end is not None
    ]
    return min(back) if back else None


def _overshoot(inputs: SizingInputs, budget: Budget) -> float:
    """GiB a sparse pool stores beyond what the sizing charged for it."""
    cell = budget.cell
    if inputs.family is not Family.DSA or cell is None or cell.stored is None or not inputs.tokens:
        return 0.0
    return (cell.stored.value - cell.charged.value) * inputs.tokens / GIB


def _why_unknown(inputs: SizingInputs, budget: Budget | None, of_fraction: str) -> str:
    if budget is not None and budget.kv.value <= 0:
        return (
            f"no pool: the weights leave {budget.readings.after_weights.value:.2f} GiB, less than the reserve of "
            f"{budget.reserve:.2f}; raise --mem-fraction-static above {budget.smallest_fraction:.4f}"
        )
    if inputs.fraction is None:
        return of_fraction or "the log does not say which fraction was in effect"
    if budget is None:
        return "the log lacks the free memory before or after loading"
    if not inputs.tokens:
        return "the log does not give the number of tokens"
    return "neither the pool line nor the model's shape tells the bytes of a token"
