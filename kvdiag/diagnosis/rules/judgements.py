"""What several rules must agree on: which overflow counts, at which stage it fell, what holds the pool down."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from kvdiag.diagnosis.events.cuda_graph import GraphBegin, GraphEnd, GraphSizes
from kvdiag.diagnosis.events.distributed import UnbalancedMemory
from kvdiag.diagnosis.events.failure import (
    CaptureFailed,
    ExceptionRaised,
    ExitCode,
    KernelFault,
    Killed,
    NoRoomForPool,
    PoolRefused,
    ProcessFailed,
    Traceback,
)
from kvdiag.diagnosis.events.frames import Frame
from kvdiag.diagnosis.events.hardware import DeviceNamed
from kvdiag.diagnosis.events.host_memory import HostMemoryShort, HostOutOfMemory, HostPool
from kvdiag.diagnosis.events.kv_pool import (
    DeepSeekV4Budget,
    DeepSeekV4Pools,
    KVPoolAllocated,
    KVPoolReserved,
    MambaPool,
    PoolBelowContext,
    PoolEnd,
    RequestsCapped,
    SlidingWindowPool,
    SlidingWindowUsage,
)
from kvdiag.diagnosis.events.libraries import (
    AllocatorAssertion,
    AttentionWorkspaceShort,
    CommunicationBufferShort,
    CompileFailed,
    DeviceFull,
    DispatchLimitExceeded,
    ExpertMethod,
    KernelResourceShort,
    PeerLost,
)
from kvdiag.diagnosis.events.overflow import DeviceOutOfMemory
from kvdiag.diagnosis.events.pattern import Event
from kvdiag.diagnosis.events.platform import (
    MemorySaver,
    SharedMemoryFull,
    TrainerLine,
    UnifiedMemoryDevice,
    VirtualSize,
    trainer_of,
)
from kvdiag.diagnosis.events.progress import CaptureProgress
from kvdiag.diagnosis.events.ready import ServerLimits
from kvdiag.diagnosis.events.requests import (
    LastRequestDoesNotFit,
    PreallocationFull,
    RequestSlotsExhausted,
    RequestTooLong,
    SlotLeak,
    StateSlotsExhausted,
    TokenSlotsExhausted,
)
from kvdiag.diagnosis.events.server_args import ArgumentsRefused
from kvdiag.diagnosis.events.serving import DecodeBatch, PrefillBatch, Retraction
from kvdiag.diagnosis.events.weights import LoadBarrier, Offload, ShardProgress, WeightsBegin, WeightsLoaded
from kvdiag.diagnosis.ledger.model import Basis, Ledger, Model, Moment, Pool
from kvdiag.diagnosis.lines import LogLine
from kvdiag.diagnosis.outcome import FailureKind, Stage, stage_of
from kvdiag.diagnosis.rules.rule import Case
from kvdiag.diagnosis.units import Bytes

Batch = PrefillBatch | DecodeBatch
E = TypeVar("E", bound=Event)

TRACEBACK_LINES = 120  # a frame this far above an error still belongs to its traceback
_HANDLED = ("custom allreduce", "skipping", "autotun", "to silence this warning", "warning:", "falling back")


def place(line: LogLine) -> tuple[int, int]:
    """Where a line stands, for comparing."""
    return line.file, line.number


def is_before(one: LogLine, other: LogLine) -> bool:
    """Whether a line stands above another."""
    return place(one) < place(other)


def last_before(case: Case, line: LogLine, *kinds: type[E]) -> E | None:
    """The last event of these kinds above a line."""
    return next((e for e in reversed(case.launch.each(*kinds)) if is_before(e.line, line)), None)


def once(events: Iterable[E]) -> list[E]:
    """The same message of several ranks, or wrapped in another exception, once a rank."""
    seen: set[tuple[object, ...]] = set()
    kept = []
    for event in events:
        key = (event.rank, *(getattr(event, name, None) for name in ("tried", "gpu", "free", "allocated", "what")))
        if key not in seen:
            seen.add(key)
            kept.append(event)
    return kept


def ranks_of(events: Iterable[Event]) -> tuple[str, ...]:
    """The ranks that printed events, each once, in order."""
    return tuple(dict.fromkeys(e.rank for e in events))


# Overflows


def overflows(case: Case) -> list[DeviceOutOfMemory]:
    """Overflows of the device that were not handled, in the order of the log."""
    return once(e for e in case.launch.each(DeviceOutOfMemory) if not _is_handled(e.line))


def first_overflow(case: Case) -> DeviceOutOfMemory | None:
    """The overflow that came first: the later ones are its company."""
    return next(iter(overflows(case)), None)


def memory_ran_out(case: Case) -> DeviceOutOfMemory | DeviceFull | None:
    """The first sign that device memory ran out, with figures or without."""
    full = [e for e in case.launch.each(DeviceFull) if not _is_handled(e.line)]
    signs: list[DeviceOutOfMemory | DeviceFull] = [*overflows(case), *full]
    return min(signs, key=lambda e: place(e.line), default=None)


def _is_handled(line: LogLine) -> bool:
    return any(word in line.text.lower() for word in _HANDLED)


def sites(case: Case, event: Event) -> list[str]:
    """The places named by the frames of the traceback that ends in an event, the innermost first."""
    near = [
        f
        for f in case.launch.each(Frame)
        if f.line.file == event.line.file and -3 <= event.line.number - f.line.number <= TRACEBACK_LINES
    ]
    started = last_before(case, event.line, Traceback, ProcessFailed)
    if started is not None and any(not is_before(f.line, started.line) for f in near):
        near = [f for f in near if not is_before(f.line, started.line)]
    near.sort(key=lambda f: abs(event.line.number - f.line.number))
    return list(dict.fromkeys(f.site for f in near))


def site(case: Case, event: Event) -> str | None:
    """The innermost place that means something by itself; loading and pools are stages, not places."""
    return next((s for s in sites(case, event) if s not in ("load", "pool", "draft_start")), None)


def is_trainers(case: Case, event: Event) -> bool:
    """Whether an overflow is a trainer's rather than the engine's."""
    if trainer_of(event.line) is not None:
        return True
    if case.launch.has(WeightsBegin, ShardProgress, GraphBegin) or case.launch.has_traffic:
        return False
    return trainer_beside(case, event) is not None


def trainer_beside(case: Case, event: Event) -> str | None:
    """The trainer that speaks near an event."""
    for other in (event, *case.launch.each(TrainerLine, MemorySaver)):
        near = other.line.file == event.line.file and abs(other.line.number - event.line.number) <= TRACEBACK_LINES
        name = trainer_of(other.line) or (
            getattr(other, "who", None) or "a trainer" if isinstance(other, TrainerLine) else None
        )
        if near and name:
            return name
    return None


def stage(case: Case, event: Event) -> Stage | None:
    """The stage in which an event fell: by its traceback, by the bar at work, else by its rank's last step."""
    launch = case.launch
    wrapped = launch.first(CaptureFailed)
    if wrapped is not None and abs(wrapped.line.number - event.line.number) <= TRACEBACK_LINES:
        return Stage.CUDA_GRAPH
    last = launch.series.last
    if last is not None and is_before(last.line, event.line):
        return Stage.SERVING
    named = sites(case, event)
    if {"mamba_pool", "request_table"} & set(named):
        return Stage.KV_CACHE
    if "pool" in named and "load" not in named[: named.index("pool")]:
        return Stage.KV_CACHE
    bar = last_before(case, event.line, CaptureProgress, ShardProgress)
    step = last_before(case, event.line, WeightsBegin, WeightsLoaded, PoolEnd, GraphBegin, GraphEnd)
    if isinstance(bar, CaptureProgress) and (step is None or not is_before(bar.line, step.line)):
        return Stage.CUDA_GRAPH
    if isinstance(bar, ShardProgress) and (step is None or is_before(step.line, bar.line)):
        return Stage.WEIGHTS
    if step is None and "load" in named:
        return Stage.WEIGHTS
    return stage_of(launch, event)


def is_draft_start(case: Case, event: Event) -> bool:
    """Whether an event fell while a draft model was loading or building its pool, after the target's pool."""
    launch = case.launch
    if launch.series.last is not None and is_before(launch.series.last.line, event.line):
        return False
    same = [e for e in launch.each(WeightsBegin, WeightsLoaded, PoolEnd, GraphEnd) if is_before(e.line, event.line)]
    if event.rank and any(e.rank == event.rank for e in same):
        same = [e for e in same if e.rank == event.rank]
    pools = [e for e in same if isinstance(e, PoolEnd | GraphEnd)]
    loads = [e for e in same if isinstance(e, WeightsBegin | WeightsLoaded)]
    if pools and loads and is_before(pools[0].line, loads[-1].line):
        return True
    private = isinstance(event, DeviceOutOfMemory) and bool(event.private_pools)
    bar = last_before(case, event.line, ShardProgress)
    loading = bar is not None or "load" in sites(case, event)
    if has_draft(case) and loading and stage(case, event) is Stage.WEIGHTS:
        return bool(pools) or private
    return "draft_start" in sites(case, event) and (bool(pools) or private)


def is_small(reserved: Bytes | None, wanted: Bytes | None) -> bool:
    """Whether what the allocator holds unused could not have served a request. Unknown counts as small."""
    return reserved is None or wanted is None or reserved < wanted


def free_at(case: Case, line: LogLine) -> Bytes | None:
    """Free memory when a line was printed: the last reading or bar above it; of its rank where that has one."""
    marks: list[tuple[tuple[int, int], str, Bytes]] = []
    for ledger in case.ledgers:
        marks += [(place(r.line), ledger.rank, r.available) for r in ledger.readings]
    for bar in case.launch.each(CaptureProgress):
        if bar.available is not None:
            marks.append((place(bar.line), bar.rank, bar.available))
    above = sorted(m for m in marks if m[0] <= place(line))
    mine = [m for m in above if line.rank and m[1] == line.rank]
    chosen = mine or above
    return chosen[-1][2] if chosen else None


# Arguments


def flag_is_given(case: Case, *names: str) -> bool:
    """Whether one of these arguments is on, by the command or by SGLang's own line."""
    return any(case.launch.value(n) not in (None, False, 0, "None", "") for n in names)


def is_in_command(case: Case, name: str) -> bool:
    """Whether the pasted command names an argument."""
    found = case.launch.arguments.get(name)
    return found is not None and found.origin != "default"


def has_draft(case: Case) -> bool:
    """Whether a draft model speculates."""
    algorithm = case.launch.value("speculative_algorithm")
    return isinstance(algorithm, str) and algorithm.upper() not in ("NONE", "NGRAM")


def ranks_in_tensor_group(case: Case) -> int:
    """Tensor-parallel size: as given, else as the rank prefixes count."""
    return size_of(case, "tp_size", "TP")


def stages_in_pipeline(case: Case) -> int:
    """Pipeline stages."""
    return size_of(case, "pp_size", "PP")


def size_of(case: Case, argument: str, prefix: str) -> int:
    """A parallel size by its argument, else by the highest number in the ranks' prefixes."""
    given = case.launch.number_of(argument)
    if given:
        return int(given)
    seen = [int(m[1]) for rank in case.launch.rank_ids for m in re.finditer(rf"\b{prefix}(\d+)", rank)]
    return max(seen) + 1 if seen else 1


def attends_in_data_parallel(case: Case) -> bool:
    """Whether attention runs data parallel: each rank then keeps all heads."""
    dp = case.launch.number_of("dp_size")
    if flag_is_given(case, "enable_dp_attention"):
        return dp is None or dp > 1
    return any(re.search(r"DP\d+ (?:PP\d+ )?TP[1-9]", rank) for rank in case.launch.rank_ids)


def speaks_of_late_release(case: Case) -> bool:
    """Whether the launch has the flags of 0.5.14 and later, by its arguments, its wording or its release."""
    late = ("cuda_graph_max_bs_decode", "cuda_graph_config", "cuda_graph_bs_decode")
    if any(n in case.launch.arguments for n in late) or case.launch.releases.reaches("0.5.14"):
        return True
    kinds = [(e.kind or "").split()[-1:] for e in case.launch.each(GraphBegin)]
    kinds += [(e.kind or "").split()[-1:] for e in case.launch.each(GraphEnd)]
    return any(k in (["decode"], ["prefill"], ["verify"]) for k in kinds)


def decode_graph_flag(case: Case) -> str:
    """The flag that bounds decode graphs, as this launch spells it."""
    for name in ("cuda_graph_bs", "cuda_graph_bs_decode"):
        if is_in_command(case, name):
            return "--" + name.replace("_", "-")
    return "--cuda-graph-max-bs-decode" if speaks_of_late_release(case) else "--cuda-graph-max-bs"


# The pool and what holds it down


def refusals(case: Case) -> list[NoRoomForPool]:
    """SGLang's own refusals for want of a pool."""
    return case.launch.each(NoRoomForPool)


def cap(case: Case) -> int | None:
    """--max-total-tokens, where it binds: the pool equals it, to the page."""
    wanted, tokens = case.launch.number_of("max_total_tokens"), case.tokens
    if not wanted or tokens is None:
        return None
    page = case.launch.number_of("page_size") or 1
    return int(wanted) if 0 <= wanted - tokens <= max(page, 256 if page == 1 else page) else None


def reserve(case: Case) -> Bytes | None:
    """What SGLang leaves outside the static budget: opening × (1 − fraction)."""
    if case.opening_size is None or case.fraction is None:
        return None
    return Bytes(round(case.opening_size * (1 - case.fraction)))


def minimum_fraction(case: Case) -> float | None:
    """The fraction below which no pool is left: 1 − after weights / before them; as SGLang prints it, where it does."""
    for refusal in refusals(case):
        if refusal.minimum:
            return refusal.minimum
    if case.opening_size is None or case.after_weights is None or not case.opening_size:
        return None
    return 1 - case.after_weights.available / case.opening_size


def stated_fraction(case: Case) -> float | None:
    """The fraction in force: the argument's, else the one in SGLang's refusal."""
    if case.fraction is not None:
        return case.fraction
    return next((r.fraction for r in refusals(case) if r.fraction is not None), None)


def has_window(case: Case) -> bool:
    """Whether the model has a pool for sliding-window layers."""
    return case.launch.has(SlidingWindowPool, SlidingWindowUsage)


def excess_after_pool(case: Case) -> Bytes | None:
    """Free memory after the target's pool beyond the reserve, on the rank that has least.

    Where nothing caps the pool it is nought: more means that the budget was measured too small.
    """
    kept = reserve(case)
    if kept is None or case.after_pool is None or cap(case) is not None:
        return None
    return Bytes(case.after_pool.available - kept)


def low_ranks(case: Case) -> list[Ledger]:
    """Ranks with clearly less memory after loading than the others of their pipeline stage."""
    limits = case.thresholds
    groups: dict[str, list[tuple[Bytes, Ledger]]] = {}
    for ledger in case.ledgers:
        after = ledger.reading(Moment.WEIGHTS_END)
        if after is not None:
            part = re.search(r"PP\d+", ledger.rank)
            groups.setdefault(part[0] if part else "", []).append((after.available, ledger))
    low: list[Ledger] = []
    for group in groups.values():
        if len(group) < 2:
            continue
        sizes = sorted(size for size, _ in group)
        middle = sizes[len(sizes) // 2]
        spread = max(limits.rank_spread, round(limits.rank_spread_share * (case.card or 0)))
        if middle - sizes[0] >= spread:
            low += [ledger for size, ledger in group if middle - size >= spread]
    return low


def stage_weights(case: Case) -> dict[int, Bytes]:
    """What the target's weights take on each pipeline stage, by its number."""
    found: dict[int, Bytes] = {}
    for ledger in case.ledgers:
        part = re.search(r"PP(\d+)", ledger.rank)
        begin, end = ledger.reading(Moment.WEIGHTS_BEGIN), ledger.reading(Moment.WEIGHTS_END)
        if part and begin is not None and end is not None:
            used = Bytes(begin.available - end.available)
            found[int(part[1])] = max(used, found.get(int(part[1]), Bytes(0)))
    if not found:
        for loaded in case.launch.each(WeightsLoaded):
            part = re.search(r"PP(\d+)", loaded.rank)
            if part and loaded.used is not None and int(part[1]) not in found:
                found[int(part[1])] = loaded.used
    return found


def uneven_stages(case: Case) -> bool:
    """Whether pipeline stages differ by whole layers."""
    sizes = list(stage_weights(case).values())
    return len(sizes) > 1 and max(sizes) - min(sizes) > case.thresholds.stage_spread * max(sizes)


def has_room(case: Case) -> bool:
    """Whether clearly more is free at the end than is wanted."""
    free = case.free_at_end
    return free is not None and free.available > case.thresholds.room_share * case.wanted_range[1]


def is_thin(case: Case) -> bool:
    """Whether less than half of what is wanted is free at the end."""
    free = case.free_at_end
    return free is not None and free.available < case.thresholds.thin_share * case.wanted_range[0]


def loader_memory_held(case: Case) -> bool:
    """Whether loading buffers were alive while the budget was measured: much more stays free than the reserve."""
    if has_window(case) or stages_in_pipeline(case) > 1 or case.ledgers and case.ledgers[0].mamba_size:
        return False
    if memory_came_back(case) is not None and not low_ranks(case):
        return True
    excess = excess_after_pool(case)
    if excess is not None:
        # another rank may have been the smallest: its line need not be in this file
        return excess > max(case.thresholds.reserve_excess, 0.05 * (case.opening_size or 0)) and not low_ranks(case)
    tokens, free = case.tokens, case.free_at_end
    return (
        cap(case) is None
        and tokens is not None
        and free is not None
        and tokens <= case.thresholds.pool_tiny_tokens
        and tokens % 1024 != 0  # a round number was asked for
        and (case.context_length is None or tokens < case.context_length)
        and free.available > 2 * case.thresholds.room_share * case.wanted_range[1]
        and case.launch.number_of("max_total_tokens") is None
        and not low_ranks(case)
    )


def memory_came_back(case: Case) -> Bytes | None:
    """How much free memory rose after the target's pool, where no draft explains it; None where it did not."""
    if cap(case) is not None or without_draft(case) is None:
        return None
    best: Bytes | None = None
    for ledger in case.ledgers:
        pool = ledger.reading(Moment.POOL_END)
        if pool is None:
            continue
        later = [r.available for r in ledger.readings if is_before(pool.line, r.line)]
        rise = Bytes(max(later) - pool.available) if later else Bytes(0)
        if rise > case.thresholds.reserve_excess and (best is None or rise > best):
            best = rise
    return best


def draft_memory_returned(case: Case) -> Bytes | None:
    """Memory that came back while a draft's pool was built, beyond what the pool took."""
    best: Bytes | None = None
    for ledger in case.ledgers:
        target, draft = ledger.reading(Moment.POOL_END), ledger.reading(Moment.POOL_END, Model.DRAFT)
        if target is None or draft is None:
            continue
        between = [r for r in ledger.readings if is_before(target.line, r.line) and is_before(r.line, draft.line)]
        if between:  # the draft loaded or graphs were captured in between: an older order of the start
            continue
        rise = Bytes(draft.available - target.available)
        if rise > case.thresholds.returned_memory and (best is None or rise > best):
            best = rise
    return best


def cause_of_room(case: Case) -> str | None:
    """The rule that explains memory left free at the end; None where only the fraction does."""
    if cap(case) is not None:
        return "max-total-tokens-cap"
    if uneven_stages(case):
        return "pp-uneven-layers"
    if low_ranks(case):
        return "min-over-ranks"
    if loader_memory_held(case):
        return "loader-memory-still-referenced"
    if draft_memory_returned(case) is not None:
        return "draft-embed-dup-after-sizing"
    return None


def fraction_limits_pool(case: Case) -> bool:
    """Whether the fraction, and nothing else, keeps the pool small while memory is left."""
    if not has_room(case) or cause_of_room(case) is not None or case.fraction is None:
        return False
    excess = excess_after_pool(case)
    if excess is None:
        return not (stages_in_pipeline(case) > 1 or has_window(case))
    return excess <= max(case.thresholds.reserve_excess, 0.02 * (case.opening_size or 0))


def no_feasible_fraction(case: Case) -> tuple[Case, Case] | None:
    """A launch that was refused for want of a pool and one that overflowed, at fractions close together.

    Both in one launch are two starts of which the log holds only the errors.
    """
    if refusals(case) and memory_ran_out(case) is not None:
        return case, case
    refused: list[tuple[float, Case]] = []
    overflowed: list[tuple[float, Case]] = []
    for one in (*case.earlier, case):
        fraction = stated_fraction(one)
        if fraction is None:
            continue
        if refusals(one):
            refused.append((fraction, one))
        elif memory_ran_out(one) is not None:
            overflowed.append((fraction, one))
    for low, first in refused:
        for high, second in overflowed:
            if 0 <= high - low <= case.thresholds.fractions_apart + 1e-9 and case in (first, second):
                return first, second
    return None


def may_raise_fraction(case: Case) -> bool:
    """Whether raising the fraction can be offered at all: nothing overflowed, nothing is thin, nothing else binds."""
    return (
        memory_ran_out(case) is None
        and not is_thin(case)
        and cause_of_room(case) is None
        and not no_feasible_fraction(case)
        and not case.launch.has(CaptureFailed)
    )


def kv_dtype(case: Case) -> str | None:
    """The KV cache's element type: as its pool's line has it, else as the argument asks."""
    for pool in case.launch.each(KVPoolAllocated):
        if pool.dtype:
            return pool.dtype
    asked = case.launch.value("kv_cache_dtype")
    return asked if isinstance(asked, str) and asked != "auto" else None


def is_eight_bit(case: Case) -> bool:
    """Whether the KV cache is stored in 8 bits or fewer."""
    return any(word in (kv_dtype(case) or "") for word in ("fp8", "float8", "fp4", "float4", "int8"))


def is_latent(case: Case) -> bool:
    """Whether the pool is one of latent attention (MLA): one buffer, the same on every tensor rank."""
    pools = case.launch.each(KVPoolAllocated)
    return any(p.kv is not None for p in pools[:1])


def known_release(case: Case) -> str | None:
    """The release that the log names; None where only its wording tells."""
    exact = case.launch.releases.exact
    return None if exact is None else str(exact)


# More on the pool


def is_short(case: Case) -> bool:
    """Whether the pool holds less than one request of full length, by its figures or by SGLang's own warning."""
    if case.launch.has(PoolBelowContext):
        return True
    tokens, context = case.tokens, case.context_length
    return tokens is not None and context is not None and 0 < tokens < context


def is_healthy(case: Case) -> bool:
    """Whether nothing about the launch's memory deserves a change."""
    free = case.free_at_end
    if free is None or case.outcome.outcome == "failed" or memory_ran_out(case) is not None:
        return False
    least, most = case.wanted_range
    if free.available < case.thresholds.thin_share * most or has_room(case) or is_short(case):
        return False
    return free.available >= least and not case.launch.has(Retraction)


def fullest(case: Case) -> Batch | None:
    """The batch line at which the pool was fullest; among equals the one with most of the window pool idle."""
    series = case.launch.series
    known = [p for p in (series.fullest, *series.points, series.last) if p is not None and p.usage is not None]
    return max(known, key=lambda p: (p.usage or 0.0, -(p.swa_usage or 0.0)), default=None)


def pool_by_usage(case: Case) -> tuple[int, DecodeBatch] | None:
    """The pool's size by a batch line, tokens / usage, where the usage is large enough for its two decimals."""
    known = [p for p in case.launch.series.points if isinstance(p, DecodeBatch) and p.tokens and (p.usage or 0) >= 0.2]
    best = max(known, key=lambda p: p.usage or 0.0, default=None)
    return None if best is None or not best.usage else (round((best.tokens or 0) / best.usage), best)


def refused_by_pool(case: Case) -> list[RequestTooLong]:
    """Refusals for length of which the pool is the limit."""
    found = [e for e in case.launch.each(RequestTooLong) if e.limit]
    tokens, context = case.tokens, case.context_length
    kept = []
    for event in found:
        limit = event.limit or 0
        if context is not None and limit >= 0.95 * context:
            continue
        if tokens is not None:
            near = -1 <= tokens - limit <= 64 or limit <= 0.5 * tokens
            if near and (context is None or limit < context - 64):
                kept.append(event)
        elif context is not None or all((limit + pad) % 1024 for pad in range(9)):
            kept.append(event)
    return kept


_FORMATS = (  # bytes a parameter; scales and layers left as they are come on top, which the threshold leaves room for
    (r"fp4|nvfp4|mxfp4|int4|w4a|awq|gptq|4bit|autoround|auto-round|gpt-oss|q4|kimi-k2", 0.56),
    (r"fp8|int8|w8a8|8bit", 1.0),
)


def checkpoint_share(case: Case, *, sharded: bool = False) -> float | None:
    """Bytes of the checkpoint that fall to one rank when all is split; None where the name tells too little.

    Layers that are replicated on purpose make it no measure, unless `sharded` asks for it all the same.
    """
    path = case.launch.value("model_path")
    if not isinstance(path, str) or flag_is_given(case, "cpu_offload_gb", "lora_paths"):
        return None
    if attends_in_data_parallel(case) and not sharded:
        return None
    name = path.rstrip("/").rsplit("/", 1)[-1].lower()
    sizes = [float(x) for x in re.findall(r"(?<![a-z\d.])(\d+(?:\.\d+)?)b(?![a-z])", name)]
    if not sizes or re.search(r"\d+e(?![a-z])|\dx\d", name):  # "17b-16e" and "8x7b" name experts, not parameters
        return None
    loaded = case.launch.first(WeightsLoaded)
    words = f"{name} {case.launch.value('quantization') or ''} {loaded.quantization if loaded else ''}".lower()
    width = next((size for pattern, size in _FORMATS if re.search(pattern, words)), 2.0)
    if "float32" in f"{case.launch.value('dtype') or ''}":
        width = 4.0
    return max(sizes) * 1e9 * width / (ranks_in_tensor_group(case) * stages_in_pipeline(case))


def low_automatic_fraction(case: Case) -> float | None:
    """The fraction in force, where it is low and nobody asked for it."""
    fraction = stated_fraction(case)
    if fraction is None or fraction > case.thresholds.auto_fraction_low or is_in_command(case, "mem_fraction_static"):
        return None
    if case.launch.commands:
        return fraction
    # Without a command only a value that nobody would type tells: SGLang rounds to three decimals.
    return fraction if abs(fraction * 100 - round(fraction * 100)) > 0.01 else None


def vanished_before_pool(case: Case) -> Bytes | None:
    """Memory that the printed figures leave for a pool although SGLang found none; None where they agree."""
    kept, after = reserve(case), case.after_weights
    plain = [r for r in refusals(case) if r.minimum is None]
    if not plain or kept is None or after is None or has_window(case) or case.launch.has(PoolRefused):
        return None
    room = Bytes(after.available - kept)
    return room if room > case.thresholds.memory_fell and not low_ranks(case) else None


def weights_used(case: Case) -> Bytes | None:
    """What the target's weights took on the first rank that says so, without what was given back during capture."""
    loaded = next((e for e in case.launch.each(WeightsLoaded) if e.used is not None), None)
    if loaded is None or loaded.used is None:
        return None
    back = sum(e.used for e in case.launch.each(GraphEnd, rank=loaded.rank) if e.used is not None and e.used < 0)
    return Bytes(loaded.used + back)


# Captures


@dataclass(frozen=True, slots=True)
class CaptureOverflow:
    """An overflow while graphs were captured: of prefill sizes or not, at which size, with how much free."""

    sign: DeviceOutOfMemory | DeviceFull
    prefill: bool
    bar: CaptureProgress | None
    size: int | None
    free: Bytes | None


def capture_overflow(case: Case) -> CaptureOverflow | None:
    """The overflow that ended a capture."""
    sign = memory_ran_out(case)
    if (
        sign is None
        or is_trainers(case, sign)
        or stage(case, sign) is not Stage.CUDA_GRAPH
        or is_draft_pool(case, sign)
    ):
        return None
    bar = last_before_or_on(case, sign.line, CaptureProgress)
    begun = last_before(case, sign.line, GraphBegin, GraphEnd, GraphSizes)
    wrapped = [e for e in case.launch.each(CaptureFailed) if abs(e.line.number - sign.line.number) <= TRACEBACK_LINES]
    kinds = [
        bar is not None
        and (bar.kind or "") != "batches"
        and not is_before(bar.line, begun.line if begun else bar.line),
        isinstance(begun, GraphBegin) and is_prefill_graph(begun.kind),
        isinstance(begun, GraphSizes) and "token" in (begun.kind or ""),
        any(e.is_prefill for e in wrapped),
    ]
    free = bar.available if bar is not None and bar.available is not None else free_at(case, sign.line)
    return CaptureOverflow(sign, any(kinds), bar, bar.size if bar is not None else None, free)


def last_before_or_on(case: Case, line: LogLine, *kinds: type[E]) -> E | None:
    """As last_before, a line of its own included: bars and messages are glued together."""
    return next((e for e in reversed(case.launch.each(*kinds)) if place(e.line) <= place(line)), None)


def is_prefill_graph(kind: str | None) -> bool:
    """Whether a capture is one of prefill sizes."""
    return "prefill" in (kind or "") or "piecewise" in (kind or "")


def prefill_captures(case: Case) -> list[GraphEnd]:
    """Captures of prefill sizes that ended."""
    return [e for e in case.launch.each(GraphEnd) if is_prefill_graph(e.kind)]


def missing(case: Case, free: Bytes | None) -> Bytes | None:
    """What is missing to the free memory wanted at the end."""
    return None if free is None else Bytes(max(0, case.wanted_range[0] - free))


_SHORTAGE = re.compile(
    r"out of memory|outofmemory|alloc_failed|cudaerrormemoryallocation|num_active_captures|nvml_success"
)


def capture_errors(case: Case) -> list[CaptureFailed]:
    """Failed captures that have nothing to do with memory."""
    kept = []
    for event in case.launch.each(CaptureFailed):
        free = free_at(case, event.line)
        short = free is not None and free < case.thresholds.memory_is_short
        if _SHORTAGE.search(event.whole_reason.lower()) or (short and not _is_plain_fault(event.whole_reason)):
            continue
        near = memory_ran_out(case)
        if near is not None and abs(near.line.number - event.line.number) <= TRACEBACK_LINES:
            continue
        kept.append(event)
    return kept


def _is_plain_fault(reason: str) -> bool:
    """A reason that no shortage would give."""
    low = reason.lower()
    return any(
        w in low for w in ("ninja", "assertion error", "no kernel image", "connection", "illegal memory", "import")
    )


def is_invalid_argument(reason: str | None) -> bool:
    """Whether a capture failed with the words that libraries have for a shortage."""
    low = (reason or "").lower()
    return any(w in low for w in ("invalid argument", "alloc_failed", "not_initialized", "allocation failed"))


# Overflows while serving, and whose memory it was


def own_memory(oom: DeviceOutOfMemory) -> Bytes | None:
    """What this process holds, where its message says so."""
    return oom.own if oom.own is not None and not (oom.capacity and oom.own > 2 * oom.capacity) else None


def transient(case: Case) -> DeviceOutOfMemory | None:
    """The first overflow that a batch's temporaries explain: more asked for than was free, little reserved."""
    oom = first_overflow(case)
    if oom is None or oom.tried is None or is_trainers(case, oom) or oom.tried >= case.thresholds.bogus_request:
        return None
    if oom.free is not None and oom.tried <= oom.free:
        return None
    if not is_small(oom.reserved_unallocated, oom.tried) or is_draft_start(case, oom):
        return None
    return oom if stage(case, oom) in (Stage.SERVING, Stage.WARMUP, None) else None


def cause_of_transient(case: Case, oom: DeviceOutOfMemory) -> str:
    """The rule that names the place or the company of an overflow; "" where none does."""
    named = {
        "indexer": "context-proportional-transient",
        "logits": "logprob-transient",
        "vision": "vision-encoder-transient",
        "experts": "moe-receive-imbalance-transient",
        "image_processor": "image-preprocess-on-gpu",
        "dispatch_buffer": "comm-buffer-exceeds-free",
        "request_table": "req-to-token-table-too-large",
    }.get(site(case, oom) or "")
    if named:
        return named
    if len(small_processes(case, oom)) > 1:
        return "extra-processes-on-gpu0"
    if foreign_memory(case, oom) is not None:
        return "other-process-on-gpu"
    if large_prefill_before(case, oom) is not None:
        return "prefill-batch-transient"
    return ""


def last_batch_kind(case: Case, event: Event) -> str | None:
    """Whether the last batch line above an event is of decode or of prefill."""
    last = case.launch.series.last
    if last is None or not is_before(last.line, event.line):
        return None
    return "decode" if isinstance(last, DecodeBatch) else "prefill"


def large_prefill_before(case: Case, event: Event) -> PrefillBatch | None:
    """The large prefill batch that is the last line of traffic above an event."""
    last = case.launch.series.last
    if not isinstance(last, PrefillBatch) or not is_before(last.line, event.line) or not last.new_tokens:
        return None
    chunk = (case.limits.chunked_prefill_size if case.limits else None) or case.launch.number_of("chunked_prefill_size")
    large = case.thresholds.large_prefill_tokens
    return last if last.new_tokens >= (min(large, chunk) if chunk and chunk > 0 else large) else None


def fragmented(case: Case) -> DeviceOutOfMemory | None:
    """The first overflow that the allocator could have served, had its unused memory been in one piece."""
    limits = case.thresholds
    for oom in overflows(case):
        held, tried = oom.reserved_unallocated, oom.tried
        if held is None or not tried or held < tried or is_trainers(case, oom) or is_draft_start(case, oom):
            continue
        if len(small_processes(case, oom)) > 1:
            continue
        if held >= limits.fragmentation_block:
            return oom
    return None


def small_processes(case: Case, oom: DeviceOutOfMemory) -> list[Bytes]:
    """Processes on GPU 0 that hold about a context each, as an overflow lists them."""
    if oom.gpu not in (0, None) or len(oom.process_sizes) < 3:
        return []
    limits = case.thresholds
    return [size for size in oom.process_sizes if limits.context_least <= size <= limits.context_most]


def foreign_memory(case: Case, oom: DeviceOutOfMemory) -> Bytes | None:
    """What other processes hold, as an overflow lists them: more than a context, and not the server's own ranks."""
    sizes = list(oom.process_sizes)
    if oom.own is not None and oom.own in sizes:
        sizes.remove(oom.own)
    elif sizes:
        needed = (oom.allocated or 0) + (oom.reserved_unallocated or 0)
        mine = min((s for s in sizes if s >= needed), default=max(sizes))
        sizes.remove(mine)
    foreign = [size for size in sizes if size >= case.thresholds.foreign_memory]
    if not foreign or len(small_processes(case, oom)) > 1 or sharing_ranks(case) is not None:
        return None
    return Bytes(sum(foreign))


def sharing_ranks(case: Case) -> tuple[DeviceOutOfMemory, DeviceOutOfMemory] | None:
    """Overflows of two ranks on one device, with a second large process on it."""
    found = [e for e in overflows(case) if e.gpu is not None and e.rank]
    for one in found:
        for other in found:
            if one.rank < other.rank and one.gpu == other.gpu and one.line.node == other.line.node:
                large = [s for s in one.process_sizes if s > 0.25 * (one.capacity or s)]
                if len(large) > 1:
                    return one, other
    return None


def sees_images(case: Case) -> bool:
    """Whether the model takes images, by its name."""
    loaded = case.launch.first(WeightsLoaded)
    words = f"{case.launch.value('model_path') or ''} {loaded.architecture if loaded else ''}"
    return bool(re.search(r"VL\b|VL-|-VL|Vision|vision|Llava|llava|Omni|OCR|ConditionalGeneration", words))


# The host and the platform


def killed_from_outside(case: Case) -> list[Event]:
    """The signs of a kill for want of host memory; [] where the log has another reason."""
    failure = case.outcome.failure
    if failure is None or failure.kind is not FailureKind.HOST_OOM or case.launch.has(SharedMemoryFull):
        return []
    lines = {place(line) for line in failure.lines}
    signs: list[Event] = [e for e in case.launch.each(ExitCode, Killed) if place(e.line) in lines]
    if not signs:
        return []
    return [*signs, *(e for e in case.launch.each(Killed) if e not in signs)][:4]


def balance_check_is_false(case: Case) -> bool:
    """Whether the balance check tripped on the server's own memory: after the target's pool, or beside a trainer."""
    trip = case.launch.first(UnbalancedMemory)
    if trip is None:
        return False
    return last_before(case, trip.line, PoolEnd, GraphEnd) is not None or case.launch.has(TrainerLine)


def inbalance_switch(case: Case) -> tuple[str, str]:
    """The environment variable, and its value, that switches the balance check off in this release."""
    if case.launch.releases.reaches("0.5.9"):
        return "SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK", "false"
    return "SGL_DISABLE_TP_MEMORY_INBALANCE_CHECK", "1"


def printed_card(case: Case) -> Bytes | None:
    """The card's size as a line prints it, not as free memory suggests."""
    known = [x.capacity for x in case.ledgers if x.capacity is not None and x.capacity_basis is Basis.PRINTED]
    known += [x.capacity for x in case.launch.each(DeviceOutOfMemory) if x.capacity is not None]
    return min(known) if known else None


def held_by(case: Case) -> Bytes | None:
    """What was in use of the card before loading, this process's own start taken off."""
    card, opening = printed_card(case), case.opening
    if card is None or opening is None or unified_device(case) is not None:
        return None
    own = max((sum(e.size for e in x.earlier if e.pool is Pool.DISTRIBUTED) for x in case.ledgers), default=0)
    return Bytes(card - opening.available - max(0, own))


def held_before_start(case: Case) -> Bytes | None:
    """As held_by, where it is more than contexts and libraries explain."""
    held, card = held_by(case), printed_card(case)
    if held is None or card is None:
        return None
    return held if held > max(case.thresholds.context_most, 0.1 * card) else None


def unified_device(case: Case) -> Event | None:
    """The line that names a device whose memory is the host's."""
    found = case.launch.first(UnifiedMemoryDevice)
    if found is not None:
        return found
    named = [e for e in case.launch.each(DeviceNamed) if re.search(r"GB10|Thor|Orin", e.name or "")]
    return named[0] if named else None


def virtual_sizes(case: Case) -> list[Event]:
    """Lines that print address space as a size: terabytes, or an upper bound by name."""
    known = [e for e in case.launch.each(VirtualSize) if e.size_mb is None or e.size_mb >= 1 << 20]
    return [*known, *case.launch.each(KVPoolReserved)]


def asks_for_offload(case: Case) -> bool:
    """Whether the command asks to keep weights on the host."""
    names = [n for n in case.launch.arguments if n.startswith("kt_")]
    return bool(names) or flag_is_given(case, "cpu_offload_gb", "offload_group_size")


def keeps_experts(case: Case) -> bool:
    """Whether the command keeps a number of experts on the GPU."""
    return (case.launch.number_of("kt_num_gpu_experts") or 0) > 0


_WRAPPERS = ("kt", "amx", "cpu", "llamafile")


def ordinary_path(case: Case) -> ExpertMethod | None:
    """The line that names the plain expert method, where offload was asked for and no worker of one speaks."""
    if not asks_for_offload(case) or case.launch.has(Offload):
        return None
    methods = [e for e in case.launch.each(ExpertMethod) if "moe" in (e.method or "").lower()]
    if not methods or any(word in (m.method or "").lower() for m in methods for word in _WRAPPERS):
        return None
    return methods[0]


def slow_load(case: Case) -> list[LoadBarrier]:
    """Waits for other ranks that ran out, where nothing in the log says that a rank died."""
    killed = any(e.code in (-9, 9, 137) for e in case.launch.each(ExitCode)) or case.launch.has(Killed)
    if memory_ran_out(case) is not None or killed:
        return []
    return case.launch.each(LoadBarrier)


# Other failures

_EXPLAINED = (
    NoRoomForPool,
    PoolRefused,
    HostMemoryShort,
    HostOutOfMemory,
    KernelResourceShort,
    SharedMemoryFull,
    AttentionWorkspaceShort,
    DispatchLimitExceeded,
    LoadBarrier,
    AllocatorAssertion,
    UnbalancedMemory,
    StateSlotsExhausted,
    LastRequestDoesNotFit,
    PreallocationFull,
    SlotLeak,
    TokenSlotsExhausted,
    RequestSlotsExhausted,
    CommunicationBufferShort,
    MemorySaver,
)


def other_cause(case: Case) -> Event | None:
    """The error that ended a launch, where memory was there and nothing of the log speaks of a shortage."""
    launch = case.launch
    if case.outcome.outcome != "failed" or memory_ran_out(case) is not None or launch.has(*_EXPLAINED):
        return None
    if killed_from_outside(case) or capture_errors(case) or launch.has(CaptureFailed):
        return None
    if launch.has(PeerLost) and failed_first(case, launch.each(PeerLost)[0]) is None:
        return None
    named = launch.first(CompileFailed, KernelFault, ArgumentsRefused)
    raised = launch.first(ExceptionRaised)
    died = launch.first(ProcessFailed) or launch.first(Traceback)
    sign = named or raised or died
    if sign is None:
        return None
    free = free_at(case, sign.line)
    if free is not None and free < case.thresholds.memory_is_short:
        return None
    if named is not None or raised is not None:
        return sign
    fell = stage(case, sign)
    enough = free is not None and free >= case.wanted_range[0]
    return (
        sign
        if enough and fell is not None and fell not in (Stage.WEIGHTS, Stage.ARGUMENTS, Stage.DISTRIBUTED)
        else None
    )


def failed_first(case: Case, lost: PeerLost) -> Event | None:
    """What failed above a lost peer: another rank's error, or a shortage."""
    kinds = (
        DeviceOutOfMemory,
        DeviceFull,
        NoRoomForPool,
        KernelFault,
        KernelResourceShort,
        HostMemoryShort,
        CaptureFailed,
        ProcessFailed,
        Killed,
    )
    for event in case.launch.each(*kinds):
        if not is_before(event.line, lost.line):
            break
        if isinstance(event, CaptureFailed | ProcessFailed) and (event.rank == lost.rank or not event.rank):
            continue
        return event
    return None


def is_draft_pool(case: Case, event: Event) -> bool:
    """Whether an event fell while a draft's KV pool was built."""
    same = [
        e for e in case.launch.each(WeightsBegin, WeightsLoaded, PoolEnd, GraphBegin) if is_before(e.line, event.line)
    ]
    if event.rank and any(e.rank == event.rank for e in same):
        same = [e for e in same if e.rank == event.rank]
    loaded = [e for e in same if isinstance(e, WeightsLoaded)]
    if len(loaded) < 2 or isinstance(same[-1], WeightsBegin | GraphBegin):
        return False
    ends = [e for e in same if isinstance(e, PoolEnd)]
    if ends and isinstance(same[-1], PoolEnd) and is_before(loaded[1].line, ends[0].line):
        # 0.5.14 and later: both models load before both pools; a multi-layer draft has a pool for each layer
        return len(ends) == 1 or len(ends) > 2 or "pool" in sites(case, event)
    return is_draft_start(case, event) and "load" not in sites(case, event)[:1]


# What a launch does not have


def without_draft(case: Case) -> str | None:
    """No draft model speculates."""
    loads: dict[str, int] = {}
    for event in case.launch.each(WeightsLoaded):
        loads[event.rank] = loads.get(event.rank, 0) + 1
    drafted = has_draft(case) or any(n > 1 for n in loads.values()) or any(x.draft_pools for x in case.ledgers)
    drafted = drafted or any(has_draft(x) for x in case.earlier)
    return None if drafted else "no draft model speculates"


def without_state(case: Case) -> str | None:
    """No layer keeps a state."""
    hybrid = (
        case.launch.has(MambaPool, StateSlotsExhausted) or case.launch.number_of("max_mamba_cache_size") is not None
    )
    hybrid = hybrid or any(e.slots for e in case.launch.each(RequestsCapped))
    return None if hybrid else "the model has no pool of states"


def without_window(case: Case) -> str | None:
    """No layer has a sliding window with a pool of its own."""
    windowed = has_window(case) or case.launch.has(DeepSeekV4Budget, DeepSeekV4Pools)
    windowed = windowed or case.launch.series.peak_swa_usage is not None
    windowed = windowed or is_in_command(case, "swa_full_tokens_ratio")
    return None if windowed else "the model has no pool for sliding-window layers"


def without_pipeline(case: Case) -> str | None:
    """One stage holds all layers."""
    return None if stages_in_pipeline(case) > 1 else "one pipeline stage holds all layers"


def without_host_tier(case: Case) -> str | None:
    """No host tier."""
    tier = flag_is_given(case, "enable_hierarchical_cache", "hicache_size") or case.launch.has(
        HostPool, HostMemoryShort
    )
    return None if tier else "no host tier is used"


def without_data_parallel(case: Case) -> str | None:
    """One rank serves all requests."""
    printed = {*case.launch.rank_ids, *(e.rank for e in case.launch.each(ServerLimits))}
    dp = size_of(case, "dp_size", "DP") > 1 or attends_in_data_parallel(case) or any("DP" in rank for rank in printed)
    return None if dp else "requests are not spread over data-parallel ranks"


def without_offload(case: Case) -> str | None:
    """All weights are to lie on the GPU."""
    return None if asks_for_offload(case) else "no offload to the host is asked for"


def without_trainer(case: Case) -> str | None:
    """No trainer shares the GPUs, as far as the log tells."""
    shared = case.launch.has(TrainerLine, MemorySaver) or any(trainer_of(e.line) for e in overflows(case))
    return None if shared else "no trainer speaks in this log"


def without_earlier_start(case: Case) -> str | None:
    """Nothing to compare with."""
    return None if case.earlier else "the upload holds no earlier start"
