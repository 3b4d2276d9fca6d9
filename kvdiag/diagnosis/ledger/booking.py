"""Events to entries: every drop between two readings of a rank is booked.

Between two readings the printed entries should account for the drop. What they leave is booked by what the step is
known to do (workspaces between a pool and a capture), or as UNEXPLAINED; never folded into a printed figure.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kvdiag.diagnosis.cards import known_capacity
from kvdiag.diagnosis.events.buffers import BufferAllocated
from kvdiag.diagnosis.events.cuda_graph import GraphBegin, GraphEnd
from kvdiag.diagnosis.events.distributed import CapacityFallback, DistributedEnd
from kvdiag.diagnosis.events.failure import DeviceOutOfMemory
from kvdiag.diagnosis.events.hardware import CardTable, DeviceNamed
from kvdiag.diagnosis.events.host_memory import HostPool
from kvdiag.diagnosis.events.kv_pool import (
    DeepSeekV4Budget,
    KVPoolAllocated,
    KVPoolReserved,
    MambaCheckpointPool,
    MambaPool,
    PoolEnd,
    PostCapturePool,
    ReplayBuffers,
    SlidingWindowPool,
    SlidingWindowUsage,
    UnifiedPool,
)
from kvdiag.diagnosis.events.pattern import Event
from kvdiag.diagnosis.events.ready import ServerLimits
from kvdiag.diagnosis.events.weights import DeepGemmWarmup, WeightsBegin, WeightsLoaded
from kvdiag.diagnosis.launches import Launch
from kvdiag.diagnosis.ledger.indexer import index_keys, keeps_index_keys
from kvdiag.diagnosis.ledger.model import Basis, Entry, KVPool, Ledger, Model, Moment, Pool, Reading
from kvdiag.diagnosis.ledger.request_table import request_tables
from kvdiag.diagnosis.ledger.sizing.gather import kv_dtype_of
from kvdiag.diagnosis.ledger.sizing.mha import element_size
from kvdiag.diagnosis.ledger.sizing.unified import unified_device
from kvdiag.diagnosis.ledger.warm_up import warm_up
from kvdiag.diagnosis.lines import LogLine
from kvdiag.diagnosis.units import GIB, MIB, Bytes, format_gib

PRINT = Bytes(round(0.0051 * GIB))  # half of the last printed digit of a "GB" figure
LOOSE = GIB // 5  # an assumed table must account for the drop to this, or it would hide what is unexplained
RETURNED = GIB // 10  # memory that comes back while a draft's pool is built: more than readings leave open
SEVERAL_THINGS = 2 * GIB  # workspaces alone, or the allocator's cache alone, take less
ROUND_PERCENT = 0.05  # that pages cut from a ratio of two decimals
NOISE = 64  # bytes that the reading of decimal text leaves between two equal figures
HOSTS = "the host and other programs"
UNNAMED = "contexts, libraries or other programs, which no line names"
_FIRST = (Moment.DISTRIBUTED_BEGIN, Moment.DISTRIBUTED_END, Moment.WEIGHTS_BEGIN)
SHARED = (
    "host and GPU share one memory here, and a reading is what the operating system has available: page cache, swap"
    " and other programs move it, so no line tells this part from theirs"
)


@dataclass
class _Step:
    """What happened between two readings."""

    entries: list[Entry] = field(default_factory=list)
    buffers: list[Entry] = field(default_factory=list)  # printed sizes that count only where the drop holds them
    warm_ups: list[DeepGemmWarmup] = field(default_factory=list)


# What a printed buffer is for, to the pool it belongs to; others live in other processes or within a pool's own figure.
_BUFFERS = {
    "all-reduce symmetric memory": Pool.DISTRIBUTED,
    "symmetric memory pool": Pool.DISTRIBUTED,
    "symmetric buffer": Pool.DISTRIBUTED,
    "DeepEP buffer": Pool.DISTRIBUTED,
    "NPU shared space": Pool.DISTRIBUTED,
    "embedding pool": Pool.BUFFERS,
    "routed experts": Pool.BUFFERS,
    "staging buffer": Pool.BUFFERS,
    "DCP pack buffers": Pool.BUFFERS,
    "transfer embedding pool": Pool.BUFFERS,
    "prefill graph workspace": Pool.WORKSPACE,
}


_SUMS = (MambaPool, ReplayBuffers)  # of parts that may be absent
_CACHES = {Pool.KV_CACHE, Pool.SWA_KV_CACHE, Pool.MAMBA_STATE}


def book(launch: Launch) -> list[Ledger]:
    """The ledger of each rank of a launch."""
    return [_RankBook(launch, rank).close() for rank in launch.rank_ids]


def _has_two_pools(launch: Launch, rank: str) -> bool:
    """Whether a rank has a window's pool and a full one: two of unlike length, and nothing that speaks of a draft."""
    mine = launch.of_rank(rank)
    ends = next((i for i, event in enumerate(mine) if isinstance(event, PoolEnd)), len(mine))
    pools = [event for event in mine[:ends] if isinstance(event, KVPoolAllocated)]
    if len(pools) != 2 or any(x.label or not x.tokens for x in pools):
        return False
    percent = 100 * (pools[0].tokens or 0) / (pools[1].tokens or 1)  # swa_full_tokens_ratio; the window's comes first
    if not 0 < percent < 100 or abs(percent - round(percent)) >= ROUND_PERCENT:
        return False
    loads = sum(isinstance(event, WeightsLoaded) for event in mine)
    drafted = launch.value("speculative_algorithm") or any("draft" in (x.kind or "") for x in launch.each(GraphBegin))
    return loads < 2 and not drafted


class _RankBook:
    """One rank's events, walked once in order."""

    def __init__(self, launch: Launch, rank: str) -> None:
        self.launch = launch
        self.ledger = Ledger(rank=rank)
        self.step = _Step()
        self.loads = 0  # weight loads begun or, where only the end is printed, ended
        self.pool_ends = 0
        self.loading: Model = Model.TARGET
        self.last_graph: Model = Model.TARGET
        self.swa = launch.has(SlidingWindowPool, SlidingWindowUsage) or _has_two_pools(launch, rank)
        self.unified = unified_device(launch) is not None
        self.sparse = keeps_index_keys(launch)
        self.open_loads = 0
        self.is_partial = False  # the event at hand
        mine = list(launch.of_rank(rank))
        ends = [e for e in mine if isinstance(e, PoolEnd)]
        loads = [e for e in mine if isinstance(e, WeightsLoaded)]
        first_pool = next((i for i, e in enumerate(mine) if isinstance(e, PoolEnd | KVPoolAllocated)), len(mine))
        before = sum(isinstance(e, WeightsLoaded) for e in mine[:first_pool])
        first_load = next((i for i, e in enumerate(mine) if isinstance(e, WeightsBegin | WeightsLoaded)), len(mine))
        if first_pool < first_load < len(mine):
            self.loads = 1  # the log begins after the target's load: what loads after a pool is a draft
        self.both_load_first = before > 1 and len(loads) > 1
        self.has_draft_pool = len(ends) > 1
        self.events: list[Event] = mine

    def close(self) -> Ledger:
        for event in self.events:
            self._take(event)
        self._lone_window()
        self._summary()
        self._host()
        self._capacity()
        self._before_opening()
        return self.ledger

    # Steps of a start

    def _take(self, event: Event) -> None:
        self.is_partial = event.is_partial
        if event.is_partial and isinstance(event, _SUMS):
            return  # what its line would have gone on with is not nothing
        match event:
            case DistributedEnd(used=used) if used is not None and not self.loads:
                self.ledger.earlier.append(Entry(Pool.DISTRIBUTED, Model.TARGET, used, Basis.PRINTED, (event.line,)))
            case WeightsBegin():
                self.open_loads += 1
                self.loads += 1
                self.loading = Model.TARGET if self.loads == 1 else Model.DRAFT
                self._read(Moment.WEIGHTS_BEGIN, self.loading, event.available, event.line)
            case WeightsLoaded():
                if not self.open_loads:
                    self.loads += 1
                    self.loading = Model.TARGET if self.loads == 1 else Model.DRAFT
                else:
                    self.open_loads -= 1
                if event.used is not None:
                    self._enter(Pool.WEIGHTS, self.loading, event.used, Basis.PRINTED, event.line)
                self._read(Moment.WEIGHTS_END, self.loading, event.available, event.line)
            case KVPoolAllocated():
                self._kv_pool(event)
            case SlidingWindowUsage():
                self._sliding_window_sum(event)
            case MambaPool():
                self._mamba(event)
            case PostCapturePool():
                self._post_capture_pool(event)
            case UnifiedPool():
                self._unified_pool(event)
            case MambaCheckpointPool(size=size) if size is not None:
                self._enter(Pool.MAMBA_STATE, Model.TARGET, size, Basis.PRINTED, event.line, "int8 checkpoints")
            case ReplayBuffers(size=size) if size:
                self._enter(Pool.MAMBA_STATE, self._pool_model(), size, Basis.PRINTED, event.line, "replay buffers")
            case BufferAllocated():
                self._buffer(event)
            case DeepGemmWarmup():
                self.step.warm_ups.append(event)
            case PoolEnd():
                self.pool_ends += 1
                self._read(Moment.POOL_END, self._pool_model(), event.available, event.line)
            case GraphBegin():
                self._read(Moment.CUDA_GRAPH_BEGIN, self._graph_model(event.kind), event.available, event.line)
            case GraphEnd():
                model = self._graph_model(event.kind)
                if event.used is not None:
                    graphs = self._graphs(event.kind, model)
                    self._enter(Pool.CUDA_GRAPHS, model, event.used, Basis.PRINTED, event.line, graphs=graphs)
                self._read(Moment.CUDA_GRAPH_END, model, event.available, event.line)

    def _pool_model(self) -> Model:
        """Whose pool is being built: the second one of a rank is the draft's, in every era."""
        return Model.TARGET if self.pool_ends <= 1 else Model.DRAFT

    def _graph_model(self, kind: str | None) -> Model:
        words = (kind or "").split()
        if "draft" in words:
            return Model.DRAFT
        if "target" in words:
            return Model.TARGET
        # Before 0.5.14 a draft worker's own decode graph comes after its pool, unlabelled.
        return Model.DRAFT if self.pool_ends > 1 and not self.both_load_first else Model.TARGET

    def _graphs(self, kind: str | None, model: Model) -> str:
        """Which graphs a capture makes. An unlabelled one of a target that verifies drafts is not told apart."""
        said = kind or ""
        named = {"prefill": "prefill", "piecewise": "prefill", "verify": "verify", "extend": "extend"}
        for word, graphs in named.items():
            if word in said:
                return graphs
        drafted = model is Model.TARGET and bool(self.launch.value("speculative_algorithm"))
        return "decode" if "decode" in said or not drafted else ""

    def _kv_pool(self, event: KVPoolAllocated) -> None:
        if (event.label or "").lower().endswith("index") and event.size is not None:
            self._enter(Pool.INDEXER_CACHE, self._pool_model(), event.size, Basis.PRINTED, event.line)
            return
        pools = self.ledger.pools
        draft = self.pool_ends >= 1
        has_target = any(p.model is Model.TARGET for p in pools)
        if not draft and not self.swa and has_target and (event.label or "").lower() != "swa":
            draft = True  # a second pool before the first pool end, with no sliding window: the draft's
        model = Model.DRAFT if draft else Model.TARGET
        label = (event.label or "").upper()
        pool = KVPool(
            model, event.tokens, event.size, label == "SWA", event.dtype, event.printed_figures, (event.line,)
        )
        pools.append(pool)
        if event.size is not None:
            self._enter(Pool.KV_CACHE, model, event.size, Basis.PRINTED, event.line)

    def _lone_window(self) -> None:
        """Name the only pool that the log has a window, where its tokens are those of the line that splits the two.

        The other's size is then not known, nor is that of the two together.
        """
        pools = [pool for pool in self.ledger.pools if pool.model is Model.TARGET]
        target = [pool for pool in pools if pool.tokens is not None]
        for split in self.launch.each(SlidingWindowPool) if len(target) == 1 else ():
            if not split.full_tokens or target[0].tokens not in (split.full_tokens, split.swa_tokens):
                continue
            target[0].sliding_window |= target[0].tokens != split.full_tokens
            own = {event.line for event in self.events if isinstance(event, KVPoolAllocated)}
            if split.swa_tokens and len(pools) == 1 and own.issuperset(pools[0].lines):
                pools.append(KVPool(Model.TARGET, None, None, not target[0].sliding_window))
                self.ledger.pools.append(pools[-1])

    def _sliding_window_sum(self, event: SlidingWindowUsage) -> None:
        """The sum of both pools: their own lines count where they are printed; what these leave is the other's."""
        model = Model.TARGET if self.pool_ends == 0 else Model.DRAFT
        mine = [p for p in self.ledger.pools if p.model is model and p.size is not None]
        basis, size, tokens, window = Basis.PRINTED, event.size, event.full_tokens, False
        if mine:
            if event.size is None or len(mine) > 1:
                return
            printed = mine[0].size or Bytes(0)
            size = Bytes(event.size - printed)
            if size <= (mine[0].printed + 1) * PRINT:
                return
            apart = event.swa_tokens != event.full_tokens  # else no count tells which of the two has its own line
            mine[0].sliding_window |= apart and mine[0].tokens == event.swa_tokens
            window = apart and not mine[0].sliding_window
            tokens = event.swa_tokens if window else event.full_tokens
            basis = Basis.DERIVED
        self.ledger.pools.append(KVPool(model, tokens, size, window, None, 1, (event.line,)))
        if size is not None:
            what = "the sum of both pools, less the one that has its own line" if mine else ""
            self._enter(Pool.KV_CACHE, model, size, basis, event.line, what)

    def _mamba(self, event: MambaPool) -> None:
        model = Model.TARGET if self.pool_ends == 0 else Model.DRAFT
        size = Bytes(0)
        drafts = [part for part in (event.intermediate_ssm, event.intermediate_conv) if part is not None]
        for part, what in (
            (event.conv, "convolution state"),
            (event.ssm, "state"),
            (event.intermediate_ssm, "speculative states"),
            (event.intermediate_conv, "speculative convolution windows"),
        ):
            if part is not None:
                self._enter(Pool.MAMBA_STATE, model, part, Basis.PRINTED, event.line, what)
                size = size + part
        if model is Model.TARGET:
            self.ledger.mamba_slots = event.slots
            self.ledger.mamba_size = size
            self.ledger.mamba_speculative = Bytes(sum(drafts)) if drafts else None

    def _post_capture_pool(self, event: PostCapturePool) -> None:
        """The pool as it really is, where the line before capture was an upper bound of addresses."""
        model = Model.DRAFT if event.model == "draft" else Model.TARGET
        self.ledger.pools.append(KVPool(model, event.tokens, event.size, False, event.dtype, 1, (event.line,)))
        if event.size is not None:
            self._enter(Pool.KV_CACHE, model, event.size, Basis.PRINTED, event.line)
        self._read(Moment.POOL_END, model, event.available, event.line)

    def _unified_pool(self, event: UnifiedPool) -> None:
        """One byte budget for several pools: its whole size, and the tokens of the full pool."""
        mine = [p for p in self.ledger.pools if p.model is Model.TARGET]
        if event.size is not None and event.what == "allocated" and not mine:
            self.ledger.pools.append(KVPool(Model.TARGET, None, event.size, False, None, 1, (event.line,)))
            self._enter(Pool.KV_CACHE, Model.TARGET, event.size, Basis.PRINTED, event.line, "unified pool")
        elif event.tokens is not None and mine and mine[-1].tokens is None:
            mine[-1].tokens = event.tokens
            mine[-1].lines = (*mine[-1].lines, event.line)

    def _buffer(self, event: BufferAllocated) -> None:
        pool = _BUFFERS.get(event.what)
        if pool is not None and event.size is not None:
            size = Bytes(event.size * (event.count or 1))
            self.step.buffers.append(Entry(pool, self.loading, size, Basis.PRINTED, (event.line,), event.what))

    # Readings and what lies between them

    def _enter(
        self, pool: Pool, model: Model, size: Bytes, basis: Basis, line: LogLine, what: str = "", graphs: str = ""
    ) -> None:
        self.step.entries.append(Entry(pool, model, size, basis, (line,), what, graphs))

    def _read(self, moment: Moment, model: Model, available: Bytes | None, line: LogLine) -> None:
        if available is None:
            return
        reading = Reading(moment, model, available, line)
        ledger = self.ledger
        if ledger.opening is None:
            before = self._before_first(reading)
            if before is not None:
                ledger.opening, ledger.opening_basis, ledger.closing = before, Basis.DERIVED, before
                self._settle(reading)
            elif not self.is_partial:  # else its line may have gone on with what it took
                ledger.earlier.extend(self.step.entries)
                self.step = _Step()
                ledger.opening = reading
        else:
            self._settle(reading)
        ledger.readings.append(reading)
        ledger.closing = reading

    def _before_first(self, reading: Reading) -> Reading | None:
        """What was free before the step that the first reading ends, where the step's own lines print what it took.

        SGLang prints usage as before minus after, so their sum is what was free; None where nothing was printed.
        """
        taken = [e for e in self.step.entries if e.basis is not Basis.ASSUMED]
        if not taken or len(taken) < len(self.step.entries):
            return None
        match reading.moment:
            case Moment.WEIGHTS_END if all(e.pool is Pool.WEIGHTS for e in taken):
                moment = Moment.WEIGHTS_BEGIN
            case Moment.POOL_END if not any(e.pool is Pool.WEIGHTS for e in taken):
                moment = Moment.WEIGHTS_END
            case Moment.CUDA_GRAPH_END if all(e.pool is Pool.CUDA_GRAPHS for e in taken):
                moment = Moment.CUDA_GRAPH_BEGIN
            case _:
                return None
        return Reading(moment, reading.model, Bytes(reading.available + sum(e.size for e in taken)), reading.line)

    def _settle(self, reading: Reading) -> None:
        """Close the step that ends with this reading."""
        ledger = self.ledger
        before = ledger.closing
        assert before is not None
        drop = Bytes(before.available - reading.available)
        self._pool_by_budget(before, reading)
        entries = self._split_pools(self.step.entries)
        rest = Bytes(drop - sum(e.size for e in entries))
        for buffer in self.step.buffers:
            if 0 < buffer.size <= rest + PRINT:
                entries.append(buffer)
                rest = Bytes(rest - buffer.size)
        entries, warmed = self._warm_up(entries, before, reading, rest)
        rest = Bytes(drop - sum(e.size for e in entries))
        ledger.entries.extend(entries)
        self.step = _Step()
        lines = (before.line, reading.line)
        pool, what = self._destination(before, reading, entries)
        if pool is Pool.REQUEST_TABLE:
            rest = self._scales(entries, rest, reading)
            if self.both_load_first and reading.model is Model.DRAFT and rest < -RETURNED:
                back = "came back after the target's pool: what the draft's load held and did not keep"
                ledger.entries.append(Entry(Pool.WEIGHTS, Model.DRAFT, rest, Basis.DERIVED, lines, back))
                return
            rest = self._request_table(rest, reading, lines)
            pool, what = Pool.UNEXPLAINED, ""
            if self.launch.value("enable_lora") or self.launch.value("lora_paths"):
                pool, what = Pool.LORA, "LoRA adapters' buffers, which no line prints"
        elif pool is Pool.WEIGHTS and what:  # the load and the pools in one drop
            rest = self._request_table(rest, reading, lines)
        if abs(rest) <= NOISE:
            return
        if before.moment is Moment.WEIGHTS_END and pool in (Pool.WORKSPACE, Pool.BUFFERS) and rest > SEVERAL_THINGS:
            pool, what = Pool.UNEXPLAINED, "what follows the load and no line prints: states, tables, workspaces"
        if pool is Pool.UNEXPLAINED and not what and self.unified and abs(rest) > 3 * PRINT:
            what = SHARED
        if warmed:
            what = f"{what}; {warmed}" if what else warmed
        ledger.entries.append(Entry(pool, reading.model, rest, Basis.DERIVED, lines, what))

    def _warm_up(self, entries: list[Entry], before: Reading, reading: Reading, rest: Bytes) -> tuple[list[Entry], str]:
        """What DeepGEMM's warm-up kept, as an entry where no line prints the step; else words for the step."""
        found = warm_up(self.step.warm_ups, before)
        if found is None:
            return entries, ""
        if any(e.pool is Pool.CUDA_GRAPHS for e in entries):
            told = [
                replace(e, what=f"{e.what}; {found.words}" if e.what else found.words)
                if e.pool is Pool.CUDA_GRAPHS
                else e
                for e in entries
            ]
            return told, ""
        if found.kept is None or not PRINT < found.kept <= rest + PRINT:
            return entries, found.words
        kept = Bytes(min(found.kept, rest))
        return [*entries, Entry(Pool.WORKSPACE, reading.model, kept, Basis.DERIVED, found.lines, found.words)], ""

    def _pool_by_budget(self, before: Reading, reading: Reading) -> None:
        """Where the end of the load is missing, a pool without a line of its own takes tokens times bytes a token."""
        if before.moment is not Moment.WEIGHTS_BEGIN or reading.moment is Moment.WEIGHTS_END or self.step.entries:
            return
        budgets = self.launch.each(DeepSeekV4Budget, rank=self.ledger.rank)
        limits = self.launch.first(ServerLimits)
        if not budgets or budgets[-1].bytes_per_token is None:
            return
        tokens = [n for n in (budgets[-1].tokens, limits.tokens if limits else None) if n is not None]
        if tokens:
            size = Bytes(round(min(tokens) * budgets[-1].bytes_per_token))
            self._enter(Pool.KV_CACHE, reading.model, size, Basis.DERIVED, budgets[-1].line, "tokens × bytes a token")

    def _destination(self, before: Reading, reading: Reading, entries: list[Entry]) -> tuple[Pool, str]:
        """Where the part of a drop goes that no printed figure accounts for."""
        took = {e.pool for e in entries}
        if before.moment is Moment.WEIGHTS_BEGIN and reading.moment not in (Moment.WEIGHTS_BEGIN, Moment.WEIGHTS_END):
            if took & {Pool.KV_CACHE, Pool.SWA_KV_CACHE}:
                return Pool.WEIGHTS, "no line prints the end of the load; what the pools leave of the drop"
            return Pool.UNEXPLAINED, "weights and pools together: no line tells one from the other"
        after = reading.moment in (Moment.CUDA_GRAPH_BEGIN, Moment.CUDA_GRAPH_END, Moment.READY)
        sized = any(pool.size is not None for pool in self.ledger.pools)
        if before.moment is Moment.WEIGHTS_END and after and not sized and not took & _CACHES:
            return Pool.UNEXPLAINED, "the pool and what follows it: no line tells one from the other"
        match reading.moment:
            case Moment.WEIGHTS_END if before.moment is Moment.WEIGHTS_BEGIN:
                return (Pool.UNEXPLAINED, "") if Pool.WEIGHTS in took else (Pool.WEIGHTS, "")
            case Moment.POOL_END if before.moment in (Moment.WEIGHTS_END, Moment.POOL_END):
                if took & _CACHES or self.launch.has(KVPoolReserved):
                    return Pool.REQUEST_TABLE, ""
                return Pool.KV_CACHE, "no line prints the pool; what was taken from the weights to its end"
            case Moment.CUDA_GRAPH_BEGIN | Moment.WEIGHTS_BEGIN:
                return Pool.WORKSPACE, "attention workspaces and libraries, between two printed readings"
            case Moment.CUDA_GRAPH_END if before.moment is Moment.CUDA_GRAPH_BEGIN:
                return (Pool.UNEXPLAINED, "") if Pool.CUDA_GRAPHS in took else (Pool.CUDA_GRAPHS, "")
            case Moment.READY:
                return Pool.BUFFERS, "buffers and the allocator's cache, after the last capture"
            case Moment.CUDA_GRAPH_END | Moment.POOL_END:
                return Pool.WORKSPACE, "workspaces, between two printed readings"
        return Pool.UNEXPLAINED, ""

    def _scales(self, entries: list[Entry], rest: Bytes, reading: Reading) -> Bytes:
        """Book the scales of an FP4 pool where the line leaves them out and the drop holds them; return what is left.

        One byte for 16 values of half a byte each, so an eighth of what is printed.
        Source: mem_cache/memory_pool.py, MHATokenToKVPoolFP4 (its line counts the scales since early 2026).
        """
        printed = sum(e.size for e in entries if e.pool is Pool.KV_CACHE and e.model is Model.TARGET)
        dtype = kv_dtype_of(self.launch, self.ledger)
        if not printed or reading.model is Model.DRAFT or element_size(dtype) != 0.5 or rest < printed // 8 - PRINT:
            return rest
        size = Bytes(min(printed // 8, rest))
        lines = tuple(line for e in entries if e.pool is Pool.KV_CACHE for line in e.lines)
        what = "scales of the FP4 values, which the pool line leaves out"
        self.ledger.entries.append(Entry(Pool.KV_CACHE, Model.TARGET, size, Basis.DERIVED, lines, what))
        return Bytes(rest - size)

    def _request_table(self, rest: Bytes, reading: Reading, lines: tuple[LogLine, ...]) -> Bytes:
        """Book the request table as far as the drop holds it; what it leaves is returned."""
        if reading.model is Model.DRAFT or rest <= PRINT:
            return rest
        fitting = [
            t
            for t in request_tables(self.launch, self.ledger.rank)
            if 0 < t.size <= rest + 4 * PRINT and (t.basis is Basis.DERIVED or rest - t.size <= LOOSE)
        ]
        if not fitting:
            return rest
        table = max(fitting, key=lambda t: t.size)
        share = Bytes(min(table.size, rest))
        self.ledger.entries.append(
            Entry(Pool.REQUEST_TABLE, Model.TARGET, share, table.basis, (*lines, *table.lines), table.equation)
        )
        return Bytes(rest - share)

    def _split_pools(self, entries: list[Entry]) -> list[Entry]:
        """Name what shares a pool's line or looks like it: index keys, the sliding-window pool of a rank's two."""
        return self._split_windows(entries) if self.swa else self._split_index(entries)

    def _split_index(self, entries: list[Entry]) -> list[Entry]:
        """The index keys of sparse attention apart from the KV that one line prints with them; together its figure."""
        if not self.sparse or not any(entry.pool is Pool.KV_CACHE for entry in entries):
            return entries
        pools = {pool.lines[0].place: pool for pool in self.ledger.pools}
        found = []
        for entry in entries:
            pool = pools.get(entry.lines[0].place) if entry.pool is Pool.KV_CACHE else None
            keys = index_keys(self.launch, self.ledger, pool) if pool is not None else None
            if keys is None:
                found.append(entry)
                continue
            size, equation = keys
            if entry.model is Model.DRAFT:  # one entry, as its line has it
                found.append(replace(entry, what=f"{format_gib(size)} of it are index keys"))
                continue
            found.append(replace(entry, size=Bytes(entry.size - size), basis=Basis.DERIVED, what="without index keys"))
            found.append(Entry(Pool.INDEXER_CACHE, entry.model, size, Basis.DERIVED, entry.lines, equation))
        return found

    def _split_windows(self, entries: list[Entry]) -> list[Entry]:
        """Name the sliding-window pool among a rank's two: the one with fewer tokens."""
        mine = [p for p in self.ledger.pools if p.model is Model.TARGET and p.size is not None]
        if len(mine) != 2 or None in (mine[0].tokens, mine[1].tokens):
            return entries
        if not any(p.sliding_window for p in mine):
            low = min(mine, key=lambda p: p.tokens or 0)
            low.sliding_window = mine[0].tokens != mine[1].tokens
        windows = {line for p in mine if p.sliding_window for line in p.lines}
        return [
            Entry(Pool.SWA_KV_CACHE, e.model, e.size, e.basis, e.lines, e.what)
            if e.pool is Pool.KV_CACHE and set(e.lines) <= windows
            else e
            for e in entries
        ]

    # What other lines add

    def _summary(self) -> None:
        """available_gpu_mem of the summary line is the last reading of the rank that printed it."""
        printed = self.launch.each(ServerLimits, rank=self.ledger.rank)
        target = [pool for pool in self.ledger.pools if pool.model is Model.TARGET]
        if printed and len(target) == 1 and target[0].tokens is None:
            target[0].tokens = printed[-1].tokens  # 0.4.1 and 0.4.2 print the pool's size without its tokens
            target[0].lines = (*target[0].lines, printed[-1].line)
        for limits in printed[-1:]:
            self._read(Moment.READY, Model.TARGET, limits.available, limits.line)
        rest = self._split_pools(self.step.entries)
        if self.ledger.opening is None:
            self.ledger.entries = rest  # no reading at all: nothing to close
        else:
            self.ledger.later = rest

    def _host(self) -> None:
        sizes = [e.size for e in self.launch.each(HostPool, rank=self.ledger.rank) if e.size is not None]
        if sizes:
            self.ledger.host_size = Bytes(sum(sizes))

    def _before_opening(self) -> None:
        """What was in use of the card at the first reading and no line names, where the log tells the card's size."""
        ledger, opening = self.ledger, self.ledger.opening
        if ledger.capacity is None or opening is None or ledger.capacity_line is None:
            return
        if ledger.opening_basis is Basis.PRINTED and opening.moment not in _FIRST:
            return  # the log begins later: what came before is not in it
        rest = Bytes(ledger.capacity - opening.available - sum(entry.size for entry in ledger.earlier))
        if rest <= PRINT:
            return
        pool, what = (Pool.OTHER, HOSTS) if self.unified else (Pool.UNEXPLAINED, UNNAMED)
        basis = Basis.ASSUMED if ledger.capacity_basis is Basis.ASSUMED else Basis.DERIVED
        lines = (ledger.capacity_line, opening.line)
        ledger.earlier.append(Entry(pool, Model.TARGET, rest, basis, lines, what))

    def _capacity(self) -> None:
        """The card's size: an overflow message, a table or a fallback line tell it, else the name of a known card."""
        ledger, launch = self.ledger, self.launch
        alone = len(launch.rank_ids) == 1
        for oom in launch.each(DeviceOutOfMemory):
            if oom.rank == ledger.rank or alone:
                ledger.gpu = oom.gpu if ledger.gpu is None else ledger.gpu
        printed = [(x.capacity, x.line) for x in launch.each(DeviceOutOfMemory) if x.capacity is not None]
        printed += [(x.total, x.line) for x in launch.each(CardTable) if x.total is not None]
        printed += [(Bytes(x.smallest * MIB), x.line) for x in launch.each(CapacityFallback) if x.smallest is not None]
        if printed:
            ledger.capacity, ledger.capacity_line = printed[0]
            ledger.capacity_basis = Basis.PRINTED
            return
        name = launch.first(DeviceNamed)
        known = known_capacity(name.name) if name is not None and name.name else None
        if name is not None and known is not None and (ledger.opening is None or known >= ledger.opening.available):
            ledger.capacity, ledger.capacity_basis, ledger.capacity_line = known, Basis.ASSUMED, name.line
