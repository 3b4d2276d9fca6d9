"""Launch and ledgers to SizingInputs: the few figures of a log that SGLang's sizing depends on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kvdiag.diagnosis.events.failure import NoRoomForPool
from kvdiag.diagnosis.events.hardware import DeviceNamed
from kvdiag.diagnosis.events.kv_pool import (
    BudgetMeasured,
    BudgetReserved,
    DeepSeekV4Budget,
    KVCacheDtype,
    PostCapturePool,
    SlidingWindowPool,
    SlidingWindowUsage,
    UnifiedPool,
)
from kvdiag.diagnosis.events.overflow import DeviceOutOfMemory
from kvdiag.diagnosis.events.ready import ServerLimits
from kvdiag.diagnosis.events.weights import WeightsLoaded
from kvdiag.diagnosis.launches import Launch
from kvdiag.diagnosis.ledger.model import Ledger, Model, Moment, Pool
from kvdiag.diagnosis.ledger.sizing.budget import Budget
from kvdiag.diagnosis.ledger.sizing.geometry import Geometry, geometry_of, read_config
from kvdiag.diagnosis.ledger.sizing.inputs import DraftModel, Family, PrintedPools, SizingInputs
from kvdiag.diagnosis.ledger.sizing.machine import automatic_fraction
from kvdiag.diagnosis.ledger.sizing.rank_memory import (
    after_weights_reading,
    booked_gib,
    coordinate,
    first_reading,
    pool_begins,
    rank_memory,
    smallest_rank,
)
from kvdiag.diagnosis.ledger.sizing.unified import unified_device

_SPARSE = ("DeepseekV32", "GlmMoeDsa", "Glm5")
_NO_MODEL = ("NGRAM",)


def inputs_of(launch: Launch, ledgers: Sequence[Ledger], config: Mapping[str, object] | None = None) -> SizingInputs:
    """The numbers of one launch. What the log does not give stays None.

    config  the model's config.json where one is at hand: its shape goes before the table of public models
    """
    limits = launch.last(ServerLimits)
    loaded = launch.first(WeightsLoaded)
    architecture = loaded.architecture if loaded else None
    model = _text(launch, "model_path")
    geometry = (read_config(config) if config is not None else None) or geometry_of(model)
    smallest = smallest_rank(ledgers)
    pools = _pools(launch, smallest)
    dp_attention = _dp_attention(launch)
    fraction = launch.arguments.get("mem_fraction_static")
    size = {key: _parallel(launch, key) for key in ("tp", "pp", "dp", "ep", "dcp")}
    inputs = SizingInputs(
        ranks=tuple(rank_memory(launch, ledger) for ledger in ledgers),
        fraction=launch.number_of("mem_fraction_static"),
        fraction_given=None if fraction is None else fraction.origin == "given",
        release=launch.releases,
        platform=platform_of(launch),
        attention_backend=_text(launch, "attention_backend"),
        family=_family(launch, smallest, geometry, architecture),
        geometry=geometry,
        model=model,
        architecture=architecture,
        kv_dtype=kv_dtype_of(launch, smallest),
        multimodal=_is_multimodal(architecture),
        unified_memory=unified_device(launch) is not None,
        measured=_measured(launch),
        reserved=_reserved(launch),
        post_capture=launch.has(PostCapturePool),
        page_size=_whole(launch, "page_size") or 1,
        tp=size["tp"],
        pp=size["pp"],
        dp=size["dp"],
        ep=size["ep"],
        dcp=size["dcp"],
        nodes=_whole(launch, "nnodes") or 1,
        dp_attention=dp_attention,
        pools=pools,
        draft=_draft(launch, smallest, geometry),
        tokens=_tokens(launch, ledgers),
        running_requests=limits.max_running_requests if limits else None,
        max_total_tokens=_whole(launch, "max_total_tokens"),
        max_running_requests=_whole(launch, "max_running_requests"),
        context_length=(limits.context_len if limits else None) or _whole(launch, "context_length"),
        chunked_prefill_size=_whole(launch, "chunked_prefill_size"),
        cuda_graph_max_bs=_whole(launch, "cuda_graph_max_bs") or _whole(launch, "cuda_graph_max_bs_decode"),
        radix_cache=launch.value("disable_radix_cache") is not True,
        overlap_schedule=launch.value("disable_overlap_schedule") is not True,
        disaggregation=_role(launch),
        swa_ratio=launch.number_of("swa_full_tokens_ratio"),
        swa_window=geometry.swa_window if geometry and geometry.swa_window else None,
        mamba_ratio=launch.number_of("mamba_full_memory_ratio"),
        max_mamba_cache_size=_whole(launch, "max_mamba_cache_size"),
        hicache=launch.value("enable_hierarchical_cache") is True,
        hicache_ratio=launch.number_of("hicache_ratio"),
        hicache_gb=launch.number_of("hicache_size"),
        refused=launch.has(NoRoomForPool),
    )
    return replace(inputs, automatic=automatic_fraction(launch, inputs))


def lines_of(launch: Launch, ledgers: Sequence[Ledger], budget: Budget | None) -> tuple[tuple[int, int], ...]:
    """File and line of what a budget is made of: the fraction, the opening and the after-weights reading."""
    if budget is None:
        return ()
    by_rank = {ledger.rank: ledger for ledger in ledgers}
    fraction = launch.arguments.get("mem_fraction_static")
    found = list(fraction.lines[-1:]) if fraction is not None else []
    opening = first_reading(by_rank[budget.readings.opening_rank].readings, Moment.WEIGHTS_BEGIN, Model.TARGET)
    loaded = after_weights_reading(by_rank[budget.readings.smallest_rank])
    found += [reading.line.place for reading in (opening, loaded) if reading is not None]
    return tuple(dict.fromkeys(found))


def _pools(launch: Launch, ledger: Ledger | None) -> PrintedPools:
    rate = launch.last(DeepSeekV4Budget)
    if ledger is None:
        return PrintedPools(bytes_per_full_token=rate.bytes_per_token if rate else None)
    target = [pool for pool in ledger.pools if pool.model is Model.TARGET and pool.size is not None]
    window = next((pool for pool in target if pool.sliding_window), None)
    full = next((pool for pool in target if not pool.sliding_window), None)
    split = launch.first(SlidingWindowPool, rank=ledger.rank) or launch.first(SlidingWindowUsage, rank=ledger.rank)
    return PrintedPools(
        tokens=ledger.kv_tokens,
        gib=ledger.kv_size.gib if ledger.kv_size is not None and "Mamba" not in _unified_path(launch) else None,
        figures=max(1, sum(pool.printed for pool in target)),
        full_gib=full.size.gib if window and full and full.size is not None else None,
        swa_tokens=window.tokens if window else split.swa_tokens if split else None,
        swa_gib=window.size.gib if window and window.size is not None else None,
        state_slots=ledger.mamba_slots,
        state_gib=ledger.mamba_size.gib if ledger.mamba_size is not None else None,
        speculative_state_gib=ledger.mamba_speculative.gib if ledger.mamba_speculative is not None else None,
        bytes_per_full_token=rate.bytes_per_token if rate else None,
        available_bytes=int(rate.available) if rate and rate.available is not None else None,
    )


def _draft(launch: Launch, ledger: Ledger | None, geometry: Geometry | None) -> DraftModel | None:
    algorithm = _text(launch, "speculative_algorithm")
    if algorithm and algorithm.upper() in _NO_MODEL:
        return None
    pools = [pool for pool in ledger.draft_pools if pool.size is not None] if ledger else []
    loaded = [r for r in ledger.readings if r.model is Model.DRAFT and r.moment is Moment.WEIGHTS_END] if ledger else []
    if not algorithm and not pools and not loaded:
        return None
    pool_at = pool_begins(ledger) if ledger else None
    before = None if not loaded or pool_at is None else loaded[0].line.place < pool_at
    tokens = [pool.tokens for pool in pools if pool.tokens]
    return DraftModel(
        algorithm=algorithm,
        weights=booked_gib(ledger, Pool.WEIGHTS, Model.DRAFT) if ledger else None,
        tokens=max(tokens) if tokens else None,
        pool=sum(pool.size.gib for pool in pools if pool.size is not None) if pools else None,
        figures=max(1, sum(pool.printed for pool in pools)),
        steps=_whole(launch, "speculative_num_steps"),
        top_k=_whole(launch, "speculative_eagle_topk"),
        draft_tokens=_whole(launch, "speculative_num_draft_tokens"),
        before_pool=before,
        graphs=booked_gib(ledger, Pool.CUDA_GRAPHS, Model.DRAFT) if ledger else None,
        layers=_draft_layers(launch, ledger, geometry),
        has_path=_has_draft_path(launch),
    )


def _has_draft_path(launch: Launch) -> bool | None:
    """Whether a draft's path is set, by SGLang's own line: it fills it in for models with drafts of their own."""
    name = "speculative_draft_model_path"
    return launch.value(name) is not None if name in launch.printed_fields else None


def _draft_layers(launch: Launch, ledger: Ledger | None, geometry: Geometry | None) -> int:
    """Layers of the draft: as many as its pools have their own lines for, else the model's own MTP layers, else one."""
    pools = sum(r.model is Model.DRAFT and r.moment is Moment.POOL_END for r in ledger.readings) if ledger else 0
    if pools > 1:
        return pools
    drafts = [event.architecture or "" for event in launch.each(WeightsLoaded)][1:]
    own = any(name.endswith(("NextN", "MTP")) for name in drafts)
    return geometry.draft_layers if own and geometry is not None and geometry.draft_layers else 1


def _tokens(launch: Launch, ledgers: Sequence[Ledger]) -> int | None:
    """The pool's tokens: of the smallest pool line and of the summary; where they differ, the smaller."""
    counts = [ledger.kv_tokens for ledger in ledgers if ledger.kv_tokens]
    counts += [limits.tokens for limits in launch.each(ServerLimits) if limits.tokens]
    counts += [pool.tokens for pool in launch.each(PostCapturePool) if pool.tokens and pool.model is None]
    return min(counts) if counts else None


def _unified_path(launch: Launch) -> str:
    """Which pools share one byte budget, as the log names them: "SWA hybrid", "Mamba hybrid"; "" where none do."""
    return next((event.what for event in launch.each(UnifiedPool) if event.what and "hybrid" in event.what), "")


def _family(
    launch: Launch, ledger: Ledger | None, geometry: Geometry | None, architecture: str | None
) -> Family | None:
    """By what the log prints first, by the model's shape and name after that."""
    if launch.has(DeepSeekV4Budget) or (architecture or "").startswith("DeepseekV4"):
        return Family.DSV4
    if ledger is not None and ledger.mamba_size is not None:
        return Family.LINEAR
    target = [pool for pool in ledger.pools if pool.model is Model.TARGET] if ledger else []
    if launch.has(SlidingWindowPool, SlidingWindowUsage) or any(pool.sliding_window for pool in target):
        return Family.SWA
    path = _unified_path(launch)
    if "SWA" in path:
        return Family.SWA
    if "Mamba" in path:
        return Family.LINEAR
    sparse = is_sparse(architecture, geometry)
    latent = bool(geometry and geometry.kv_lora_rank)
    if launch.has(PostCapturePool):
        return Family.MHA  # sizing after capture knows no latent pools, and prints K and V as one figure
    if target and target[0].size is not None:
        known_heads = geometry is not None and geometry.kv_heads and not latent
        if target[0].printed > 1 or known_heads:
            return Family.MHA
        return Family.DSA if sparse else Family.MLA
    if sparse:
        return Family.DSA
    if latent:
        return Family.MLA
    if geometry is None:
        return None
    if geometry.linear_layers:
        return Family.LINEAR
    return Family.SWA if geometry.swa_layers else Family.MHA


def is_sparse(architecture: str | None, geometry: Geometry | None) -> bool:
    """Whether a model keeps index keys beside its latent rows (DSA, NSA)."""
    return any(name in (architecture or "") for name in _SPARSE) or bool(geometry and geometry.index_dim)


def kv_dtype_of(launch: Launch, ledger: Ledger | None) -> str | None:
    """The element type of the KV cache: of its own line, of the pool line, else as the arguments have it."""
    said = [event.dtype for event in launch.each(KVCacheDtype) if event.dtype and not event.draft]
    if said:
        return said[-1]
    printed = next((pool.dtype for pool in ledger.pools if pool.dtype), None) if ledger else None
    return printed or _text(launch, "kv_cache_dtype")


def _dp_attention(launch: Launch) -> bool:
    said = launch.value("enable_dp_attention")
    if isinstance(said, bool):
        return said
    # with DP attention a TP number is one GPU of the whole server; with plain DP each replica counts from 0
    pairs = {(coordinate(rank, "DP"), coordinate(rank, "TP")) for rank in launch.rank_ids}
    groups = {dp for dp, _ in pairs if dp is not None}
    return len(groups) > 1 and len({tp for _, tp in pairs}) == len(pairs)


def _parallel(launch: Launch, key: str) -> int:
    given = launch.number_of(f"{key}_size")
    if given is not None:
        return max(1, int(given))
    seen = launch.highest(key.upper())
    return 1 if seen is None else seen + 1


def platform_of(launch: Launch) -> str | None:
    """ "hip", "npu", or the device argument."""
    for oom in launch.each(DeviceOutOfMemory):
        if (oom.device or "").lower() == "hip":
            return "hip"
    if (_text(launch, "attention_backend") or "") == "aiter":
        return "hip"
    if any((named.name or "").upper().startswith(("AMD", "MI")) for named in launch.each(DeviceNamed)):
        return "hip"
    if (_text(launch, "attention_backend") or "") == "ascend":
        return "npu"
    return _text(launch, "device")


def _reserved(launch: Launch) -> float:
    """GiB of the budget that the log says are kept for something else, on the rank that keeps most."""
    return max((event.size.gib for event in launch.each(BudgetReserved) if event.size is not None), default=0.0)


def _measured(launch: Launch) -> float | None:
    """GiB of the target's budget where a build prints it, on the rank with least; a draft's line comes second."""
    first: dict[str, float] = {}
    for event in launch.each(BudgetMeasured):
        if event.size is not None:
            first.setdefault(event.rank, event.size.gib)
    return min(first.values(), default=None)


def _role(launch: Launch) -> str | None:
    role = _text(launch, "disaggregation_mode")
    return role if role in ("prefill", "decode") else None


def _is_multimodal(architecture: str | None) -> bool:
    name = architecture or ""
    return "ForConditionalGeneration" in name or "VL" in name or "Vision" in name


def _text(launch: Launch, name: str) -> str | None:
    value = launch.value(name)
    return value if isinstance(value, str) and value else None


def _whole(launch: Launch, name: str) -> int | None:
    value = launch.number_of(name)
    return None if value is None else int(value)
