"""Splitting an upload into launches: by start within a file, then joined over the files of one deployment.

A launch begins with its server_args line; without one, with the first start-up line that follows a summary, a ready
line or a failure that ended the launch before. A draft model, a command or a banner begins none.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterable
from datetime import timedelta

from kvdiag.diagnosis.arguments import Value, read_arguments
from kvdiag.diagnosis.events.cuda_graph import GraphBegin, GraphEnd
from kvdiag.diagnosis.events.distributed import DistributedBegin, DistributedEnd, UnbalancedMemory
from kvdiag.diagnosis.events.failure import (
    CaptureFailed,
    CommunicationFailed,
    ExceptionRaised,
    ExitCode,
    InitializationFailed,
    KernelFault,
    Killed,
    NoRoomForPool,
    PoolRefused,
    ProcessFailed,
    SchedulerDead,
    Sigquit,
    Traceback,
)
from kvdiag.diagnosis.events.frames import Frame
from kvdiag.diagnosis.events.hardware import MACHINE
from kvdiag.diagnosis.events.host_memory import HostMemoryShort, HostOutOfMemory
from kvdiag.diagnosis.events.kv_pool import DeepSeekV4Budget, KVPoolAllocated, MambaPool, PoolEnd
from kvdiag.diagnosis.events.libraries import (
    AllocatorAssertion,
    AttentionWorkspaceShort,
    CommunicationBufferShort,
    CompileFailed,
    DeviceFull,
    DisguisedError,
    DispatchLimitExceeded,
    KernelResourceShort,
    PeerLost,
)
from kvdiag.diagnosis.events.overflow import DeviceOutOfMemory
from kvdiag.diagnosis.events.pattern import Event, NotUnderstood
from kvdiag.diagnosis.events.platform import (
    DesktopOnGPU,
    DiskFull,
    HugePages,
    SharedMemoryFull,
    TrainerLine,
    UnifiedMemoryDevice,
    WindowsSubsystem,
)
from kvdiag.diagnosis.events.ready import (
    BenchmarkResult,
    FiredUp,
    HttpServerStarted,
    HttpServerUp,
    ServerLimits,
    StopRequested,
)
from kvdiag.diagnosis.events.requests import (
    LastRequestDoesNotFit,
    PreallocationFull,
    RequestSlotsExhausted,
    SlotLeak,
    StateSlotsExhausted,
    TokenSlotsExhausted,
)
from kvdiag.diagnosis.events.server_args import (
    ArgumentsRefused,
    ExpandableSegments,
    FlagLine,
    LaunchCommand,
    ServerArgs,
    VersionPrinted,
)
from kvdiag.diagnosis.events.weights import LoadBarrier, WeightsBegin, WeightsLoaded
from kvdiag.diagnosis.launches import BATCHES, Launch, moment
from kvdiag.diagnosis.limits import DEFAULT_LIMITS
from kvdiag.diagnosis.lines import LogLine

# A rank's own steps, in the order of a start; those of a draft model come again.
STEPS: dict[type[Event], int] = {
    DistributedBegin: 1,
    DistributedEnd: 2,
    WeightsBegin: 3,
    WeightsLoaded: 4,
    KVPoolAllocated: 5,
    MambaPool: 5,
    DeepSeekV4Budget: 5,
    PoolEnd: 6,
    GraphBegin: 7,
    GraphEnd: 8,
    ServerLimits: 9,
}
STARTUP = tuple(STEPS)
# What ends a launch for good, so that a later start-up line is another one's.
FATAL = (
    NoRoomForPool,
    PoolRefused,
    CaptureFailed,
    ProcessFailed,
    ExitCode,
    Killed,
    Sigquit,
    SchedulerDead,
    InitializationFailed,
    ArgumentsRefused,
    DeviceOutOfMemory,
    UnbalancedMemory,
)
# What any program prints: alone it makes no log of SGLang.
_ANYBODY = (
    Traceback,
    ExceptionRaised,
    ExitCode,
    HttpServerUp,
    HttpServerStarted,
    StopRequested,
    PeerLost,
    CompileFailed,
    DisguisedError,
    *MACHINE,
    DesktopOnGPU,
    DiskFull,
    ExpandableSegments,
    FlagLine,
    HugePages,
    TrainerLine,
    UnifiedMemoryDevice,
    WindowsSubsystem,
    HostOutOfMemory,
    Frame,
    NotUnderstood,
    VersionPrinted,
)
# Lines of a traceback and what is read from its last one: unprefixed, they belong to the process that began it.
_CARRIED = (
    AllocatorAssertion,
    AttentionWorkspaceShort,
    CaptureFailed,
    CommunicationBufferShort,
    CommunicationFailed,
    CompileFailed,
    DeviceFull,
    DeviceOutOfMemory,
    DispatchLimitExceeded,
    DiskFull,
    DisguisedError,
    ExceptionRaised,
    Frame,
    HostMemoryShort,
    HostOutOfMemory,
    KernelFault,
    KernelResourceShort,
    LastRequestDoesNotFit,
    LoadBarrier,
    NoRoomForPool,
    PeerLost,
    PoolRefused,
    PreallocationFull,
    RequestSlotsExhausted,
    SharedMemoryFull,
    SlotLeak,
    StateSlotsExhausted,
    TokenSlotsExhausted,
    UnbalancedMemory,
)
# The arguments in which the nodes of one deployment agree.
DEPLOYMENT = ("model_path", "nnodes", "tp_size", "pp_size", "disaggregation_mode")
PLOTTED = 8  # starts of a file, the last ones, whose series keep all the points that a plot can show
FEW_POINTS = 128  # that the earlier ones keep
SKETCHED = 24  # starts of a file, the last ones, behind which a series is thinned once more
LEAST_POINTS = 32
SPARE = 8  # launches kept whole beside those that are told, at either end
TRACEBACK_LINES = 300
LATER_S = 1.0
LAUNCH_S = 20.0  # no server starts in less


class Splitter:
    """The launches of one stream of events: a file, or one process's part of it.

    most  starts that are told; of a stream with many more, those between the first and the last are only counted
    """

    def __init__(self, most: int = DEFAULT_LIMITS.launches) -> None:
        self.most = most
        self.launches: list[Launch] = []
        self.waiting: list[Event] = []  # commands and notices before a start belong to the launch after them
        self.waits_for_end = False  # whether what ends a launch is among them
        self.steps: dict[str, int] = {}  # how far each rank of the current launch came
        self.ended = False  # the summary was printed, or the server got ready
        self.fired = False
        self.results = False
        self.fault: Event | None = None  # the last thing that ends a launch
        self.summary: Event | None = None
        self.header: Event | None = None  # the last line that began a traceback with its rank
        self._heads = most // 4 + SPARE  # launches that are still kept whole as the first ones
        self._recent: deque[Launch] = deque()  # those behind them that are over and kept whole

    def take(self, event: Event) -> None:
        """One more event of the stream."""
        if isinstance(event, BATCHES):
            if not self.launches:
                self._begin()
            self.launches[-1].add(event)
            return
        event = self._attributed(event)
        if isinstance(event, LaunchCommand):
            self._command(event)
            return
        if isinstance(event, ServerArgs):
            if not self.launches or not self._continues(event):
                self._begin()
        elif type(event) in STEPS:
            if not self.launches or self._restarts(event):
                self._begin()
            self.steps[event.rank] = max(self.steps.get(event.rank, 0), STEPS[type(event)])
        elif not self.launches or self._is_commanded():
            self._wait(event)
            return
        self._add(event)

    def close(self) -> list[Launch]:
        """All launches; a stream of what any program prints has none."""
        if any(not isinstance(e, LaunchCommand | FlagLine) for e in self.waiting) or not self.launches:
            self._flush()
        elif self.waiting and len(self.launches) == 1 and not self.launches[0].has(ServerArgs, LaunchCommand):
            # An issue thread gives the command below the error it is about.
            self.launches[0].events[:0] = self.waiting
            self.waiting, self.waits_for_end = [], False
        return [x for x in self.launches if _is_told(x)]

    # One event

    def _add(self, event: Event) -> None:
        self.launches[-1].add(event)
        if isinstance(event, ServerLimits):
            self.ended, self.summary = True, event
        elif isinstance(event, FiredUp):
            self.ended = self.fired = True
        elif isinstance(event, BenchmarkResult):
            self.results = True
        elif isinstance(event, FATAL) and not _is_clean_exit(event):
            self.fault = event

    def _begin(self) -> None:
        """A new launch, with what waits for it; a start that was refused before it printed anything comes first."""
        if any(isinstance(e, FATAL) and not _is_clean_exit(e) for e in self.waiting):
            self._flush()
        self._open()
        for event in self.waiting:
            self.launches[-1].add(event)
        self.waiting, self.waits_for_end = [], False

    def _flush(self) -> None:
        if self.waiting:
            self._open()
            for event in self.waiting:
                self._add(event)
            self.waiting, self.waits_for_end = [], False

    def _open(self) -> None:
        if self.launches and _is_told(self.launches[-1]):
            self._keep(self.launches[-1])
        self.launches.append(Launch(number=len(self.launches) + 1))
        for behind, points in ((PLOTTED, FEW_POINTS), (SKETCHED, LEAST_POINTS)):
            if len(self.launches) > behind:
                self.launches[-behind - 1].series.thin(points)
        self.steps = {}
        self.ended = self.fired = self.results = False
        self.fault = self.summary = None

    def _keep(self, launch: Launch) -> None:
        """One more launch that is over; of many, those between the first quarter and the rest at the end shrink."""
        if self._heads > 0:
            self._heads -= 1
            return
        self._recent.append(launch)
        if len(self._recent) > self.most - self.most // 4 + SPARE:
            _outline(self._recent.popleft())

    def _command(self, event: LaunchCommand) -> None:
        current = self.launches[-1] if self.launches else None
        if current is not None and not current.has(*STARTUP) and not current.has(ServerArgs) and self.fault is None:
            current.add(event)
            return
        if self.waits_for_end:
            self._flush()
        self._wait(event)

    def _wait(self, event: Event) -> None:
        self.waiting.append(event)
        self.waits_for_end = self.waits_for_end or isinstance(event, FATAL)

    def _is_commanded(self) -> bool:
        """Whether a command stands behind a launch that is over, so that a next one is about to start."""
        over = self.ended or self.results or self.fault is not None
        return over and any(isinstance(e, LaunchCommand) for e in self.waiting)

    def _attributed(self, event: Event) -> Event:
        """An unprefixed line of a traceback, as the rank's that began it."""
        line, head = event.line, self.header
        if isinstance(event, ProcessFailed | Traceback):
            if line.clock or line.rank:
                self.header = event
            return event
        if head is None or line.clock or line.rank or not isinstance(event, _CARRIED):
            return event
        if head.line.file != line.file or not 0 <= line.number - head.line.number <= TRACEBACK_LINES:
            return event
        return with_line(event, dataclasses.replace(line, rank=head.line.rank, clock=head.line.clock))

    # Where a launch ends

    def _continues(self, event: ServerArgs) -> bool:
        """Whether a server_args line belongs to the launch at hand: another node of it, or its second print."""
        current = self.launches[-1]
        if not current.has(ServerArgs):
            return not current.has(*STARTUP) and not current.has_traffic and not self.fired and self.fault is None
        if self.ended or self.fault is not None:
            return False
        before, now = (read_arguments(e.body or "", is_cut=True) for e in (current.each(ServerArgs)[-1], event))
        if before.get("node_rank") == now.get("node_rank"):
            started = current.has(WeightsBegin, WeightsLoaded)
            return not started and all(before.get(key) == now.get(key) for key in ("model_path", "port"))
        return same_deployment(before, now)

    def _restarts(self, event: Event) -> bool:
        """Whether a start-up line opens a new launch without a server_args line of its own."""
        step, done = STEPS[type(event)], self.steps.get(event.rank, 0)
        if isinstance(event, ServerLimits):
            return self._is_another_summary(event)
        if self._is_commanded() and step <= 4 and (self.ended or self.fault is not None or self.results):
            return True
        current = self.launches[-1]
        if step <= 3 and current.has_traffic and not self.steps and not current.has(ServerArgs):
            return True  # the log began while a server was serving
        if self.fired or self.results:
            return step <= 4 and bool(self.steps or self.fired)
        if self.fault is not None and step <= 3 and self._is_later(self.fault, event):
            # A rank that lags behind the failing one is at a step it has not done yet.
            return step <= done or (step == 1 and bool(self.steps))
        if self.ended and step <= 4 and done >= 8 and self.summary is not None:
            return self._is_later(self.summary, event)
        return done >= 9 and step <= 4

    def _is_another_summary(self, event: ServerLimits) -> bool:
        """Whether people paste the summaries of several starts, one below the other, and nothing else of them."""
        before = self.summary
        if not isinstance(before, ServerLimits) or before.rank != event.rank or before.line.file != event.line.file:
            return False
        if self.launches[-1].has(*(kind for kind in STARTUP if kind is not ServerLimits)) or before.tokens is None:
            return False
        then, now = moment(before.line.clock), moment(event.line.clock)
        figures = (before.tokens, before.available) != (event.tokens, event.available)
        return figures and then is not None and now is not None and now - then > timedelta(seconds=LAUNCH_S)

    def _is_later(self, then: Event, now: Event) -> bool:
        """Whether an event came after another; True where no clock tells."""
        before, after = moment(then.line.clock), moment(now.line.clock)
        if before is None or after is None:
            return True
        if "T" not in (now.line.clock or "") and before - after > timedelta(hours=12):
            after += timedelta(days=1)  # a clock without a date went past midnight
        return after >= before + timedelta(seconds=LATER_S)


def _is_told(launch: Launch) -> bool:
    """Whether it is a launch of SGLang, and not only what any program prints."""
    return launch.has_traffic or any(not _is_anybodys(e) for e in launch.events)


def _is_anybodys(event: Event) -> bool:
    if isinstance(event, ExitCode) and event.by_parent:
        return False
    if isinstance(event, Frame | Traceback) and _is_in_sglang(event):
        return False
    return isinstance(event, _ANYBODY)


def _is_in_sglang(event: Frame | Traceback) -> bool:
    """Whether a traceback runs through a server of SGLang: it may be all that somebody pastes."""
    if isinstance(event, Frame):
        return "/sglang/srt/" in event.line.text
    return any("/sglang/srt/" in text for text in event.line.following(80, "sglang"))


def _is_clean_exit(event: Event) -> bool:
    return isinstance(event, ExitCode) and event.code in (0, None)


def _outline(launch: Launch) -> None:
    """Leaves of a launch what counting it takes, and telling of which deployment's node it is."""
    told = next((event for event in launch.events if not _is_anybodys(event)), None)
    kept: list[Event] = []
    for event in launch.events:
        if isinstance(event, ServerArgs):
            known = read_arguments(event.body or "", is_cut=True)
            body = ", ".join(f"{name}={known[name]!r}" for name in (*DEPLOYMENT, "node_rank") if name in known)
            line = dataclasses.replace(event.line, text="", shown="", after=())
            kept.append(ServerArgs(line=line, body=f"{body})", form=event.form))
        elif event is told:
            kept.append(event)
    if kept or not launch.has_traffic:
        launch.forget(kept)


def with_line(event: Event, line: LogLine) -> Event:
    """The same event, read from this line."""
    values = {name: value for name, value in event.__dict__.items() if not name.startswith("_")}
    copy = type(event)(**{**values, "line": line})
    copy.__dict__.update({name: value for name, value in event.__dict__.items() if name.startswith("_")})
    return copy


def same_deployment(one: dict[str, Value], two: dict[str, Value]) -> bool:
    """Whether two nodes' arguments are of one deployment."""
    if any(one.get(key) != two.get(key) for key in DEPLOYMENT):
        return False
    several = one.get("nnodes")
    return isinstance(several, int) and several > 1 and one.get("node_rank") != two.get("node_rank")


# Over processes and files


def split(events: Iterable[Event], most: int = DEFAULT_LIMITS.launches) -> list[Launch]:
    """The launches of an upload, in the order they started; `most` are told, of more those between are outlines."""
    from kvdiag.diagnosis.deployment import join_files

    files: dict[int, _File] = {}
    for event in events:
        index = event.line.file
        if index not in files:
            files[index] = _File(most)
        files[index].take(event)
    return join_files([found.close() for _, found in sorted(files.items())])


class _File:
    """One file's events: as one stream, and by the process the carrier names, until it shows which is right."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.whole = Splitter(most)
        self.nodes: dict[str, Splitter] = {}
        self.last = ""

    def take(self, event: Event) -> None:
        node = event.line.node
        self.whole.take(event)
        if not node and not self.nodes:
            return
        if node and not self.nodes and self.whole.launches:
            # What came before the first named line is the first process's.
            self.nodes[node] = first = Splitter(self.most)
            for launch in self.whole.launches:
                for earlier in launch.events:
                    if earlier is not event:
                        first.take(earlier)
        self.last = node or self.last
        self.nodes.setdefault(self.last, Splitter(self.most)).take(event)

    def close(self) -> list[Launch]:
        whole = self.whole.close()
        if len(self.nodes) < 2:
            return whole
        parts = {node: splitter.close() for node, splitter in self.nodes.items()}
        own = [node for node, launches in parts.items() if any(x.has(ServerArgs) for x in launches)]
        if len(own) < 2:
            return whole
        from kvdiag.diagnosis.deployment import join_files

        return join_files(list(parts.values()))
