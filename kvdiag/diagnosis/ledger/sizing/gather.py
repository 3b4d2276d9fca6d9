"""Launch and ledgers to SizingInputs: the few figures of a log that SGLang's sizing depends on."""

from __future__ import annotations

from collections.abc import Sequence

from kvdiag.diagnosis.events.distributed import MemoryProfile
from kvdiag.diagnosis.events.failure import NoRoomForPool
from kvdiag.diagnosis.events.hardware import DeviceNamed
from kvdiag.diagnosis.events.kv_pool import (
    BudgetReserved,
    DeepSeekV4Budget,
    KVCacheDtype,
    PostCapturePool,
    SlidingWindowPool,
    SlidingWindowUsage,
)
from kvdiag.diagnosis.events.overflow import DeviceOutOfMemory
from kvdiag.diagnosis.events.platform import UnifiedMemoryDevice
from kvdiag.diagnosis.events.ready import FiredUp, ServerLimits
from kvdiag.diagnosis.events.weights import WeightsLoaded
from kvdiag.diagnosis.launches import FAILURES, Launch
from kvdiag.diagnosis.ledger.model import Basis, Ledger, Model, Moment, Pool, Reading
from kvdiag.diagnosis.ledger.sizing.budget import Budget
from kvdiag.diagnosis.ledger.sizing.geometry import Geometry, geometry_of
from kvdiag.diagnosis.ledger.sizing.inputs import DraftModel, Family, PrintedPools, RankMemory, SizingInputs

_SPARSE = ("DeepseekV32", "GlmMoeDsa", "Glm5")
_NO_MODEL = ("NGRAM",)


def inputs_of(launch: Launch, ledgers: Sequence[Ledger]) -> SizingInputs:
    """The numbers of one launch. What the log does not give stays None."""
    limits = launch.last(ServerLimits)
    loaded = launch.first(WeightsLoaded)
    architecture = loaded.architecture if loaded else None
    model = _text(launch, "model_path")
    geometry = geometry_of(model)
    smallest = _smallest(ledgers)
    pools = _pools(launch, smallest)
    dp_attention = _dp_attention(launch)
    fraction = launch.arguments.get("mem_fraction_static")
    size = {key: _parallel(launch, key) for key in ("tp", "pp", "dp", "ep", "dcp")}
    return SizingInputs(
        ranks=tuple(_rank(launch, ledger) for ledger in ledgers),
        fraction=launch.number_of("mem_fraction_static"),
        fraction_given=None if fraction is None else fraction.origin == "given",
        release=launch.releases,
        platform=_platform(launch),
        attention_backend=_text(launch, "attention_backend"),
        family=_family(launch, smallest, geometry, architecture),
        geometry=geometry,
        model=model,
        architecture=architecture,
        kv_dtype=_kv_dtype(launch, smallest),
        multimodal=_is_multimodal(architecture),
        unified_memory=launch.has(UnifiedMemoryDevice),
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
        draft=_draft(launch, smallest),
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


def lines_of(launch: Launch, ledgers: Sequence[Ledger], budget: Budget | None) -> tuple[tuple[int, int], ...]:
    """File and line of what a budget is made of: the fraction, the opening and the after-weights reading."""
    if budget is None:
        return ()
    by_rank = {ledger.rank: ledger for ledger in ledgers}
    fraction = launch.arguments.get("mem_fraction_static")
    found = list(fraction.lines[-1:]) if fraction is not None else []
    opening = _first(by_rank[budget.readings.opening_rank].readings, Moment.WEIGHTS_BEGIN, Model.TARGET)
    loaded = _after_weights(by_rank[budget.readings.smallest_rank])
    found += [(reading.line.file, reading.line.number) for reading in (opening, loaded) if reading is not None]
    return tuple(dict.fromkeys(found))


def _rank(launch: Launch, ledger: Ledger) -> RankMemory:
    readings = ledger.readings
    after_weights = _after_weights(ledger)
    opening = _first(readings, Moment.WEIGHTS_BEGIN, Model.TARGET)
    pool_end = _first(readings, Moment.POOL_END, Model.TARGET)
    profile = launch.last(MemoryProfile, rank=ledger.rank)
    measured = profile is not None and profile.available is not None and profile.total is not None
    return RankMemory(
        id=ledger.rank,
        opening=profile.total.gib
        if measured and profile and profile.total is not None
        else opening.available.gib
        if opening
        else None,
        after_weights=profile.available.gib
        if measured and profile and profile.available is not None
        else after_weights.available.gib
        if after_weights
        else None,
        usage=_booked(ledger, Pool.WEIGHTS, Model.TARGET, printed=True),
        pool_end=pool_end.available.gib if pool_end else None,
        after_pool=_came_back(readings, pool_end),
        end=_end(launch, ledger),
        lowest=_lowest(readings, pool_end),
        graphs=_booked(ledger, Pool.CUDA_GRAPHS, Model.TARGET),
        capacity=ledger.capacity.gib if ledger.capacity is not None else None,
        tokens=ledger.kv_tokens,
        pool=ledger.kv_size.gib if ledger.kv_size is not None else None,
        stage=_coordinate(ledger.rank, "PP"),
    )


def _after_weights(ledger: Ledger) -> Reading | None:
    """The reading the pool is sized from: after the last load before the pool, be it the target's or the draft's."""
    pool_at = _pool_begins(ledger)
    ends = [r for r in ledger.readings if r.moment is Moment.WEIGHTS_END]
    before = [r for r in ends if pool_at is None or r.line.number < pool_at]
    return before[-1] if before else None


def _booked(ledger: Ledger, pool: Pool, model: Model, printed: bool = False) -> float | None:
    """GiB a rank gave to one pool of one model; None without an entry."""
    sizes = [
        entry.size.gib
        for entry in (*ledger.earlier, *ledger.entries)
        if entry.pool is pool and entry.model is model and (not printed or entry.basis is Basis.PRINTED)
    ]
    return sum(sizes) if sizes else None


def _pool_begins(ledger: Ledger) -> int | None:
    """The line of the target's first pool, or of the first pool end where no pool line is printed."""
    lines = [line.number for pool in ledger.pools if pool.model is Model.TARGET for line in pool.lines]
    lines += [r.line.number for r in ledger.readings if r.moment is Moment.POOL_END]
    return min(lines) if lines else None


def _first(readings: Sequence[Reading], moment: Moment, model: Model) -> Reading | None:
    return next((r for r in readings if r.moment is moment and r.model is model), None)


def _came_back(readings: Sequence[Reading], pool_end: Reading | None) -> float | None:
    """The highest reading between the target's pool and the first capture."""
    if pool_end is None:
        return None
    later = readings[list(readings).index(pool_end) + 1 :]
    seen = []
    for reading in later:
        if reading.moment is Moment.CUDA_GRAPH_END or reading.moment is Moment.READY:
            break
        seen.append(reading.available.gib)
    return max(seen) if seen else None


def _lowest(readings: Sequence[Reading], pool_end: Reading | None) -> float | None:
    """The lowest reading from the target's pool on."""
    if pool_end is None:
        return None
    return min(reading.available.gib for reading in readings[list(readings).index(pool_end) :])


def _end(launch: Launch, ledger: Ledger) -> float | None:
    """The last start-up reading, where the start went through: a summary, a ready line, or an untroubled capture."""
    if ledger.closing is None:
        return None
    captured = ledger.closing.moment is Moment.CUDA_GRAPH_END and not launch.has(*FAILURES)
    if launch.has(ServerLimits) or launch.has(FiredUp) or captured:
        return ledger.closing.available.gib
    return None


def _smallest(ledgers: Sequence[Ledger]) -> Ledger | None:
    """The rank whose pool lines count: the fewest tokens, and of those the largest pool (a stage with more layers)."""
    with_tokens = [ledger for ledger in ledgers if ledger.kv_tokens]
    if with_tokens:
        return min(with_tokens, key=lambda ledger: (ledger.kv_tokens or 0, -(ledger.kv_size or 0)))
    return next((ledger for ledger in ledgers if ledger.pools or ledger.mamba_size), ledgers[0] if ledgers else None)


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
        gib=ledger.kv_size.gib if ledger.kv_size is not None else None,
        figures=max(1, sum(pool.printed for pool in target)),
        full_gib=full.size.gib if window and full and full.size is not None else None,
        swa_tokens=window.tokens if window else split.swa_tokens if split else None,
        swa_gib=window.size.gib if window and window.size is not None else None,
        state_slots=ledger.mamba_slots,
        state_gib=ledger.mamba_size.gib if ledger.mamba_size is not None else None,
        bytes_per_full_token=rate.bytes_per_token if rate else None,
        available_bytes=int(rate.available) if rate and rate.available is not None else None,
    )


def _draft(launch: Launch, ledger: Ledger | None) -> DraftModel | None:
    algorithm = _text(launch, "speculative_algorithm")
    if algorithm and algorithm.upper() in _NO_MODEL:
        return None
    pools = [pool for pool in ledger.draft_pools if pool.size is not None] if ledger else []
    loaded = [r for r in ledger.readings if r.model is Model.DRAFT and r.moment is Moment.WEIGHTS_END] if ledger else []
    if not algorithm and not pools and not loaded:
        return None
    pool_at = _pool_begins(ledger) if ledger else None
    before = None if not loaded or pool_at is None else loaded[0].line.number < pool_at
    tokens = [pool.tokens for pool in pools if pool.tokens]
    return DraftModel(
        algorithm=algorithm,
        weights=_booked(ledger, Pool.WEIGHTS, Model.DRAFT) if ledger else None,
        tokens=max(tokens) if tokens else None,
        pool=sum(pool.size.gib for pool in pools if pool.size is not None) if pools else None,
        figures=max(1, sum(pool.printed for pool in pools)),
        steps=_whole(launch, "speculative_num_steps"),
        top_k=_whole(launch, "speculative_eagle_topk"),
        draft_tokens=_whole(launch, "speculative_num_draft_tokens"),
        before_pool=before,
        graphs=_booked(ledger, Pool.CUDA_GRAPHS, Model.DRAFT) if ledger else None,
    )


def _tokens(launch: Launch, ledgers: Sequence[Ledger]) -> int | None:
    """The pool's tokens: of the smallest pool line and of the summary; where they differ, the smaller."""
    counts = [ledger.kv_tokens for ledger in ledgers if ledger.kv_tokens]
    counts += [limits.tokens for limits in launch.each(ServerLimits) if limits.tokens]
    counts += [pool.tokens for pool in launch.each(PostCapturePool) if pool.tokens and pool.model is None]
    return min(counts) if counts else None


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
    sparse = any(name in (architecture or "") for name in _SPARSE) or bool(geometry and geometry.index_dim)
    latent = bool(geometry and geometry.kv_lora_rank)
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


def _kv_dtype(launch: Launch, ledger: Ledger | None) -> str | None:
    said = launch.last(KVCacheDtype)
    if said is not None and said.dtype:
        return said.dtype
    printed = next((pool.dtype for pool in ledger.pools if pool.dtype), None) if ledger else None
    return printed or _text(launch, "kv_cache_dtype")


def _dp_attention(launch: Launch) -> bool:
    said = launch.value("enable_dp_attention")
    if isinstance(said, bool):
        return said
    # with DP attention a TP number is one GPU of the whole server; with plain DP each replica counts from 0
    pairs = {(_coordinate(rank, "DP"), _coordinate(rank, "TP")) for rank in launch.rank_ids}
    groups = {dp for dp, _ in pairs if dp is not None}
    return len(groups) > 1 and len({tp for _, tp in pairs}) == len(pairs)


def _parallel(launch: Launch, key: str) -> int:
    given = launch.number_of(f"{key}_size")
    if given is not None:
        return max(1, int(given))
    seen = [_coordinate(rank, key.upper()) for rank in launch.rank_ids]
    known = [number for number in seen if number is not None]
    return max(known) + 1 if known else 1


def _coordinate(rank: str, key: str) -> int | None:
    for word in rank.replace("/", " ").split():
        if word.startswith(key) and word[len(key) :].isdigit():
            return int(word[len(key) :])
    return None


def _platform(launch: Launch) -> str | None:
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
