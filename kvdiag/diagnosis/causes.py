"""What failed first: the root among chained and many-rank errors, and what only followed from it.

A cause is the earliest in time over all ranks. A partner that is gone, a store that times out, ranks that did not
finish loading, SIGQUIT, exit codes and the shell's "Killed" after it are consequences wherever a cause is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvdiag.diagnosis.events.cuda_graph import GraphEnd
from kvdiag.diagnosis.events.distributed import DuplicateDevice, UnbalancedMemory
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
    WatchdogTimeout,
)
from kvdiag.diagnosis.events.host_memory import HostMemoryShort, HostOutOfMemory
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
from kvdiag.diagnosis.events.pattern import Event
from kvdiag.diagnosis.events.platform import DiskFull, MemorySaver, SharedMemoryFull
from kvdiag.diagnosis.events.ready import BenchmarkResult, FiredUp, HttpServerUp, ServerLimits, StopRequested, Warmup
from kvdiag.diagnosis.events.requests import (
    LastRequestDoesNotFit,
    PreallocationFull,
    RequestSlotsExhausted,
    SlotLeak,
    StateSlotsExhausted,
    TokenSlotsExhausted,
)
from kvdiag.diagnosis.events.server_args import ArgumentsRefused, ContextTooLong
from kvdiag.diagnosis.events.weights import LoadBarrier
from kvdiag.diagnosis.launches import Launch, moment
from kvdiag.diagnosis.lines import LogLine
from kvdiag.diagnosis.outcome import Consequence, Failure, FailureKind, Stage, stage_of
from kvdiag.diagnosis.splitting import STARTUP

MESSAGE = 2_000  # characters of a message that are kept
CONSEQUENCES = 20
ENDS_NEAR = 64  # of the last ends of processes, that are looked at for one beside an error
SAME_PLACE = 400  # lines within which a traceback's parts stand together
CHAIN_S = 5  # within which errors of one rank are taken for one chain
LIVES_ON_S = 60.0  # a server that still serves after this long, or this many lines, has survived
LIVES_ON_LINES = 50

# A line that tells of a shortage which is then dealt with.
_HANDLED = ("custom allreduce", "skipping", "autotun", "to silence this warning", "warning:", "falling back", "retry")

_SIZING = (NoRoomForPool, PoolRefused)
_TOKENS = (
    TokenSlotsExhausted,
    RequestSlotsExhausted,
    LastRequestDoesNotFit,
    StateSlotsExhausted,
    PreallocationFull,
)
_KERNEL = (KernelFault, KernelResourceShort, CompileFailed, AttentionWorkspaceShort, DisguisedError)
_HOST = (HostMemoryShort, HostOutOfMemory, SharedMemoryFull)
_GPU = (DeviceOutOfMemory, DeviceFull, AllocatorAssertion, CommunicationBufferShort, MemorySaver)
# Ends of processes: they tell that something ended a launch, not what.
_ENDS = (ProcessFailed, Sigquit, SchedulerDead, InitializationFailed, ExitCode, Killed)
_FOLLOWS = {
    LoadBarrier: "another rank did not finish loading",
    PeerLost: "a rank lost its partner",
    WatchdogTimeout: "a rank waited in vain",
    Sigquit: "the parent stops all processes",
    SchedulerDead: "the parent finds a scheduler dead",
    InitializationFailed: "the parent gives up the start",
    ExitCode: "exit code of a stopped process",
    Killed: "processes are killed in the clean-up",
}
_CAUSES = (
    *_SIZING,
    *_TOKENS,
    *_KERNEL,
    *_HOST,
    *_GPU,
    CaptureFailed,
    UnbalancedMemory,
    DispatchLimitExceeded,
    CommunicationFailed,
    DiskFull,
    DuplicateDevice,
    SlotLeak,
    ArgumentsRefused,
    ContextTooLong,
    ExceptionRaised,
)
# Words that are also printed of what was dealt with: they count where nothing came after them.
_OFTEN_DEALT_WITH = (
    ExceptionRaised,
    DisguisedError,
    MemorySaver,
    CommunicationFailed,
    ContextTooLong,
    PeerLost,
    SharedMemoryFull,
    DiskFull,
)
# Exceptions that are raised because another process is gone.
_ECHOES = ("EOFError", "BrokenPipeError", "ConnectionResetError", "CancelledError", "KeyboardInterrupt", "SystemExit")


def failure_of(launch: Launch) -> Failure | None:
    """The failure that ended a launch, or None where nothing did."""
    return _Inquest(launch).verdict()


class _Inquest:
    """One launch's errors, judged by what came after them."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.place = {id(e): n for n, e in enumerate(launch.events)}
        self.seconds = self._seconds()
        self.steps = launch.each(*STARTUP)
        self.fired = self._last(FiredUp)
        self.lives = self._last(FiredUp, HttpServerUp, ServerLimits, BenchmarkResult)
        self.worked = self.fired or (self._last(BenchmarkResult) if launch.has(ServerLimits) else None)
        self.stop = self._stop() if self.fired is not None else None
        self.ends: list[Event] = [e for e in launch.events if isinstance(e, _ENDS) and self._is_end(e)]

    def verdict(self) -> Failure | None:
        causes = [e for e in self.launch.events if isinstance(e, _CAUSES) and self._ends_launch(e)]
        roots = [e for e in causes if not _is_echo(e)]
        if roots:
            return self._failure(self._first(roots), roots)
        ends = [e for e in self.ends if self._counts(e)]
        kill = self._host_kill(ends)
        if kill is not None:
            return self._of(kill, FailureKind.HOST_OOM, kill.line.text)
        crash = next((e for e in ends if isinstance(e, ProcessFailed)), None)
        if crash is not None:
            cause = last_exception(crash.line)
            return self._of(crash, kind_of(cause), cause)
        trace = self._fatal_traceback(bool(ends))
        if trace is not None:
            cause = last_exception(trace.line)
            return self._of(trace, kind_of(cause), cause)
        losses = self.launch.each(LoadBarrier, PeerLost, WatchdogTimeout)
        lost = next((e for e in losses if self._ends_launch(e)), None)
        # A watchdog ends its process unless it is soft; one that waits for a store raises, and that may be caught.
        hung = isinstance(lost, WatchdogTimeout) and not lost.soft and "atchdog" in lost.line.text
        if lost is not None and (ends or hung or isinstance(lost, LoadBarrier) or "Error" in lost.line.text):
            alone = hung and not (isinstance(lost, WatchdogTimeout) and lost.collective)
            return self._of(lost, FailureKind.OTHER if alone else FailureKind.COMMUNICATION, lost.line.text)
        echo = next(iter(causes), None)
        if echo is not None and ends:
            return self._of(echo, kind_of(echo.line.text), echo.line.text)
        warm = next((e for e in self.launch.events if isinstance(e, Warmup) and e.failed), None)
        if warm is not None and self.fired is None:
            return self._of(warm, FailureKind.OTHER, warm.line.text)
        sign = next(iter(ends), None)
        if sign is not None:
            return self._of(sign, FailureKind.OTHER, sign.line.text)
        return None

    def _first(self, roots: Sequence[Event]) -> Event:
        """The earliest; words that are often dealt with give way to a plain cause that follows within seconds."""
        first = min(roots, key=self._order)
        if isinstance(first, _OFTEN_DEALT_WITH):
            plain = [e for e in roots if not isinstance(e, _OFTEN_DEALT_WITH) and not _is_bare_capture(e)]
            next_one = min(plain, key=self._order, default=first)
            if self._order(next_one)[0] - self._order(first)[0] <= CHAIN_S:
                return next_one
        return first

    # What counts

    def _last(self, *kinds: type[Event]) -> Event | None:
        return self.launch.last(*kinds)

    def _stop(self) -> Event | None:
        """The request to stop: a signal, or a key that was pressed."""
        for event in self.launch.events:
            if isinstance(event, StopRequested):
                return event
            if isinstance(event, ExceptionRaised) and event.kind == "KeyboardInterrupt":
                return event
        return None

    def _is_end(self, event: Event) -> bool:
        return not (isinstance(event, ExitCode) and event.code in (0, None, -15, 143))

    def _counts(self, event: Event) -> bool:
        """Whether an end is not the end of a stop on request, or of an earlier attempt that a ready server followed."""
        if self.fired is not None and self.place[id(event)] < self.place[id(self.fired)]:
            return False
        return self.stop is None or self.place[id(event)] < self.place[id(self.stop)]

    def _ends_launch(self, event: Event) -> bool:
        """Whether the launch ended with this error rather than lived on."""
        at = self.place[id(event)]
        text = event.line.text.lower()
        if any(word in text for word in _HANDLED):
            return False
        if isinstance(event, LastRequestDoesNotFit) and event.survives:
            return False
        if self.fired is not None and self.place[id(self.fired)] > at:
            return False
        if self.stop is not None and self.place[id(self.stop)] < at:
            return False
        weak = isinstance(event, _OFTEN_DEALT_WITH)
        if weak and self._went_on(event):
            return False
        if self.ends and self.place[id(self.ends[-1])] >= at:
            return True
        if any(_near(e.line, event.line) for e in self.ends[-ENDS_NEAR:]):
            return True
        if isinstance(event, SlotLeak):
            return "Error" in event.line.text
        if isinstance(event, ExceptionRaised) and self.worked is not None and self.place[id(self.worked)] < at:
            return False  # a client's, or a request's: the server has done its work
        if weak:
            return not self._lived_after(event) and (self.fired is None or self._is_last_word(event))
        return not self._lived_after(event)

    def _went_on(self, event: Event) -> bool:
        """Whether the start took further steps after an error: its own rank's, or of any rank where it names none."""
        at = self.place[id(event)]
        for step in reversed(self.steps):
            if self.place[id(step)] <= at:
                return False
            if (not event.rank or step.rank == event.rank) and self._order(step) > self._order(event):
                return True
        return False

    def _lived_after(self, event: Event) -> bool:
        at = self.place[id(event)]
        if self.lives is not None and self.place[id(self.lives)] > at:
            return True
        # A capture ends for all ranks together.
        if any(self.place[id(e)] > at for e in self.launch.each(GraphEnd)) or (event.rank and self._went_on(event)):
            return True
        last = self.launch.series.last
        if last is None or last.line.file != event.line.file or last.line.number <= event.line.number + 3:
            return False
        then, now = moment(event.line.clock), moment(last.line.clock)
        if then is None or now is None or last.line.number > event.line.number + LIVES_ON_LINES:
            return True
        return (now - then).total_seconds() > LIVES_ON_S

    def _is_last_word(self, event: Event) -> bool:
        """Whether the log ends with this error."""
        line = self.launch.last_line
        return line is None or line.file != event.line.file or line.number - event.line.number < 60

    def _fatal_traceback(self, ended: bool) -> Event | None:
        """The first traceback that nothing followed but an end."""
        for trace in self.launch.events:
            if not isinstance(trace, Traceback) or not self._counts(trace):
                continue
            if ended or (not self._lived_after(trace) and self.fired is None and not self.launch.has(ServerLimits)):
                return trace
        return None

    def _host_kill(self, ends: list[Event]) -> Event | None:
        """Signal 9 from outside with no other reason shown. A shell's "Killed" after a SIGQUIT clean-up is none."""
        kernel = next((e for e in ends if isinstance(e, Killed) and e.is_oom_killer), None)
        if kernel is not None:
            return kernel
        if any(isinstance(e, ProcessFailed) for e in ends):
            return None
        others = self.launch.has(Traceback, Sigquit)
        for event in ends:
            code = event.code if isinstance(event, ExitCode) else -9 if isinstance(event, Killed) else None
            if code not in (-9, 9, 137):
                continue
            if isinstance(event, ExitCode) and (event.by_parent or self._after_dead(event)):
                return event
            if not others and (not isinstance(event, Killed) or self.fired is None):
                return event
        return None

    def _after_dead(self, event: Event) -> bool:
        return any(0 <= event.line.number - e.line.number <= 3 for e in self.launch.each(SchedulerDead))

    # What is said

    def _order(self, event: Event) -> tuple[int, int, int]:
        """Earliest first; a line without a clock stands where it stands."""
        return (self.seconds[id(event)], event.line.file, event.line.number)

    def _seconds(self) -> dict[int, int]:
        """When each event was printed: by its clock, else by that of the cause before it."""
        clocked = sum(isinstance(e, _CAUSES) and e.line.clock is not None for e in self.launch.events)
        found: dict[int, int] = {}
        before = 0
        for event in self.launch.events:
            when = moment(event.line.clock) if event.line.clock else None
            # SGLang's clock counts seconds and a carrier's finer: within a second the lines' order counts.
            second = int(when.timestamp()) if when is not None else before
            if isinstance(event, _CAUSES):
                before = second
            found[id(event)] = second if clocked > 1 or when is None else before
        return found

    def _failure(self, root: Event, roots: Sequence[Event]) -> Failure:
        capture = next((e for e in roots if isinstance(e, CaptureFailed)), None)
        kind, message = self._kind(root)
        stage = self._stage(root)
        if capture is not None and _near(capture.line, root.line) and not capture.in_batch:
            stage = Stage.CUDA_GRAPH
        if kind is FailureKind.GPU_OOM and stage in (Stage.ARGUMENTS, Stage.DISTRIBUTED):
            stage = Stage.WEIGHTS  # by the convention of all stages of an overflow: until the weights are loaded
        failure = self._of(root, kind, message)
        return Failure(kind, stage, failure.message, failure.lines, failure.consequences)

    def _stage(self, event: Event) -> Stage | None:
        match event:
            case NoRoomForPool() | PoolRefused():
                return Stage.KV_CACHE
            case CaptureFailed():
                return Stage.SERVING if event.in_batch else Stage.CUDA_GRAPH
            case UnbalancedMemory():
                return Stage.DISTRIBUTED
            case ArgumentsRefused() | ContextTooLong():
                return Stage.ARGUMENTS
        if isinstance(event, (*_TOKENS, SlotLeak)):
            return Stage.SERVING
        return stage_of(self.launch, event)

    def _kind(self, event: Event) -> tuple[FailureKind, str]:
        text = event.line.text
        match event:
            case CaptureFailed():
                reason = event.whole_reason
                return kind_of(reason), f"{text} {reason}" if reason and reason not in text else text
            case UnbalancedMemory():
                return FailureKind.SIZING, text
            case DispatchLimitExceeded() | SlotLeak():
                return FailureKind.ASSERTION, text
            case CommunicationFailed():
                return FailureKind.COMMUNICATION, text
            case MemorySaver():
                return FailureKind.GPU_OOM, text
            case AllocatorAssertion(what="captures_underway"):
                return FailureKind.ASSERTION, text  # a cleared cache within a capture does it as well
            case DisguisedError():
                return FailureKind.KERNEL, text
            case DiskFull() | SharedMemoryFull(in_weight_file=True):
                return FailureKind.OTHER, text
        if isinstance(event, (*_SIZING, *_TOKENS)):
            return FailureKind.SIZING, text
        if isinstance(event, _HOST):
            return FailureKind.HOST_OOM, text
        if isinstance(event, _GPU):
            return FailureKind.GPU_OOM, text
        if isinstance(event, _KERNEL):
            return FailureKind.KERNEL, text
        return kind_of(text), text

    def _of(self, event: Event, kind: FailureKind, message: str) -> Failure:
        return Failure(
            kind, self._stage(event), message[:MESSAGE], (event.line,), tuple(self._consequences(event))[:CONSEQUENCES]
        )

    def _consequences(self, root: Event) -> Iterator[Consequence]:
        at = self._order(root)
        for event in self.launch.events:
            if event is root or self._order(event)[0] < at[0] or event.line == root.line:
                continue
            if type(event) is type(root) and event.rank != root.rank and isinstance(event, _CAUSES):
                yield Consequence(f"the same on {event.rank or 'another process'}", event.line)
            elif type(event) in _FOLLOWS and self.place[id(event)] > self.place[id(root)]:
                if not isinstance(event, ExitCode) or self._is_end(event):
                    yield Consequence(_FOLLOWS[type(event)], event.line)
            elif isinstance(event, CommunicationFailed) and not isinstance(root, CommunicationFailed):
                yield Consequence("a collective failed", event.line)


def _is_echo(event: Event) -> bool:
    return isinstance(event, ExceptionRaised) and (event.kind or "").rsplit(".", 1)[-1] in _ECHOES


def _is_bare_capture(event: Event) -> bool:
    """Whether it says that a capture failed and not why: then the error above it does."""
    return isinstance(event, CaptureFailed) and not event.whole_reason


def _near(one: LogLine, two: LogLine) -> bool:
    return one.file == two.file and abs(one.number - two.number) <= SAME_PLACE and one.rank == two.rank


_EXCEPTIONS = ("Error", "Exception", "Interrupt", "OutOfResources", "Failure")


def last_exception(line: LogLine) -> str:
    """The exception that a traceback ends with; the line itself where the log has lost it."""
    found = line.text
    for text in line.following(200):
        head = text.split(":", 1)[0].strip()
        if head.endswith(_EXCEPTIONS) and " " not in head and not head.startswith(("File", "^", "~")):
            found = text
            if not text.startswith(" "):
                break
        elif text.startswith("[") and "Traceback" not in text and found is not line.text:
            break
    return found[:MESSAGE]


def kind_of(text: str) -> FailureKind:
    """What kind of thing an exception's text tells of."""
    low = text.lower()
    if ("out of memory" in low and "try to lower your batch" not in low) or "cudaerrormemoryallocation" in low:
        return FailureKind.GPU_OOM
    if "num_active_captures_" in low:
        return FailureKind.GPU_OOM
    if "assert" in low:
        return FailureKind.ASSERTION
    if any(word in low for word in ("nccl", "gloo", "connection", "tcpstore", "peer", "timeout", "hccl", "socket")):
        return FailureKind.COMMUNICATION
    if any(word in low for word in ("triton", "outofresources", "illegal memory", "cuda error", "kernel", "ninja")):
        return FailureKind.KERNEL
    return FailureKind.OTHER
