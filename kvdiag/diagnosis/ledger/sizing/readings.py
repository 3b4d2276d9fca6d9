"""The two readings SGLang sizes its pools from, reduced over all ranks, and the budget they give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvdiag.diagnosis.ledger.sizing.estimate import HALF_DIGIT, Estimate
from kvdiag.diagnosis.ledger.sizing.inputs import RankMemory

EXACT = 0.13
"""GiB: what is allocated between the printed reading and SGLang's own (rotary tables, LoRA, torchao) at most."""
SMALL_BUFFERS = 0.5
"""GiB that index tensors and request tables take at most between a reserve and the reading after the pool."""


@dataclass(frozen=True, slots=True)
class Readings:
    """The two readings the sizing reduces over all ranks, in GiB, and the ranks that set them."""

    opening: Estimate
    after_weights: Estimate
    opening_rank: str
    smallest_rank: str


def readings_of(ranks: Sequence[RankMemory]) -> Readings | None:
    """Opening and after-weights as SGLang reduces them: each the minimum over the ranks, independently.

    A rank without an opening reading has it from after-weights + "mem usage". One without its after-weights reading
    counts by what it had free before its pools, to the small buffers made beside them, where that is the lowest.
    Source: 0.3–0.5.15 model_runner.py, init_torch_distributed(), 0.5.17+ distributed/bootstrap.py; and
    profile_max_num_token(), 0.5.11+ _profile_available_bytes(): get_available_gpu_memory(distributed=True) takes the
    minimum over the world.
    """
    openings: list[tuple[float, float, str]] = []
    after: list[tuple[float, str]] = []
    for rank in ranks:
        if rank.opening is not None:
            openings.append((rank.opening, HALF_DIGIT, rank.id))
        elif rank.after_weights is not None and rank.usage is not None:
            openings.append((rank.after_weights + rank.usage, 2 * HALF_DIGIT, rank.id))
        if rank.after_weights is not None:
            after.append((rank.after_weights, rank.id))
    if not openings or not after:
        return None
    opening, margin, opening_rank = min(openings)
    lowest, smallest = min(after)
    if opening <= 0:
        return None
    before_pools = min(((r.after_least, r.id) for r in ranks if r.after_least is not None), default=None)
    after_weights = Estimate.around(lowest, HALF_DIGIT)
    if before_pools is not None and before_pools[0] + SMALL_BUFFERS < lowest:
        least, smallest = before_pools
        after_weights = Estimate(least, least - HALF_DIGIT, least + SMALL_BUFFERS)
    return Readings(Estimate.around(opening, margin), after_weights, opening_rank, smallest)


def pool_budget(readings: Readings, fraction: float) -> Estimate:
    """R = A − P × (1 − f), in GiB; negative where SGLang refuses to start.

    Source: 0.3–0.5.6 model_runner.py, profile_max_num_token(); 0.5.7–0.5.10 model_runner_kv_cache_mixin.py, the same;
    0.5.11–0.5.15 _profile_available_bytes() there; 0.5.17+ mem_cache/kv_cache_configurator.py.
    """
    return readings.after_weights.minus(readings.opening.times(1 - fraction))
