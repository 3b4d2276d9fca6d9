"""Overflows of the device: which counts, at which stage and place it fell, whose memory it was."""

from __future__ import annotations

from itertools import pairwise

from kvdiag.diagnosis.events.cuda_graph import GraphBegin, GraphEnd
from kvdiag.diagnosis.events.distributed import DataParallelStart, RankPlaced
from kvdiag.diagnosis.events.failure import CaptureFailed, ProcessFailed, Traceback
from kvdiag.diagnosis.events.frames import Frame
from kvdiag.diagnosis.events.kv_pool import PoolEnd
from kvdiag.diagnosis.events.libraries import DeviceFull
from kvdiag.diagnosis.events.overflow import DeviceOutOfMemory
from kvdiag.diagnosis.events.pattern import Event
from kvdiag.diagnosis.events.platform import MemorySaver, TrainerLine, trainer_of
from kvdiag.diagnosis.events.progress import CaptureProgress
from kvdiag.diagnosis.events.server_args import ExpandableSegments
from kvdiag.diagnosis.events.serving import DecodeBatch, PrefillBatch
from kvdiag.diagnosis.events.weights import ShardProgress, WeightsBegin, WeightsLoaded
from kvdiag.diagnosis.lines import LogLine
from kvdiag.diagnosis.outcome import Stage, stage_of
from kvdiag.diagnosis.rules.judgements.arguments import attends_in_data_parallel, has_draft, unified_device
from kvdiag.diagnosis.rules.judgements.places import TRACEBACK_LINES, is_before, last_before, once
from kvdiag.diagnosis.rules.rule import Case
from kvdiag.diagnosis.units import GIB, Bytes

_STAGES = ("distributed", "load", "pool", "draft_start", "batches", "decode")
_OUT_OF_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY
_HANDLED = ("custom allreduce", "skipping", "autotun", "to silence this warning", "warning:", "falling back")


def overflows(case: Case) -> list[DeviceOutOfMemory]:
    """Overflows of the device that were not handled, in the order of the log."""
    return once(e for e in case.launch.each(DeviceOutOfMemory) if not _is_handled(e.line))


def first_overflow(case: Case) -> DeviceOutOfMemory | None:
    """The overflow that came first: the later ones are its company."""
    return next(iter(overflows(case)), None)


def memory_ran_out(case: Case) -> DeviceOutOfMemory | DeviceFull | None:
    """The first sign that device memory ran out, with figures or without."""
    full = [e for e in case.launch.each(DeviceFull) if not _is_handled(e.line) and not _is_hosts(case, e)]
    signs: list[DeviceOutOfMemory | DeviceFull] = [*overflows(case), *full]
    return min(signs, key=lambda e: e.line.place, default=None)


def pinned_host_memory(case: Case) -> DeviceFull | None:
    """The driver's error without figures that pages of the host, to be pinned, ended in: no GPU memory is short."""
    return next((e for e in case.launch.each(DeviceFull) if _is_hosts(case, e)), None)


def unmapped_in_load(case: Case) -> list[MemorySaver]:
    """Pages that the memory saver could not have for weights: of a first load, and no resume's."""
    return [
        e
        for e in case.launch.each(MemorySaver)
        if _lacked_pages(e)
        and e.call not in ("pause", "resume")
        and stage_of(case.launch, e) is Stage.WEIGHTS
        and not any("resume" in text for text in e.line.following(40, "resume"))
    ]


def unmapped_in_resume(case: Case) -> list[MemorySaver]:
    """Pages that the memory saver could not have again, when the engine was to go on beside a trainer."""
    loading = {id(e) for e in unmapped_in_load(case)}
    savers = case.launch.each(MemorySaver)
    return [e for e in savers if _lacked_pages(e) and e.call != "malloc" and id(e) not in loading]


def _lacked_pages(saver: MemorySaver) -> bool:
    """Whether a call of the memory saver found no memory: a named one failed, or the driver's code says so."""
    return saver.call != "pause" if saver.call is not None else saver.result == _OUT_OF_MEMORY


def _is_hosts(case: Case, full: DeviceFull) -> bool:
    return full.by == "driver" and site(case, full) == "pinned_host"


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
    """The innermost place that means something by itself; loading, pools and batches are stages, not places."""
    return next((s for s in sites(case, event) if s not in _STAGES), None)


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
    if isinstance(event, DeviceOutOfMemory) and table_rows(case, event) is not None:
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


_ROWS = (2_048, 4_096, 5_120)  # the least, and by release the most, that SGLang takes where nobody sets the limit


def table_rows(case: Case, oom: DeviceOutOfMemory) -> int | None:
    """Rows of the table whose size an overflow asked for; None where the size is none of a table.

    Beside a long context any size is some number of rows: where nothing tells that the table was being made, only the
    limit and the ends of SGLang's own range count.
    """
    context, tried, place = case.context_length, oom.tried, site(case, oom)
    if not context or not tried or tried < GIB or _has_its_pools(case, oom) or place not in (None, "request_table"):
        return None
    limit = case.launch.number_of("max_running_requests")
    extra = int(case.launch.number_of("speculative_num_draft_tokens") or 0)
    rounding = max(0.006 * GIB, 2 << 20)
    is_due = place is not None or any(is_before(e.line, oom.line) for e in case.launch.each(WeightsLoaded))
    for pad in {4, 4 + extra, 0}:
        row = 4 * (context + pad)
        rows = round(tried / row)
        if limit or is_due:
            low, high = (limit, limit + 1) if limit else (_ROWS[0], _ROWS[-1] + 1)
            rows = int(min(max(rows, low), high))
        else:
            rows = min((n + more for n in _ROWS for more in (0, 1)), key=lambda n: abs(n * row - tried))
        if abs(rows * row - tried) <= rounding:
            return rows
    return None


def _has_its_pools(case: Case, event: Event) -> bool:
    """Whether the rank of an event had made its pools before it, the table of requests among them."""
    pools = [e for e in case.launch.each(PoolEnd) if e.rank == event.rank]
    last = case.launch.series.last
    return any(is_before(e.line, event.line) for e in [*pools, *([last] if last is not None else [])])


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
    named = sites(case, event)
    return "draft_start" in named and (bool(pools) or private or "pool" in named)


def is_small(reserved: Bytes | None, wanted: Bytes | None) -> bool:
    """Whether what the allocator holds unused could not have served a request. Unknown counts as small."""
    return reserved is None or wanted is None or reserved < wanted


def free_at(case: Case, line: LogLine) -> Bytes | None:
    """Free memory when a line was printed: the last reading or bar above it; of its rank where that has one."""
    marks: list[tuple[tuple[int, int], str, Bytes]] = []
    for ledger in case.ledgers:
        marks += [(r.line.place, ledger.rank, r.available) for r in ledger.readings]
    for bar in case.launch.each(CaptureProgress):
        if bar.available is not None:
            marks.append((bar.line.place, bar.rank, bar.available))
    above = sorted(m for m in marks if m[0] <= line.place)
    mine = [m for m in above if line.rank and m[1] == line.rank]
    chosen = mine or above
    return chosen[-1][2] if chosen else None


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
    if is_draft_start(case, oom) or not (is_small(held_unused(oom), oom.tried) or has_expandable_segments(case)):
        return None
    fell = stage(case, oom)
    if fell is None and unmapped_in_resume(case):
        return None  # beside a trainer no batch need be at work
    return oom if fell in (Stage.SERVING, Stage.WARMUP, None) else None


def room_for(case: Case, tried: Bytes | None, free: Bytes | None) -> Bytes | None:
    """What a batch's temporaries lack, with half of the free memory wanted at the end left beside them."""
    if tried is None:
        return None
    return Bytes(max(0, tried - (free or 0) + round(case.thresholds.thin_share * case.wanted_range[0])))


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
    """Whether an event fell in a batch of decode or of prefill: by its traceback, else by the last batch line above."""
    if "decode" in sites(case, event) and stage(case, event) is Stage.SERVING:
        return "decode"
    last = case.launch.series.last
    if last is None or not is_before(last.line, event.line):
        return None
    return "decode" if isinstance(last, DecodeBatch) else "prefill"


def large_prefill_before(case: Case, event: Event) -> PrefillBatch | None:
    """The large prefill batch that is the last line of traffic above an event."""
    last = case.launch.series.last
    if not isinstance(last, PrefillBatch) or not is_before(last.line, event.line) or not last.new_tokens:
        return None
    if last_batch_kind(case, event) != "prefill":
        return None
    chunk = (case.limits.chunked_prefill_size if case.limits else None) or case.launch.number_of("chunked_prefill_size")
    large = case.thresholds.large_prefill_tokens
    return last if last.new_tokens >= (min(large, chunk) if chunk and chunk > 0 else large) else None


def held_unused(oom: DeviceOutOfMemory) -> Bytes | None:
    """What the allocator holds unused: as printed, else reserved less allocated, as older messages have it."""
    if oom.reserved_unallocated is not None or oom.reserved is None or oom.allocated is None:
        return oom.reserved_unallocated
    return Bytes(max(0, oom.reserved - oom.allocated))


def fragmented(case: Case) -> DeviceOutOfMemory | None:
    """The first overflow that the allocator could have served, had its unused memory been in one piece."""
    limits = case.thresholds
    if has_expandable_segments(case):
        return None
    for oom in overflows(case):
        held, tried = held_unused(oom), oom.tried
        if held is None or not tried or held < tried or is_trainers(case, oom) or is_draft_start(case, oom):
            continue
        if stage(case, oom) is Stage.WEIGHTS or site(case, oom) == "image_processor":
            continue
        if len(small_processes(case, oom)) > 1:
            continue
        if held >= limits.fragmentation_block:
            return oom
    return None


def has_expandable_segments(case: Case) -> bool:
    """Whether the allocator is told already to grow its segments: what it holds unused is then no want of one piece."""
    names = [n for n in case.launch.arguments if n.startswith("PYTORCH_") and n.endswith("ALLOC_CONF")]
    told = any("expandable_segments:True" in str(case.launch.value(name)) for name in names)
    return told or case.launch.has(ExpandableSegments)


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
        mine = min((s for s in sizes if s >= needed), default=max(sizes)) if needed else max(sizes)
        sizes.remove(mine)
    foreign = [size for size in sizes if size >= case.thresholds.foreign_memory]
    if not foreign and not oom.processes and unified_device(case) is None:
        hidden = unlisted_memory(oom)
        foreign = [hidden] if hidden is not None and hidden > case.thresholds.context_most else []
    if not foreign or len(small_processes(case, oom)) > 1 or sharing_ranks(case) is not None:
        return None
    if site(case, oom) == "image_processor":
        return None  # a helper of the server overflowed; the large process is the server's own rank
    return Bytes(sum(foreign))


def unlisted_memory(oom: DeviceOutOfMemory) -> Bytes | None:
    """What of the card is neither free nor this process's, where the message says both: others hold it unlisted."""
    own = own_memory(oom)
    if own is None or oom.capacity is None or oom.free is None:
        return None
    return Bytes(oom.capacity - oom.free - own)


def sharing_ranks(case: Case) -> tuple[DeviceOutOfMemory, DeviceOutOfMemory] | None:
    """Overflows of two ranks on one device, with a second large process on it."""
    found = [e for e in overflows(case) if e.gpu is not None and e.rank]
    for one in found:
        for other in found:
            if one.rank < other.rank and one.gpu == other.gpu and one.line.node == other.line.node:
                share = case.thresholds.shared_card_share * (one.capacity or 0)
                large = [s for s in one.process_sizes if s > share]
                if len(large) > 1 or (share and (unlisted_memory(one) or 0) > share):
                    return one, other
    return None


def shared_start(case: Case) -> tuple[Event, Event, str, str, int] | None:
    """Two ranks that are put on one device, by the lines that place them: both lines, both names, the device.

    A data-parallel worker takes as many cards as its tensor ranks times its stages.
    """
    placed: dict[tuple[str, int], tuple[Event, str]] = {}
    for event in case.launch.each(RankPlaced):
        if event.gpu is None or event.who is None:
            continue
        known = placed.setdefault((event.line.node or "", event.gpu), (event, event.who))
        if known[1] != event.who:
            return known[0], event, known[1], event.who, event.gpu
    starts = sorted(
        (e for e in case.launch.each(DataParallelStart) if e.gpu is not None and e.dp is not None),
        key=lambda e: (e.line.node or "", e.dp or 0),
    )
    cards = int((case.launch.number_of("tp_size") or 1) * (case.launch.number_of("pp_size") or 1))
    if attends_in_data_parallel(case) or (case.launch.number_of("nnodes") or 1) > 1:
        return None
    for one, other in pairwise(starts):
        if one.line.node == other.line.node and one.dp != other.dp and 0 <= (other.gpu or 0) - (one.gpu or 0) < cards:
            return one, other, f"DP{one.dp}", f"DP{other.dp}", other.gpu or 0
    return None


def is_draft_pool(case: Case, event: Event) -> bool:
    """Whether an event fell while a draft's KV pool was built."""
    named = sites(case, event)
    if {"draft_start", "pool"} <= set(named) and "load" not in named:
        return True
    same = [
        e for e in case.launch.each(WeightsBegin, WeightsLoaded, PoolEnd, GraphBegin) if is_before(e.line, event.line)
    ]
    if event.rank and any(e.rank == event.rank for e in same):
        same = [e for e in same if e.rank == event.rank]
    loaded = [e for e in same if isinstance(e, WeightsLoaded)]
    cut = bool(loaded) and any(isinstance(e, PoolEnd) and is_before(e.line, loaded[0].line) for e in same)
    if len(loaded) < (1 if cut else 2) or isinstance(same[-1], WeightsBegin | GraphBegin):
        return False
    ends = [e for e in same if isinstance(e, PoolEnd)]
    if len(loaded) > 1 and ends and isinstance(same[-1], PoolEnd) and is_before(loaded[1].line, ends[0].line):
        # 0.5.14 and later: both models load before both pools; a multi-layer draft has a pool for each layer
        return len(ends) == 1 or len(ends) > 2 or "pool" in sites(case, event)
    return is_draft_start(case, event) and "load" not in sites(case, event)[:1]
