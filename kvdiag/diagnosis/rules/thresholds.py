"""Every threshold of the rules, in one place. A case carries them, so that a team may hold its own."""

from __future__ import annotations

from dataclasses import dataclass

from kvdiag.diagnosis.units import GIB, Bytes


def _gib(value: float) -> Bytes:
    return Bytes(round(value * GIB))


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Sizes in bytes, shares from 0 to 1, tokens and requests as counts.

    free_wanted         free memory wanted at the end of a start on a card of `free_wanted_card` and more; below, in
                        proportion, never under `free_wanted_least`
    thin_share          less than this share of what is wanted is thin
    room_share          more than this multiple of what is wanted is room to use
    """

    free_wanted: Bytes = _gib(5)
    free_wanted_card: Bytes = _gib(60)
    free_wanted_least: Bytes = _gib(1.5)
    thin_share: float = 0.5
    room_share: float = 2.4

    memory_is_short: Bytes = _gib(1)  # an error with less than this free may be a shortage in disguise
    graphs_large: Bytes = _gib(3)
    graphs_share_named: Bytes = _gib(1)  # a kind of graph that takes this much is named among the remedies
    non_torch_large: Bytes = _gib(4)
    weights_near_limit: float = 0.85
    weights_multiple: float = 1.6  # of what the checkpoint's parameters and format make expect
    pool_takes_share: float = 0.85
    pool_tiny_tokens: int = 8_192
    auto_fraction_low: float = 0.5
    fractions_apart: float = 0.05  # two fractions as near as this leave no feasible one between them
    fraction_hopeless: float = 0.97  # a minimum above this leaves nothing to run in
    rank_spread: Bytes = _gib(1)
    rank_spread_share: float = 0.02  # of the card, so that big cards may differ a little more
    reserve_excess: Bytes = _gib(1)  # free after the pool above the reserve: something was counted that came back
    returned_memory: Bytes = _gib(0.25)  # free memory that rises while a draft's pool is built
    fragmentation_block: Bytes = _gib(0.25)  # less lies about in every process
    trainer_request: Bytes = _gib(8)
    foreign_memory: Bytes = _gib(2)  # held by another process, beyond a context
    context_least: Bytes = _gib(0.3)  # a CUDA context and what comes with it
    context_most: Bytes = _gib(3)
    desktop_least: Bytes = _gib(1)
    desktop_most: Bytes = _gib(2.5)
    bogus_request: Bytes = _gib(1024)
    memory_fell: Bytes = _gib(0.5)  # between two samples, without an entry
    large_prefill_tokens: int = 4_096
    retractions: int = 2
    usage_full: float = 0.995
    usage_high: float = 0.9
    swa_idle: float = 0.1
    state_share: float = 0.6  # state pool against KV pool
    stage_spread: float = 0.12  # of the weights, between pipeline stages
    workload_share: float = 0.5  # of the pool, that the request limit can use at most
    host_reserve: int = 10 * GIB


DEFAULT_THRESHOLDS = Thresholds()
