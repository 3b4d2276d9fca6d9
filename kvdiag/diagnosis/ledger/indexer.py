"""The index keys of sparse attention (DSA, NSA): their part of a pool that one line prints together with the KV."""

from __future__ import annotations

import math

from kvdiag.diagnosis.events.weights import WeightsLoaded
from kvdiag.diagnosis.launches import Launch
from kvdiag.diagnosis.ledger.model import KVPool, Ledger, Model
from kvdiag.diagnosis.ledger.sizing.dsa import layer_rows
from kvdiag.diagnosis.ledger.sizing.gather import is_sparse, kv_dtype_of, platform_of
from kvdiag.diagnosis.ledger.sizing.geometry import Geometry, geometry_of
from kvdiag.diagnosis.ledger.sizing.mha import stage_layers
from kvdiag.diagnosis.units import GIB, Bytes

_HALF_DIGIT = 0.005 * GIB


def keeps_index_keys(launch: Launch) -> bool:
    """Whether the launch's model keeps index keys, by its class and its path."""
    loaded = launch.first(WeightsLoaded)
    return is_sparse(loaded.architecture if loaded else None, _geometry(launch))


def _geometry(launch: Launch) -> Geometry | None:
    path = launch.value("model_path")
    return geometry_of(path if isinstance(path, str) else None)


def index_keys(launch: Launch, ledger: Ledger, pool: KVPool) -> tuple[Bytes, str] | None:
    """Bytes of index keys within a pool's printed size, and the equation; None where the line does not tell.

    A layer's row and its index key have one of few sizes, by the KV dtype, the platform and the kernels; those that
    fit the printed size decide. Layers without an index of their own (0.5.19 and later) keep the row alone.
    Source: mem_cache/memory_pool.py, NSATokenToKVPool (0.5.3–0.5.12), DSATokenToKVPool (0.5.13 and later).
    """
    geometry = _geometry(launch)
    if pool.size is None or not pool.tokens or pool.printed != 1:
        return None
    page = int(launch.number_of("page_size") or 1)
    known: int | None = None
    if pool.model is Model.DRAFT:
        known = 1
    elif geometry is not None:
        known = stage_layers(geometry.layers, int(launch.number_of("pp_size") or 1))
    rows = pool.tokens + page
    low, high = (pool.size - _HALF_DIGIT) / rows, (pool.size + _HALF_DIGIT) / rows
    fits: set[tuple[int, int, int]] = set()  # bytes of all rows, bytes of a key, layers that own one
    whole: set[tuple[int, int, int]] = set()
    for row, key in layer_rows(kv_dtype_of(launch, ledger), platform_of(launch)):
        for layers in [known] if known else _whole(low, high, row + key):
            for owners in _whole(low - row * layers, high - row * layers, key):
                if 0 < owners <= layers:
                    (whole if owners == layers else fits).add((row * layers, key, owners))
    best = whole or fits
    if len(best) != 1:
        return None
    (latent, key, owners) = best.pop()
    size = Bytes(round(pool.size * key * owners / (latent + key * owners)))
    return size, f"{owners} layers × {key} bytes of {latent + key * owners:,} a token"


def _whole(low: float, high: float, step: int) -> list[int]:
    """Whole numbers n with low ≤ n × step ≤ high, at most three of them."""
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return list(range(first, min(last, first + 2) + 1))
