"""One rank's ledger to RankMemory: its free memory at the moments the sizing depends on."""

from __future__ import annotations

from collections.abc import Sequence

from kvdiag.diagnosis.events.distributed import MemoryProfile
from kvdiag.diagnosis.events.ready import FiredUp, ServerLimits
from kvdiag.diagnosis.launches import FAILURES, Launch
from kvdiag.diagnosis.ledger.model import Basis, KVPool, Ledger, Model, Moment, Pool, Reading
from kvdiag.diagnosis.ledger.sizing.inputs import RankMemory

_BEFORE_POOLS = (Moment.DISTRIBUTED_BEGIN, Moment.DISTRIBUTED_END, Moment.WEIGHTS_BEGIN, Moment.WEIGHTS_END)


def rank_memory(launch: Launch, ledger: Ledger) -> RankMemory:
    """The readings of one rank. A build that prints its own memory profile gives both of the sizing exactly."""
    readings = ledger.readings
    opening = _available(first_reading(readings, Moment.WEIGHTS_BEGIN, Model.TARGET))
    after_weights = _available(after_weights_reading(ledger))
    profile = launch.last(MemoryProfile, rank=ledger.rank)
    if profile is not None and profile.total is not None and profile.available is not None:
        opening, after_weights = profile.total.gib, profile.available.gib
    pool_end = first_reading(readings, Moment.POOL_END, Model.TARGET)
    return RankMemory(
        id=ledger.rank,
        opening=opening,
        after_weights=after_weights,
        after_least=_after_least(ledger) if after_weights is None else None,
        usage=booked_gib(ledger, Pool.WEIGHTS, Model.TARGET, printed=True),
        pool_end=_available(pool_end),
        after_pool=_came_back(ledger, pool_end),
        end=_end(launch, ledger),
        lowest=_lowest(readings, pool_end),
        graphs=booked_gib(ledger, Pool.CUDA_GRAPHS, Model.TARGET),
        capacity=ledger.capacity.gib if ledger.capacity is not None else None,
        tokens=ledger.kv_tokens,
        pool=ledger.kv_size.gib if ledger.kv_size is not None else None,
        stage=coordinate(ledger.rank, "PP"),
    )


def _after_least(ledger: Ledger) -> float | None:
    """What was free before the pools, where the first reading is the one after them and their lines print sizes."""
    opening = ledger.opening
    if opening is None or ledger.opening_basis is Basis.PRINTED or opening.moment is not Moment.WEIGHTS_END:
        return None
    return opening.available.gib


def after_weights_reading(ledger: Ledger) -> Reading | None:
    """The reading the pool is sized from: after the last load before the pool, be it the target's or the draft's."""
    pool_at = pool_begins(ledger)
    moments = [r.moment for r in ledger.readings]  # in the order they were printed, also where one line holds them all
    sized = ledger.readings[: moments.index(Moment.POOL_END)] if Moment.POOL_END in moments else ledger.readings
    ends = [r for r in sized if r.moment is Moment.WEIGHTS_END]
    before = [r for r in ends if pool_at is None or r.line.place <= pool_at]
    return before[-1] if before else None


def booked_gib(ledger: Ledger, pool: Pool, model: Model, printed: bool = False) -> float | None:
    """GiB a rank gave to one pool of one model; None without an entry."""
    sizes = [
        entry.size.gib
        for entry in (*ledger.earlier, *ledger.entries)
        if entry.pool is pool and entry.model is model and (not printed or entry.basis is Basis.PRINTED)
    ]
    return sum(sizes) if sizes else None


def pool_begins(ledger: Ledger) -> tuple[int, int] | None:
    """Where the target's first pool is printed, or the first pool end where no pool line is: file and line."""
    places = [line.place for pool in ledger.pools if pool.model is Model.TARGET for line in pool.lines]
    places += [r.line.place for r in ledger.readings if r.moment is Moment.POOL_END]
    return min(places) if places else None


def _available(reading: Reading | None) -> float | None:
    return None if reading is None else reading.available.gib


def first_reading(readings: Sequence[Reading], moment: Moment, model: Model) -> Reading | None:
    return next((r for r in readings if r.moment is moment and r.model is model), None)


def _came_back(ledger: Ledger, pool_end: Reading | None) -> float | None:
    """The highest reading between the target's pool and the first capture; after a draft's pool, with that pool."""
    if pool_end is None:
        return None
    readings, seen = ledger.readings, []
    drafts = ledger.draft_pools
    for reading in readings[readings.index(pool_end) + 1 :]:
        if reading.moment in (Moment.CUDA_GRAPH_END, Moment.READY):
            break
        made = [pool.size for pool in drafts if pool.size is not None and _is_before(pool, reading)]
        seen.append(reading.available.gib + sum(size.gib for size in made))
    return max(seen) if seen else None


def _is_before(pool: KVPool, reading: Reading) -> bool:
    return bool(pool.lines) and pool.lines[0].place < reading.line.place


def _lowest(readings: Sequence[Reading], pool_end: Reading | None) -> float | None:
    """The lowest reading from the target's pool on."""
    if pool_end is None:
        return None
    return min(reading.available.gib for reading in readings[list(readings).index(pool_end) :])


def _end(launch: Launch, ledger: Ledger) -> float | None:
    """The last start-up reading, where the start went through: a summary, a ready line, or an untroubled capture."""
    if ledger.closing is None or ledger.closing.moment in _BEFORE_POOLS:
        return None
    captured = ledger.closing.moment is Moment.CUDA_GRAPH_END and not launch.has(*FAILURES)
    if launch.has(ServerLimits) or launch.has(FiredUp) or captured:
        return ledger.closing.available.gib
    return None


def smallest_rank(ledgers: Sequence[Ledger]) -> Ledger | None:
    """The rank whose pool lines count: the fewest tokens, and of those the largest pool (a stage with more layers)."""
    with_tokens = [ledger for ledger in ledgers if ledger.kv_tokens]
    if with_tokens:
        return min(with_tokens, key=lambda ledger: (ledger.kv_tokens or 0, -(ledger.kv_size or 0)))
    return next((ledger for ledger in ledgers if ledger.pools or ledger.mamba_size), ledgers[0] if ledgers else None)


def coordinate(rank: str, key: str) -> int | None:
    for word in rank.replace("/", " ").split():
        if word.startswith(key) and word[len(key) :].isdigit():
            return int(word[len(key) :])
    return None
