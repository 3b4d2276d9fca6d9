"""How a launch ended: outcome, the last stage it reached, what failed first and what followed from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kvdiag.diagnosis.events.cuda_graph import GraphBegin, GraphEnd
from kvdiag.diagnosis.events.distributed import DistributedBegin, DistributedEnd
from kvdiag.diagnosis.events.frames import Frame
from kvdiag.diagnosis.events.kv_pool import (
    DeepSeekV4Budget,
    KVPoolAllocated,
    MambaPool,
    PoolEnd,
    SlidingWindowPool,
)
from kvdiag.diagnosis.events.pattern import Event
from kvdiag.diagnosis.events.progress import CaptureProgress
from kvdiag.diagnosis.events.ready import BenchmarkResult, FiredUp, HttpServerUp, ServerLimits
from kvdiag.diagnosis.events.weights import ShardProgress, WeightsBegin, WeightsLoaded
from kvdiag.diagnosis.launches import Launch
from kvdiag.diagnosis.lines import LogLine


class Stage(StrEnum):
    """Stages of a start, in order."""

    ARGUMENTS = "arguments"
    DISTRIBUTED = "distributed"
    WEIGHTS = "weights"
    KV_CACHE = "kv_cache"
    CUDA_GRAPH = "cuda_graph"
    WARMUP = "warmup"
    SERVING = "serving"


class FailureKind(StrEnum):
    """What kind of thing ended a launch."""

    GPU_OOM = "gpu_oom"
    HOST_OOM = "host_oom"
    SIZING = "sizing"
    ASSERTION = "assertion"
    COMMUNICATION = "communication"
    KERNEL = "kernel"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Consequence:
    """What followed from the failure: named, so that nobody takes it for the cause."""

    what: str
    line: LogLine


@dataclass(frozen=True, slots=True)
class Failure:
    """What ended a launch: the first cause, with its consequences."""

    kind: FailureKind
    stage: Stage | None
    message: str
    lines: tuple[LogLine, ...]
    consequences: tuple[Consequence, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """ready, failed or incomplete; the last stage reached; the failure."""

    outcome: str
    stage: Stage | None
    failure: Failure | None


def judge(launch: Launch) -> Outcome:
    """The outcome of a launch by its events alone."""
    from kvdiag.diagnosis.causes import failure_of  # it tells stages by this module

    reached = stage_reached(launch)
    failure = failure_of(launch)
    if failure is not None:
        return Outcome("failed", reached, failure)
    if launch.has(FiredUp) or (launch.has(BenchmarkResult) and launch.has(ServerLimits)):
        return Outcome("ready", Stage.SERVING, None)
    return Outcome("incomplete", reached, None)


def stage_reached(launch: Launch) -> Stage | None:
    """The last stage that a line of the launch shows."""
    if launch.has(FiredUp) or launch.has_traffic:
        return Stage.SERVING
    if launch.has(ServerLimits, HttpServerUp):
        return Stage.WARMUP
    if launch.has(GraphBegin, GraphEnd, PoolEnd, CaptureProgress):
        return Stage.CUDA_GRAPH
    if launch.has(WeightsLoaded, KVPoolAllocated, DeepSeekV4Budget, SlidingWindowPool, MambaPool):
        return Stage.KV_CACHE
    if launch.has(WeightsBegin, ShardProgress):
        return Stage.WEIGHTS
    if launch.has(DistributedBegin, DistributedEnd):
        return Stage.DISTRIBUTED
    return Stage.ARGUMENTS if launch.server_args or launch.commands else None


_SITES = {
    "distributed": Stage.DISTRIBUTED,
    "load": Stage.WEIGHTS,
    "pool": Stage.KV_CACHE,
    "mamba_pool": Stage.KV_CACHE,
    "request_table": Stage.KV_CACHE,
    "capture": Stage.CUDA_GRAPH,
    "batches": Stage.SERVING,
    "decode": Stage.SERVING,
}
TRACEBACK_LINES = 120
# What _after tells a stage by.
_STEPS = (
    DistributedBegin,
    DistributedEnd,
    WeightsBegin,
    ShardProgress,
    WeightsLoaded,
    PoolEnd,
    GraphBegin,
    CaptureProgress,
    ServerLimits,
    FiredUp,
    HttpServerUp,
)


def stage_of(launch: Launch, event: Event) -> Stage | None:
    """The stage in which an event of a rank falls: by the last step line of that rank before it.

    Where no step line is left, by the frames of its traceback.
    """
    stage: Stage | None = None
    same_rank = event.rank and any(e.rank == event.rank for e in launch.each(WeightsBegin, WeightsLoaded, PoolEnd))
    for other in launch.index.before(event, _STEPS):
        # Only one rank prints the summary, and it means that all are done.
        if same_rank and other.rank and other.rank != event.rank and not isinstance(other, ServerLimits):
            continue
        stage = _after(other, stage)
    if stage in (None, Stage.ARGUMENTS):
        frames = [
            _SITES[e.site]
            for e in launch.each(Frame)
            if e.site in _SITES
            and e.line.file == event.line.file
            and 0 <= event.line.number - e.line.number <= TRACEBACK_LINES
        ]
        # A step of a start forwards a batch too: its own frames are further out.
        steps = [s for s in frames if s is not Stage.SERVING]
        stage = (steps or frames or [stage])[-1]
    first = launch.series.first
    if first is not None and first.line.place < event.line.place:
        ready = stage is None or launch.has(ServerLimits, FiredUp)
        # The nodes after the first print neither their limits nor that they are ready.
        stage = Stage.SERVING if ready or _last_step_is_before(launch, event, first) else stage
    return stage


def _last_step_is_before(launch: Launch, event: Event, batch: Event) -> bool:
    """Whether no step of a start, of any rank, comes between a batch and an event after it."""
    last: Event | None = None
    for other in launch.index.before(event, _STEPS):
        if _after(other, None) is not None:
            last = other
    return last is None or last.line.place < batch.line.place


def _after(step: Event, stage: Stage | None) -> Stage | None:
    match step:
        case DistributedBegin() | DistributedEnd():
            return stage if stage not in (None, Stage.ARGUMENTS) else Stage.DISTRIBUTED
        case WeightsBegin() | ShardProgress():
            return Stage.WEIGHTS if stage in (None, Stage.ARGUMENTS, Stage.DISTRIBUTED) else stage
        case WeightsLoaded():
            early = (None, Stage.ARGUMENTS, Stage.DISTRIBUTED, Stage.WEIGHTS)
            return Stage.KV_CACHE if stage in early else stage
        case PoolEnd() | GraphBegin() | CaptureProgress():
            return stage if stage is Stage.SERVING else Stage.CUDA_GRAPH
        case ServerLimits() | FiredUp() | HttpServerUp():
            return Stage.SERVING
    return stage


__all__ = ["Consequence", "Failure", "FailureKind", "Outcome", "Stage", "judge", "stage_of", "stage_reached"]
