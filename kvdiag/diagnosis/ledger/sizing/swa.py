"""Sliding-window hybrids: full layers keep every token, window layers a share of them in a pool of their own."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kvdiag.diagnosis.ledger.sizing.geometry import Geometry
from kvdiag.diagnosis.ledger.sizing.mha import element_size, heads_per_rank
from kvdiag.diagnosis.ledger.sizing.release import ReleaseRange


@dataclass(frozen=True, slots=True)
class WindowCells:
    """Bytes of one token over all full layers (F) and over all window layers (S) of a rank."""

    full: float
    window: float
    full_layers: int = 0
    window_layers: int = 0


@dataclass(frozen=True, slots=True)
class WindowPools:
    """Tokens of the full pool, which is what max_total_num_tokens reports, and of the window pool."""

    full: int
    window: int


class SplitRule(Enum):
    """How a release divides the budget between both pools."""

    UNIFORM = "every layer at the full layers' width, then split by layers (0.4.9–0.5.7)"
    DOUBLE_COUNT = "all layers and the window layers once more (0.5.8)"
    PROFILE_THEN_SPLIT = "by F + S, then split by F + ratio·S (0.5.9–0.5.10)"
    JOINT = "by F + ratio·S (0.5.11 and later)"
    REQUEST_CAP = "window pool by the requests that may run (0.5.14 and later, prefix cache off)"


def cells(geometry: Geometry, kv_dtype: str | None, attention_tp: int) -> WindowCells:
    """F and S of a model: heads × (d_k + d_v) × layers × element size, for each kind of layer.

    Source: 0.5.9–0.5.10 model_runner_kv_cache_mixin.py, get_cell_size_per_token();
    0.5.11+ pool_configurator.py, HybridSWAPoolConfigurator.
    """
    size = element_size(kv_dtype)
    full = heads_per_rank(geometry.kv_heads, attention_tp) * (geometry.head_dim + geometry.value_dim)
    window = heads_per_rank(geometry.swa_kv_heads, attention_tp) * 2 * geometry.swa_head_dim
    return WindowCells(
        full * geometry.layers * size,
        window * geometry.swa_layers * size,
        geometry.layers,
        geometry.swa_layers,
    )


def rule_for(release: ReleaseRange, request_cap: bool = False) -> tuple[SplitRule, ...]:
    """The split rules the releases of a range use, the latest first."""
    rules = []
    if release.may("0.5.14") and request_cap:
        rules.append(SplitRule.REQUEST_CAP)
    if release.may("0.5.11"):
        rules.append(SplitRule.JOINT)
    if release.may("0.5.9", "0.5.11"):
        rules.append(SplitRule.PROFILE_THEN_SPLIT)
    if release.may("0.5.8", "0.5.9"):
        rules.append(SplitRule.DOUBLE_COUNT)
    if release.may("0.4.9", "0.5.8"):
        rules.append(SplitRule.UNIFORM)
    return tuple(rules)


def split(
    budget: float,
    size: WindowCells,
    ratio: float,
    page: int = 1,
    rule: SplitRule = SplitRule.JOINT,
    cap: int | None = None,
    window_cap: int | None = None,
) -> WindowPools:
    """Tokens of both pools for a budget in bytes.

    `cap` is --max-total-tokens: it acts before the split up to 0.5.10, on the full pool since 0.5.11.
    0.5.9 multiplies the ratio by the full count before its page floor: its window pool may be one page larger.
    Source: 0.4.9–0.5.6 model_runner.py, set_num_token_hybrid(); 0.5.7–0.5.9 model_runner_kv_cache_mixin.py,
    set_num_tokens_hybrid_swa(); 0.5.10 _resolve_hybrid_swa_tokens(); 0.5.11+ pool_configurator.py,
    HybridSWAPoolConfigurator.calculate_pool_sizes().
    """
    full_cell, window_cell = size.full, size.window
    if budget <= 0 or full_cell + window_cell <= 0:
        return WindowPools(0, 0)
    if full_cell <= 0:
        tokens = _floor(_capped(int(budget // window_cell), cap), page)
        return WindowPools(tokens, tokens)
    if rule is SplitRule.REQUEST_CAP and window_cap is not None:
        window = -(-window_cap // page) * page
        full = _floor(_capped(int((budget - window * window_cell) // full_cell), cap), page)
        return WindowPools(max(0, full), window)
    if rule in (SplitRule.UNIFORM, SplitRule.DOUBLE_COUNT) and size.full_layers:
        layers = size.full_layers + size.window_layers
        uniform = full_cell / size.full_layers * layers
        charged = uniform + (window_cell if rule is SplitRule.DOUBLE_COUNT else 0.0)
        tokens = _capped(int(budget // charged), cap)
        if rule is SplitRule.DOUBLE_COUNT:
            tokens = _floor(tokens, page)
        full = int(tokens * layers / (size.full_layers + ratio * size.window_layers))
        return WindowPools(full, int(full * ratio))
    if rule is SplitRule.PROFILE_THEN_SPLIT:
        tokens = _floor(_capped(int(budget // (full_cell + window_cell)), cap), page)
        full = _floor(int(tokens * (full_cell + window_cell) / (full_cell + ratio * window_cell)), page)
        return WindowPools(full, _floor(int(full * ratio), page))
    full = _floor(_capped(int(budget // (full_cell + ratio * window_cell)), cap), page)
    return WindowPools(full, _floor(int(full * ratio), page))


def request_cap(
    window: int,
    requests: int,
    dp: int = 1,
    page: int = 1,
    chunk: int = 0,
    draft_tokens: int = 1,
    eviction: int = 128,
    overlap: bool = True,
    speculative: bool = False,
    decode_role: bool = False,
    extra_slots: int = 0,
) -> int:
    """Tokens of a window pool sized by the requests that may run (prefix cache off, 0.5.14 and later).

    Each request: window + eviction interval × draft tokens + one page + what a decode step allocates.
    Source: 0.5.14–0.5.21 pool_configurator.py, SWAChunkCapPoolConfigurator; 0.5.23 SWARequestCapPoolConfigurator.
    """
    decode_alloc = draft_tokens if speculative else page
    each = window + max(1, eviction) * max(1, draft_tokens) + page + decode_alloc
    cap = each * (requests // max(1, dp)) + page
    if decode_role:
        return cap + (window + page) * extra_slots
    return cap + (2 if overlap else 1) * max(0, chunk)


def _capped(tokens: int, cap: int | None) -> int:
    return tokens if cap is None else min(tokens, cap)


def _floor(tokens: int, page: int) -> int:
    return tokens // max(1, page) * max(1, page)
