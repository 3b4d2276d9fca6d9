"""Pool, Reading, Entry, Ledger: one rank's memory, closed to the byte."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from kvdiag.diagnosis.lines import LogLine
from kvdiag.diagnosis.units import Bytes


class Pool(StrEnum):
    """What memory is for; the values are the document's."""

    DISTRIBUTED = "distributed"
    WEIGHTS = "weights"
    KV_CACHE = "kv_cache"
    SWA_KV_CACHE = "swa_kv_cache"
    MAMBA_STATE = "mamba_state"
    INDEXER_CACHE = "indexer_cache"
    REQUEST_TABLE = "request_table"
    CUDA_GRAPHS = "cuda_graphs"
    WORKSPACE = "workspace"
    LORA = "lora"
    BUFFERS = "buffers"
    OTHER = "other"
    UNEXPLAINED = "unexplained"


class Basis(StrEnum):
    """Where a figure comes from."""

    PRINTED = "printed"
    DERIVED = "derived"
    ASSUMED = "assumed"


class Model(StrEnum):
    """Which model the memory serves."""

    TARGET = "target"
    DRAFT = "draft"


class Moment(StrEnum):
    """When free memory was printed."""

    DISTRIBUTED_BEGIN = "distributed_begin"
    DISTRIBUTED_END = "distributed_end"
    WEIGHTS_BEGIN = "weights_begin"
    WEIGHTS_END = "weights_end"
    POOL_END = "pool_end"
    CUDA_GRAPH_BEGIN = "cuda_graph_begin"
    CUDA_GRAPH_END = "cuda_graph_end"
    READY = "ready"


@dataclass(frozen=True, slots=True)
class Reading:
    """Free memory of a rank's GPU as the log printed it at one moment."""

    moment: Moment
    model: Model
    available: Bytes
    line: LogLine


@dataclass(frozen=True, slots=True)
class Entry:
    """Memory one rank gave to one pool.

    size   bytes; negative when the step freed more than it took
    basis  PRINTED by SGLang, DERIVED from printed figures, or ASSUMED
    what   a few words where the pool's name does not say enough
    graphs which graphs: decode, prefill, verify, extend; "" of other pools, and where the log does not tell
    """

    pool: Pool
    model: Model
    size: Bytes
    basis: Basis
    lines: tuple[LogLine, ...]
    what: str = ""
    graphs: str = ""


@dataclass
class KVPool:
    """One attention pool of a rank, as its lines tell.

    printed   how many rounded figures the size is the sum of
    """

    model: Model
    tokens: int | None
    size: Bytes | None
    sliding_window: bool = False
    dtype: str | None = None
    printed: int = 1
    lines: tuple[LogLine, ...] = ()


@dataclass
class Ledger:
    """One rank's memory: readings, and the entries between them. opening − all entries = closing, exactly.

    Where the card's size is known, it is the opening and what was taken earlier.
    """

    rank: str
    readings: list[Reading] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    earlier: list[Entry] = field(default_factory=list)  # before the opening, outside the identity
    later: list[Entry] = field(default_factory=list)  # after the last reading, outside the identity
    pools: list[KVPool] = field(default_factory=list)
    opening: Reading | None = None
    opening_basis: Basis = Basis.PRINTED  # DERIVED: the log starts after the load, and prints what it took
    closing: Reading | None = None
    mamba_slots: int | None = None
    mamba_size: Bytes | None = None
    mamba_speculative: Bytes | None = None  # of mamba_size, what drafts' states take
    host_size: Bytes | None = None
    capacity: Bytes | None = None
    capacity_basis: Basis | None = None
    capacity_line: LogLine | None = None  # the line that prints it, or names the card
    gpu: int | None = None

    def reading(self, moment: Moment, model: Model = Model.TARGET) -> Reading | None:
        """The last reading at that moment."""
        return next((r for r in reversed(self.readings) if r.moment is moment and r.model is model), None)

    def taken(self, *pools: Pool, model: Model | None = None) -> Bytes | None:
        """Bytes given to these pools; None when nothing was booked there."""
        sizes = [e.size for e in self.entries if e.pool in pools and (model is None or e.model is model)]
        return Bytes(sum(sizes)) if sizes else None

    @property
    def unexplained(self) -> Bytes | None:
        """What no entry accounts for; None without two readings."""
        if self.opening is None or self.closing is None:
            return None
        return self.taken(Pool.UNEXPLAINED) or Bytes(0)

    @property
    def kv_tokens(self) -> int | None:
        """Tokens of the target's full-attention pool."""
        return max(
            (p.tokens for p in self.pools if p.model is Model.TARGET and p.tokens is not None and not p.sliding_window),
            default=None,
        )

    @property
    def kv_size(self) -> Bytes | None:
        """All attention pools of the target, K and V; None where one's size is not known."""
        return _sum_of(pool for pool in self.pools if pool.model is Model.TARGET)

    @property
    def draft_pools(self) -> list[KVPool]:
        """The draft model's pools."""
        return [p for p in self.pools if p.model is Model.DRAFT]

    @property
    def draft_kv_size(self) -> Bytes | None:
        """All pools of the draft model, K and V; None where one's size is not known."""
        return _sum_of(self.draft_pools)


def _sum_of(pools: Iterable[KVPool]) -> Bytes | None:
    sizes = [pool.size for pool in pools]
    known = [size for size in sizes if size is not None]
    return Bytes(sum(known)) if known and len(known) == len(sizes) else None
