"""How a launch ended: outcome, the last stage it reached, and what failed first."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kvdiag.diagnosis.events.cuda_graph import GraphBegin, GraphEnd
from kvdiag.diagnosis.events.distributed import DistributedBegin, DistributedEnd
from kvdiag.diagnosis.events.failure import (
    CaptureFailed,
    DeviceOutOfMemory,
    ExitCode,
    HostMemoryShort,
    Killed,
    NoRoomForPool,
    ProcessFailed,
    Sigquit,
    Traceback,
    UnbalancedMemory,
)
from kvdiag.diagnosis.events.kv_pool import DeepSeekV4Budget, KVPoolAllocated, PoolEnd
from kvdiag.diagnosis.events.pattern import Event
from kvdiag.diagnosis.events.ready import BenchmarkResult, FiredUp, HttpServerUp, ServerLimits
from kvdiag.diagnosis.events.weights import WeightsBegin, WeightsLoaded
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
class Failure:
    """What ended a launch: the first cause, not its consequences."""

    kind: FailureKind
    stage: Stage | None
    message: str
    lines: tuple[LogLine, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """ready, failed or incomplete; the last stage reached; the failure."""

    outcome: str
    stage: Stage | None
    failure: Failure | None


_ORDER = list(Stage)


def judge(launch: Launch) -> Outcome:
    """The outcome of a launch by its events alone."""
    reached = _stage(launch)
    failure = _failure(launch)
    if failure is not None:
        return Outcome("failed", reached, failure)
    if launch.has(FiredUp) or (launch.has(BenchmarkResult) and launch.has(ServerLimits)):
        return Outcome("ready", Stage.SERVING, None)
    return Outcome("incomplete", reached, None)


def _stage(launch: Launch) -> Stage | None:
    if launch.has(FiredUp) or launch.has_traffic:
        return Stage.SERVING
    if launch.has(ServerLimits, HttpServerUp):
        return Stage.WARMUP
    if launch.has(GraphBegin, GraphEnd, PoolEnd):
        return Stage.CUDA_GRAPH
    if launch.has(WeightsLoaded, KVPoolAllocated, DeepSeekV4Budget):
        return Stage.KV_CACHE
    if launch.has(WeightsBegin):
        return Stage.WEIGHTS
    if launch.has(DistributedBegin, DistributedEnd):
        return Stage.DISTRIBUTED
    return Stage.ARGUMENTS if launch.server_args or launch.commands else None


def stage_of(launch: Launch, event: Event) -> Stage | None:
    """The stage in which an event of a rank falls: by the last step line of that rank before it."""
    stage: Stage | None = None
    same_rank = event.rank and any(e.rank == event.rank for e in launch.each(WeightsBegin, WeightsLoaded, PoolEnd))
    for other in launch.events:
        if other is event:
            break
        if same_rank and other.rank and other.rank != event.rank:
            continue
        match other:
            case WeightsBegin() | DistributedEnd() | DistributedBegin():
                if stage is None or stage is Stage.ARGUMENTS:
                    stage = Stage.WEIGHTS if isinstance(other, WeightsBegin) else stage
            case WeightsLoaded():
                stage = Stage.KV_CACHE if stage in (None, Stage.WEIGHTS, Stage.ARGUMENTS) else stage
            case PoolEnd() | GraphBegin():
                stage = Stage.CUDA_GRAPH if stage is not Stage.SERVING else stage
            case ServerLimits() | FiredUp() | HttpServerUp():
                stage = Stage.SERVING
    if launch.has_traffic and stage is None:
        stage = Stage.SERVING
    return stage


_NOT_A_FAULT = ("custom allreduce", "skipping", "autotun", "To silence this warning", "warning:")


def _failure(launch: Launch) -> Failure | None:
    """The first cause that ended the launch; consequences and handled errors do not count."""
    fired = launch.last(FiredUp)
    refusal = launch.first(NoRoomForPool)
    if refusal is not None:
        return Failure(FailureKind.SIZING, Stage.KV_CACHE, _message(refusal.line), (refusal.line,))
    host = launch.first(HostMemoryShort)
    if host is not None:
        return Failure(FailureKind.HOST_OOM, stage_of(launch, host), _message(host.line), (host.line,))
    for oom in launch.each(DeviceOutOfMemory):
        if any(word.lower() in oom.line.text.lower() for word in _NOT_A_FAULT):
            continue
        return Failure(FailureKind.GPU_OOM, _oom_stage(launch, oom), _message(oom.line), (oom.line,))
    capture = launch.first(CaptureFailed)
    if capture is not None:
        return Failure(_kind_of(capture.line.text), Stage.CUDA_GRAPH, _message(capture.line), (capture.line,))
    uneven = launch.first(UnbalancedMemory)
    if uneven is not None:
        return Failure(FailureKind.SIZING, Stage.DISTRIBUTED, _message(uneven.line), (uneven.line,))
    kill = _host_kill(launch)
    if kill is not None:
        return kill
    crash = launch.first(ProcessFailed)
    if crash is not None:
        return Failure(_kind_of(_cause(crash.line)), stage_of(launch, crash), _cause(crash.line), (crash.line,))
    for sign in launch.each(Sigquit, ExitCode):
        if isinstance(sign, Sigquit) or sign.code not in (0, None, -15):
            trace = launch.first(Traceback)
            line = trace.line if trace is not None else sign.line
            return Failure(_kind_of(_cause(line)), stage_of(launch, sign), _cause(line), (line,))
    trace = launch.last(Traceback)
    if trace is not None and fired is None and not launch.has(ServerLimits):
        return Failure(_kind_of(_cause(trace.line)), stage_of(launch, trace), _cause(trace.line), (trace.line,))
    return None


def _oom_stage(launch: Launch, oom: DeviceOutOfMemory) -> Stage | None:
    capture = launch.first(CaptureFailed)
    if capture is not None:
        return Stage.CUDA_GRAPH
    return stage_of(launch, oom)


def _host_kill(launch: Launch) -> Failure | None:
    """Signal 9 from outside with no other reason shown. A shell's "Killed" after a SIGQUIT clean-up is none."""
    other = launch.has(ProcessFailed, DeviceOutOfMemory, CaptureFailed, NoRoomForPool)
    if other:
        return None
    for event in launch.each(ExitCode, Killed):
        code = event.code if isinstance(event, ExitCode) else -9
        if code in (-9, 9, 137) and not launch.has(Traceback) and not launch.has(Sigquit):
            return Failure(FailureKind.HOST_OOM, stage_of(launch, event), _message(event.line), (event.line,))
        if code in (-9, 137) and isinstance(event, ExitCode) and "scheduler died" in event.line.text:
            return Failure(FailureKind.HOST_OOM, stage_of(launch, event), _message(event.line), (event.line,))
    return None


def _message(line: LogLine) -> str:
    return line.text[:2_000]


def _cause(line: LogLine) -> str:
    """The last line of a traceback: the exception itself."""
    for text in line.following(40):
        head = text.split(":", 1)[0]
        if (
            head
            and not text.startswith((" ", "File", "^", "~", "During", "The above", "Traceback"))
            and (head.endswith(("Error", "Exception", "Interrupt", "OutOfResources", "Warning")) and " " not in head)
        ):
            return text[:2_000]
    return line.text[:2_000]


def _kind_of(text: str) -> FailureKind:
    low = text.lower()
    if "out of memory" in low or "cudaerrormemoryallocation" in low:
        return FailureKind.GPU_OOM
    if "assert" in low:
        return FailureKind.ASSERTION
    if any(word in low for word in ("nccl", "gloo", "connection", "tcpstore", "peer", "timeout")):
        return FailureKind.COMMUNICATION
    if any(word in low for word in ("triton", "outofresources", "illegal memory", "cuda error", "kernel", "ninja")):
        return FailureKind.KERNEL
    return FailureKind.OTHER
