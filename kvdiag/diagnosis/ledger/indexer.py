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
_LARGEST_PAGE = 128
_LAYERS = (("DeepseekV32", 61), ("GlmMoeDsa", 78))
"""Layers of public sparse models by their class, where no path tells the model."""


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
    page = launch.number_of("page_size")
    layers = geometry.layers if geometry is not None else _layers_of_class(launch)
    if layers is None:
        return None
    known = 1 if pool.model is Model.DRAFT else stage_layers(layers, int(launch.number_of("pp_size") or 1))
    most, least = (int(page), int(page)) if page else (_LARGEST_PAGE, 1)  # a pool has one page more than it counts
    low = (pool.size - _HALF_DIGIT) / (pool.tokens + most)
    high = (pool.size + _HALF_DIGIT) / (pool.tokens + least)
    fits: set[tuple[int, int, int]] = set()  # bytes of all rows, bytes of a key, layers that own one
    whole: set[tuple[int, int, int]] = set()
    for row, key in layer_rows(kv_dtype_of(launch, ledger), platform_of(launch)):
        for owners in _whole(low - row * known, high - row * known, key):
            if 0 < owners <= known:
                (whole if owners == known else fits).add((row * known, key, owners))
    best = whole or fits
    if len(best) != 1:
        return None
    (latent, key, owners) = best.pop()
    size = Bytes(round(pool.size * key * owners / (latent + key * owners)))
    return size, f"{owners} layers × {key} bytes of {latent + key * owners:,} a token"


def _layers_of_class(launch: Launch) -> int | None:
    loaded = launch.first(WeightsLoaded)
    name = (loaded.architecture if loaded else None) or ""
    return next((layers for part, layers in _LAYERS if part in name), None)


def _whole(low: float, high: float, step: int) -> list[int]:
    """Whole numbers n with low ≤ n × step ≤ high, at most three of them."""
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return list(range(first, min(last, first + 2) + 1))
