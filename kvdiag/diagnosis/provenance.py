"""Provenance: where a release of SGLang computes the figures of a report; module and function, read in its wheels.

A breakpoint names the first release read in which a quantity is computed there; between two releases read (such as
0.5.15 and 0.5.17) the change may lie one release earlier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvdiag.diagnosis.release import Release, ReleaseRange, release

OLDEST = "0.3.6"
_RUNNER = "sglang/srt/model_executor/model_runner.py"
_MIXIN = "sglang/srt/model_executor/model_runner_kv_cache_mixin.py"
_POOLS = "sglang/srt/model_executor/pool_configurator.py"
_CONFIGURATOR = "sglang/srt/mem_cache/kv_cache_configurator.py"
_BOOTSTRAP = "sglang/srt/distributed/bootstrap.py"
_ARGS = "sglang/srt/server_args.py"
_MEMORY_HOOK = "sglang/srt/arg_groups/memory_hook.py"
_WORKER = "sglang/srt/managers/tp_worker.py"


@dataclass(frozen=True, slots=True)
class Place:
    """One module and function, for the releases from `since` up to, but not with, `before`."""

    since: str
    before: str | None
    module: str
    function: str
    what: str = ""

    def holds(self, releases: ReleaseRange) -> bool:
        """Whether some release of a range computes the quantity here."""
        return releases.may(self.since, self.before)

    def to_document(self) -> dict[str, str | None]:
        """JSON values."""
        return {
            "since": self.since,
            "before": self.before,
            "module": self.module,
            "function": self.function,
            "what": self.what or None,
        }


@dataclass(frozen=True, slots=True)
class Quantity:
    """One figure of a report, how it is made, and the places that make it."""

    name: str
    title: str
    formula: str
    places: tuple[Place, ...]
    rests_on: tuple[str, ...] = ()

    def at(self, releases: ReleaseRange) -> tuple[Place, ...]:
        """The places in the releases of a range, oldest first."""
        return tuple(place for place in self.places if place.holds(releases))


QUANTITIES: tuple[Quantity, ...] = (
    Quantity(
        "max_total_num_tokens",
        "Tokens of the KV pool on one rank",
        "whole pages of min(budget / bytes per token, --max-total-tokens)",
        (
            Place(OLDEST, "0.5.10", _RUNNER, "init_memory_pool()", "caps and page rounding, inside the model runner"),
            Place(
                "0.5.10", "0.5.11", _MIXIN, "_resolve_token_capacity()", "caps, then pages, then the minimum over PP"
            ),
            Place(
                "0.5.11", "0.5.17", _MIXIN, "_resolve_memory_pool_config()", "division and pages in the configurator"
            ),
            Place("0.5.11", None, _POOLS, "calculate_pool_sizes()", "one configurator a pool family"),
            Place("0.5.17", None, _CONFIGURATOR, "_resolve_memory_pool_config()", "cap, minimum over PP, pages again"),
        ),
        ("budget", "bytes_per_token", "page_size", "max_total_tokens"),
    ),
    Quantity(
        "budget",
        "Memory the pools may take",
        "after_weights − opening × (1 − mem_fraction_static)",
        (
            Place(OLDEST, "0.5.7", _RUNNER, "profile_max_num_token()"),
            Place("0.5.7", "0.5.11", _MIXIN, "profile_max_num_token()"),
            Place("0.5.11", "0.5.17", _MIXIN, "_profile_available_bytes()"),
            Place("0.5.17", None, _CONFIGURATOR, "_profile_available_bytes()"),
        ),
        ("opening", "after_weights", "mem_fraction_static"),
    ),
    Quantity(
        "opening",
        "Free memory before the weights, the minimum over all ranks",
        "MIN over TP × PP of the device's free memory once torch.distributed is up",
        (
            Place(OLDEST, "0.5.17", _RUNNER, "init_torch_distributed()", "returned as min_per_gpu_memory"),
            Place("0.5.17", "0.5.21", _BOOTSTRAP, "init_torch_distributed()", "kept as pre_model_load_memory"),
            Place("0.5.21", None, _BOOTSTRAP, "measure_pre_model_load_memory()", "kept as pre_model_load_memory"),
        ),
        ("free_memory",),
    ),
    Quantity(
        "after_weights",
        "Free memory when the pool is sized, the minimum over all ranks",
        "MIN over TP × PP of the device's free memory, weights loaded (the draft's too since 0.5.14)",
        (
            Place(OLDEST, "0.5.7", _RUNNER, "profile_max_num_token()"),
            Place("0.5.7", "0.5.11", _MIXIN, "profile_max_num_token()"),
            Place("0.5.11", "0.5.17", _MIXIN, "_profile_available_bytes()"),
            Place("0.5.17", None, _CONFIGURATOR, "_profile_available_bytes()"),
        ),
        ("free_memory",),
    ),
    Quantity(
        "free_memory",
        "Free memory of a device",
        "the driver's free memory after the allocator's cache is emptied; on integrated devices the host's available",
        (
            Place(OLDEST, "0.5.3", "sglang/srt/utils.py", "get_available_gpu_memory()"),
            Place("0.5.3", None, "sglang/srt/utils/common.py", "get_available_gpu_memory()"),
        ),
    ),
    Quantity(
        "reserve",
        "Memory that no pool takes, for graphs, workspaces and activations",
        "opening × (1 − mem_fraction_static)",
        (
            Place(OLDEST, "0.5.7", _RUNNER, "profile_max_num_token()"),
            Place("0.5.7", "0.5.11", _MIXIN, "profile_max_num_token()"),
            Place("0.5.11", "0.5.17", _MIXIN, "_profile_available_bytes()"),
            Place("0.5.17", None, _CONFIGURATOR, "_profile_available_bytes()"),
        ),
        ("opening", "mem_fraction_static"),
    ),
    Quantity(
        "mem_fraction_static",
        "The fraction where nobody sets it",
        "by ranks up to 0.4.6, by the card's memory, chunk and graph sizes since 0.4.7",
        (
            Place(OLDEST, "0.5.3", _ARGS, "__post_init__()"),
            Place("0.5.3", "0.5.19", _ARGS, "_handle_gpu_memory_settings()"),
            Place("0.4.9", "0.5.19", _ARGS, "adjust_mem_fraction_for_vlm()", "models with a vision tower"),
            Place("0.5.19", None, _MEMORY_HOOK, "handle_gpu_memory_settings()"),
            Place("0.5.19", None, _MEMORY_HOOK, "adjust_mem_fraction_for_vlm()", "models with a vision tower"),
        ),
    ),
    Quantity(
        "bytes_per_token",
        "Bytes one token takes on one rank, as charged",
        "MHA: heads a rank × (d_k + d_v) × layers × element size; MLA: (kv_lora_rank + rope) × layers × element size",
        (
            Place(OLDEST, "0.5.7", _RUNNER, "profile_max_num_token()"),
            Place("0.5.7", "0.5.11", _MIXIN, "get_cell_size_per_token()"),
            Place("0.5.11", None, _POOLS, "DefaultPoolConfigurator"),
            Place("0.5.11", None, _POOLS, "HybridSWAPoolConfigurator", "models with sliding windows"),
            Place("0.5.12", None, _POOLS, "DSV4PoolConfigurator", "DeepSeek-V4"),
        ),
    ),
    Quantity(
        "swa_tokens",
        "Tokens of the sliding-window pool",
        "tokens of the full pool × --swa-full-tokens-ratio",
        (
            Place("0.4.9", "0.5.7", _RUNNER, "set_num_token_hybrid()"),
            Place("0.5.7", "0.5.10", _MIXIN, "set_num_tokens_hybrid_swa()"),
            Place("0.5.10", "0.5.11", _MIXIN, "_resolve_hybrid_swa_tokens()"),
            Place("0.5.11", None, _POOLS, "HybridSWAPoolConfigurator.calculate_pool_sizes()"),
            Place("0.5.14", "0.5.23", _POOLS, "SWAChunkCapPoolConfigurator", "by requests, prefix cache off"),
            Place("0.5.23", None, _POOLS, "SWARequestCapPoolConfigurator", "by requests"),
        ),
        ("budget", "bytes_per_token"),
    ),
    Quantity(
        "max_mamba_cache_size",
        "Slots for the states of linear-attention layers",
        "budget × ratio / (1 + ratio) / bytes of one state, where nobody sets it",
        (
            Place("0.5.2", "0.5.4", _RUNNER, "profile_max_num_token()"),
            Place("0.5.4", "0.5.7", _RUNNER, "handle_max_mamba_cache()"),
            Place("0.5.7", "0.5.17", _MIXIN, "handle_max_mamba_cache()"),
            Place("0.5.17", None, _CONFIGURATOR, "_handle_max_mamba_cache()"),
            Place("0.5.17", None, _CONFIGURATOR, "_calculate_mamba_ratio()", "slots one request needs"),
        ),
        ("budget",),
    ),
    Quantity(
        "max_running_requests",
        "Requests that may run at once, a DP worker",
        "the given limit // dp_size, or an estimate from tokens and context, clamped by the pool",
        (
            Place(OLDEST, "0.5.7", _WORKER, "TpModelWorker.__init__()"),
            Place("0.5.7", "0.5.10", _RUNNER, "initialize()"),
            Place("0.5.10", "0.5.17", _MIXIN, "_resolve_max_num_reqs()"),
            Place("0.5.17", None, _CONFIGURATOR, "resolve_max_num_reqs()"),
        ),
        ("max_total_num_tokens",),
    ),
)
SHOWN = (
    "max_total_num_tokens",
    "opening",
    "after_weights",
    "reserve",
    "bytes_per_token",
    "max_running_requests",
)
"""What a report's page explains of a launch."""
_BY_NAME = {quantity.name: quantity for quantity in QUANTITIES}
_ALSO = {
    "kv_tokens": "max_total_num_tokens",
    "tokens": "max_total_num_tokens",
    "min_per_gpu_memory": "opening",
    "pre_model_load_memory": "opening",
    "cell_size": "bytes_per_token",
    "rest_memory": "budget",
    "max_num_reqs": "max_running_requests",
    "swa_layer_tokens": "swa_tokens",
}


def quantity(name: str) -> Quantity | None:
    """The quantity of that name, or of the name SGLang's source gives it; None when there is none."""
    plain = name.strip().lower().lstrip("-").replace("-", "_")
    return _BY_NAME.get(_ALSO.get(plain, plain))


def trail(name: str, releases: ReleaseRange) -> tuple[tuple[Quantity, tuple[Place, ...]], ...]:
    """A quantity and what it rests on, each with its places in the releases of a range; empty when unknown."""
    first = quantity(name)
    if first is None:
        return ()
    found: list[Quantity] = []
    waiting = [first]
    while waiting:
        one = waiting.pop(0)
        if one not in found:
            found.append(one)
            waiting.extend(other for other in map(_BY_NAME.get, one.rests_on) if other is not None)
    return tuple((one, one.at(releases)) for one in found)


def explain_quantity(name: str, version: str | None = None) -> list[str] | None:
    """The trail as lines, for `kvdiag explain NAME --release VERSION`; None when there is no such quantity.

    Without a version, or with one that cannot be read, the places of every release read.
    """
    exact = Release.read(version)
    steps = trail(name, ReleaseRange(exact=exact))
    if not steps:
        return None
    title = steps[0][0].title
    lines = [title if exact is None else f"{title}, in SGLang {exact}", ""]
    if version is not None and exact is None:
        lines[1:] = [f"{version!r} is no SGLang release (written as 0.5.9); here are all releases read.", ""]
    for one, places in steps:
        lines += [one.name, f"    {one.title}", f"    = {one.formula}"]
        for place in places:
            span = f"{_span(place)}: " if exact is None else ""
            note = f" ({place.what})" if place.what else ""
            lines.append(f"    {span}{place.module}, {place.function}{note}")
        if not places:
            lines.append(f"    not read in this release; the oldest one read is {OLDEST}")
        lines.append("")
    return lines[:-1]


def to_document(releases: ReleaseRange, names: Sequence[str] = SHOWN) -> list[dict[str, object]]:
    """A short trail for a page: each quantity with its places in the releases of a range."""
    found: list[dict[str, object]] = []
    for name in names:
        one = _BY_NAME[name]
        found.append(
            {
                "name": one.name,
                "title": one.title,
                "formula": one.formula,
                "places": [place.to_document() for place in one.at(releases)],
            }
        )
    return found


def _span(place: Place) -> str:
    return f"{place.since} and later" if place.before is None else f"{place.since} and later, before {place.before}"


def _checked() -> None:
    """Every breakpoint in the table can be read; a typing mistake shows on import."""
    for one in QUANTITIES:
        for place in one.places:
            release(place.since)
            if place.before is not None:
                release(place.before)


_checked()
