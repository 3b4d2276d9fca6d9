"""Linear-attention hybrids (Mamba2, GDN, KDA): one state a request slot, taken from the budget before the KV pool."""

from __future__ import annotations

from dataclasses import dataclass

from kvdiag.diagnosis.ledger.sizing.geometry import Geometry
from kvdiag.diagnosis.ledger.sizing.release import Release, release

DEFAULT_RATIO = 0.9
"""mamba_full_memory_ratio where nobody sets it: state bytes over KV bytes, so 47 % of the budget for states."""


@dataclass(frozen=True, slots=True)
class StatePool:
    """Slots for request states, and the bytes the sizing charges for them."""

    slots: int
    charged: float


def state_bytes(geometry: Geometry, attention_tp: int, state_size: int = 4) -> int:
    """Bytes of one request's state on one rank, for gated delta nets; `state_size` 4 (fp32) or 2 (bf16).

    Layers × (value heads × d_k × d_v × state size + convolution window × channels × 2 B).
    Source: configs/mamba_utils.py, Mamba2StateShape and mamba_cache_per_req.
    """
    tp = max(1, attention_tp)
    recurrent = geometry.linear_value_heads // tp * geometry.linear_key_dim * geometry.linear_value_dim * state_size
    channels = (
        2 * geometry.linear_key_heads * geometry.linear_key_dim
        + geometry.linear_value_heads * geometry.linear_value_dim
    ) // tp
    return geometry.linear_layers * (recurrent + channels * (geometry.convolution - 1) * 2)


def slots_per_request(
    radix: bool,
    extra_buffer: bool,
    overlap: bool,
    at: Release,
    speculative: bool = False,
    lazy: bool = False,
    skip_decode_lock: bool = False,
) -> int:
    """Slots one running request needs: 1 without prefix cache, else 3, and the extra buffer's 1 or 2.

    Source: 0.5.9–0.5.15 model_runner_kv_cache_mixin.py, _calculate_mamba_ratio(); 0.5.17+ kv_cache_configurator.py.
    """
    if not radix:
        return 1
    slots = 3
    if extra_buffer:
        two = overlap and not (speculative and at < release("0.5.10")) and not (lazy and at >= release("0.5.13"))
        slots += 2 if two else 1
    if skip_decode_lock and at >= release("0.5.17"):
        slots += 0 if not extra_buffer else -1
    return slots


def state_pool(
    budget: float,
    state: float,
    at: Release,
    *,
    ratio: float = DEFAULT_RATIO,
    given: int | None = None,
    requests: int | None = None,
    dp: int = 1,
    radix: bool = True,
    draft_tokens: int = 0,
    per_request: int = 3,
) -> StatePool:
    """Slots and charged bytes for a budget in bytes, `state` bytes a slot, by release.

    The ratio came with a post-release of 0.5.3; 0.5.3 itself still takes the slots given, the requests, or 512.
    Source: 0.5.2–0.5.3 model_runner.py, profile_max_num_token(); up to 0.5.6 handle_max_mamba_cache();
    0.5.7–0.5.15 model_runner_kv_cache_mixin.py, handle_max_mamba_cache(); 0.5.17+ mem_cache/kv_cache_configurator.py,
    _handle_max_mamba_cache().
    """
    if budget <= 0 or state <= 0:
        return StatePool(0, 0.0)
    dp = max(1, dp)
    drafts = max(0, draft_tokens)
    share = budget * ratio / (1 + ratio)
    running = None if requests is None else max(1, requests // dp)
    if at < release("0.5.3.post1"):
        slots = (given or requests or 512) // dp
        return StatePool(slots, slots * state)
    if at < release("0.5.7"):
        by_ratio = int(share // state) // (1 + drafts)
        slots = (by_ratio if radix else (given or requests or 512)) // dp
        return StatePool(slots, slots * state * (1 + drafts))
    if at < release("0.5.13"):
        return _separate_speculation(budget, ratio, state, at, given, requests, dp, radix, drafts)
    padding = 1 if at >= release("0.5.17") else 0
    if given is not None:
        slots = given // dp
    elif not radix and requests is not None:
        slots = running or 1
    else:
        slots = int((share - padding * state * (1 + drafts)) // (state * (1 + drafts / per_request)))
        slots = max(0, slots)
    speculative = min(running if running is not None else slots // per_request, slots // per_request)
    charged = (slots + padding) * state + (speculative + padding) * drafts * state
    return StatePool(slots, charged)


def _separate_speculation(
    budget: float,
    ratio: float,
    state: float,
    at: Release,
    given: int | None,
    requests: int | None,
    dp: int,
    radix: bool,
    drafts: int,
) -> StatePool:
    """0.5.7–0.5.12: speculative states are taken first; in 0.5.7 undivided and in the ratio branch only."""
    speculative = (requests or 0) // (1 if at < release("0.5.8") else dp) * drafts * state
    if given is not None:
        slots = given // dp
        return StatePool(slots, slots * state + (speculative if at >= release("0.5.8") else 0.0))
    if not radix and (requests is not None or at < release("0.5.9")):
        slots = (requests or 512) // dp
        return StatePool(slots, slots * state + (speculative if at >= release("0.5.8") else 0.0))
    slots = max(0, int((budget - speculative) * ratio / (1 + ratio) // state))
    return StatePool(slots, slots * state + speculative)
