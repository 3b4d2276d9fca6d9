"""Launches: events gathered by server start and by GPU worker.

A launch begins with its server_args line; without one, with the first start-up line that follows a summary, a ready
line or a failure that ended the launch before. A draft model, a command or a banner begins none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from kvdiag.diagnosis.arguments import Argument, Value, read_arguments, read_command, read_value
from kvdiag.diagnosis.events.cuda_graph import GraphBegin, GraphEnd
from kvdiag.diagnosis.events.distributed import DistributedBegin, DistributedEnd
from kvdiag.diagnosis.events.failure import (
    CaptureFailed,
    DeviceOutOfMemory,
    ExitCode,
    Killed,
    NoRoomForPool,
    ProcessFailed,
    Sigquit,
    Traceback,
)
from kvdiag.diagnosis.events.kv_pool import DeepSeekV4Budget, KVPoolAllocated, MambaPool, PoolEnd
from kvdiag.diagnosis.events.pattern import Event
from kvdiag.diagnosis.events.ready import BenchmarkResult, FiredUp, HttpServerUp, ServerLimits
from kvdiag.diagnosis.events.server_args import ArgumentAdjusted, LaunchCommand, ServerArgs
from kvdiag.diagnosis.events.serving import DecodeBatch, PrefillBatch
from kvdiag.diagnosis.events.weights import WeightsBegin, WeightsLoaded
from kvdiag.diagnosis.lines import LogLine
from kvdiag.diagnosis.series import Series

E = TypeVar("E", bound=Event)

# A rank's own steps, in the order of a start; `distributed` may come again for a draft model.
_STEPS: dict[type[Event], int] = {
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
STARTUP = tuple(_STEPS)
_OPENING = (DistributedBegin, DistributedEnd, WeightsBegin, WeightsLoaded, KVPoolAllocated, PoolEnd, ServerLimits)
FAILURES = (DeviceOutOfMemory, NoRoomForPool, CaptureFailed, ProcessFailed, Traceback, ExitCode, Killed, Sigquit)
BATCHES = (PrefillBatch, DecodeBatch)


@dataclass
class Launch:
    """One server start: its arguments, its events in order, how far it came."""

    number: int = 1
    events: list[Event] = field(default_factory=list)
    server_args: list[ServerArgs] = field(default_factory=list)
    commands: list[LaunchCommand] = field(default_factory=list)
    arguments: dict[str, Argument] = field(default_factory=dict)
    series: Series = field(default_factory=Series)
    first_line: LogLine | None = None
    last_line: LogLine | None = None

    def add(self, event: Event) -> None:
        """Take one event in; batch lines go into the series."""
        if isinstance(event, BATCHES):
            self.series.add(event)
        else:
            self.events.append(event)
        self.first_line = self.first_line or event.line
        self.last_line = event.line

    def each(self, *kinds: type[E], rank: str | None = None) -> list[E]:
        """Its events of these kinds, in order; of one rank when it is named."""
        return [e for e in self.events if isinstance(e, kinds) and (rank is None or e.rank == rank)]

    def first(self, *kinds: type[E], rank: str | None = None) -> E | None:
        """The first such event."""
        return next((e for e in self.events if isinstance(e, kinds) and (rank is None or e.rank == rank)), None)

    def last(self, *kinds: type[E], rank: str | None = None) -> E | None:
        """The last such event."""
        return next(
            (e for e in reversed(self.events) if isinstance(e, kinds) and (rank is None or e.rank == rank)), None
        )

    def has(self, *kinds: type[Event]) -> bool:
        """Whether such an event is in the log."""
        return any(isinstance(e, kinds) for e in self.events)

    def value(self, name: str) -> Value:
        """The effective value of an argument; None when the log does not tell."""
        argument = self.arguments.get(name)
        return None if argument is None else argument.value

    def number_of(self, name: str) -> float | None:
        """An argument that is a number."""
        value = self.value(name)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    @property
    def has_traffic(self) -> bool:
        """Whether the log shows requests being served."""
        return bool(self.series.prefill_batches or self.series.decode_batches)

    @property
    def rank_ids(self) -> list[str]:
        """The ranks that printed a figure of memory, in natural order."""
        kinds = (
            WeightsBegin,
            WeightsLoaded,
            KVPoolAllocated,
            MambaPool,
            PoolEnd,
            GraphBegin,
            GraphEnd,
            DeepSeekV4Budget,
        )
        found = {e.rank for e in self.each(*kinds)}
        if not found:
            found = {e.rank for e in self.each(ServerLimits, DistributedEnd)}
        return sorted(found, key=natural)


def natural(rank: str) -> list[object]:
    """A sort key that counts TP10 after TP9."""
    return [int(x) if x.isdigit() else x for x in _split_digits(rank)]


def _split_digits(text: str) -> list[str]:
    parts: list[str] = [""]
    for char in text:
        if parts[-1] and char.isdigit() != parts[-1][-1].isdigit():
            parts.append("")
        parts[-1] += char
    return ["", *parts] if parts[0].isdigit() else parts


def split_launches(events: Iterable[Event]) -> list[Launch]:
    """The launches of an upload, in the order they started."""
    launches: list[Launch] = []
    waiting: list[Event] = []  # commands and refusals of arguments: they belong to the launch after them
    steps: dict[str, int] = {}  # how far each rank of the current launch came
    ended = False  # the current launch printed its summary, got ready or failed
    failed = False

    def begin() -> Launch:
        nonlocal ended, failed
        launch = Launch(number=len(launches) + 1)
        for earlier in waiting:
            launch.add(earlier)
        waiting.clear()
        steps.clear()
        ended = failed = False
        launches.append(launch)
        return launch

    current: Launch | None = None
    for event in events:
        if isinstance(event, LaunchCommand):
            if current is not None and not ended and not current.has(*STARTUP) and not current.server_args:
                current.add(event)
            else:
                waiting.append(event)
            continue
        if isinstance(event, ServerArgs):
            if current is None or not _continues(current, event, ended):
                current = begin()
            current.add(event)
            continue
        if isinstance(event, _OPENING):
            if current is None:
                current = begin()
            elif _restarts(current, event, steps, ended, failed):
                current = begin()
            steps[event.rank] = max(steps.get(event.rank, 0), _STEPS[type(event)])
        if current is None:
            current = begin()
        if waiting and not ended and not isinstance(event, FAILURES):
            for earlier in waiting:
                current.add(earlier)
            waiting.clear()
        current.add(event)
        if isinstance(event, ServerLimits | FiredUp):
            ended = True
        elif isinstance(event, FAILURES):
            failed = True
    if waiting:
        begin()
    for launch in launches:
        launch.server_args = launch.each(ServerArgs)
        launch.commands = launch.each(LaunchCommand)
        launch.arguments = collect_arguments(launch)
    return launches


def _continues(current: Launch, event: ServerArgs, ended: bool) -> bool:
    """Whether a server_args line belongs to the launch at hand: another node of it, or its second print."""
    if not current.has(ServerArgs):
        return (
            not current.has(*STARTUP)
            and not current.has_traffic
            and not current.has(FiredUp)
            and not current.has(*FAILURES)
        )
    if ended or current.has(FiredUp) or current.has(*FAILURES):
        return False
    before = read_arguments(current.each(ServerArgs)[-1].body or "")
    now = read_arguments(event.body or "")
    same_node = before.get("node_rank") == now.get("node_rank")
    started = current.has(WeightsBegin, WeightsLoaded)
    if same_node:
        return (
            not started and before.get("model_path") == now.get("model_path") and before.get("port") == now.get("port")
        )
    return before.get("model_path") == now.get("model_path") and before.get("nnodes") == now.get("nnodes")


def _restarts(current: Launch, event: Event, steps: dict[str, int], ended: bool, failed: bool) -> bool:
    """Whether a start-up line opens a new launch without a server_args line of its own."""
    step = _STEPS[type(event)]
    done = steps.get(event.rank, 0)
    if isinstance(event, ServerLimits):
        return False
    if not done:
        # Another rank of the same start, unless the start is over and this one begins from the front.
        if step <= 3 and (ended or failed) and steps:
            return current.has(FiredUp) or failed and _later(current, event)
        return False
    if done >= 9 or current.has(FiredUp) or current.has(BenchmarkResult):
        return True
    return failed and step < 4 and step < done and _later(current, event)


def _later(current: Launch, event: Event, seconds: float = 1.0) -> bool:
    """Whether the event came after the failure of the launch; True where no clock tells."""
    fault = current.last(*FAILURES)
    then, now = (moment(e.line.clock) if e is not None else None for e in (fault, event))
    return then is None or now is None or now >= then - timedelta(seconds=seconds)


def moment(clock: str | None) -> datetime | None:
    """A printed time; a time without a date stands on an arbitrary day."""
    if not clock:
        return None
    text = clock.replace(",", ".")
    try:
        return datetime.fromisoformat(text if "T" in text else f"2000-01-01T{text}").replace(tzinfo=None)
    except ValueError:
        return None


def collect_arguments(launch: Launch) -> dict[str, Argument]:
    """All arguments with where each comes from: the command, SGLang's own line, and its notices of changes."""
    found: dict[str, Argument] = {}
    given: dict[str, Value] = {}
    command_lines: tuple[tuple[int, int], ...] = ()
    for command in launch.commands:
        given.update(read_command(command.command or ""))
        command_lines = ((command.line.file, command.line.number),)
    printed: dict[str, Value] = {}
    printed_lines: tuple[tuple[int, int], ...] = ()
    for args in launch.server_args[:1]:
        printed = read_arguments(args.body or "")
        printed_lines = ((args.line.file, args.line.number),)
    for name, value in printed.items():
        found[name] = Argument(value, "given" if name in given else "default", printed_lines)
    for name, value in given.items():
        if name not in printed:
            found[name] = Argument(value, "given", command_lines)
        elif printed[name] != value and value is not True:
            found[name] = Argument(printed[name], "adjusted", (*command_lines, *printed_lines))
    for change in launch.each(ArgumentAdjusted):
        if change.value is not None:
            found[change.argument] = Argument(
                read_value(change.value), "adjusted", ((change.line.file, change.line.number),)
            )
    return found


def in_order(events: Sequence[E]) -> list[E]:
    """By file and line, which is the order they were printed in."""
    return sorted(events, key=lambda e: (e.line.file, e.line.number))


__all__ = ["FAILURES", "HttpServerUp", "Launch", "collect_arguments", "moment", "natural", "split_launches"]
