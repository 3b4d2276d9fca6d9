"""Launches: events gathered by server start and by GPU worker."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, takewhile
from operator import itemgetter
from typing import TypeVar, cast

from kvdiag.diagnosis.arguments import Argument, Value, read_arguments
from kvdiag.diagnosis.defaults import names_of
from kvdiag.diagnosis.events.buffers import SkippedForMemory
from kvdiag.diagnosis.events.cuda_graph import GraphBegin, GraphEnd
from kvdiag.diagnosis.events.distributed import DistributedBegin, DistributedEnd
from kvdiag.diagnosis.events.failure import (
    CaptureFailed,
    ExceptionRaised,
    ExitCode,
    Killed,
    NoRoomForPool,
    ProcessFailed,
    Sigquit,
    Traceback,
)
from kvdiag.diagnosis.events.frames import Frame
from kvdiag.diagnosis.events.host_memory import HostPagesExhausted
from kvdiag.diagnosis.events.kv_pool import DeepSeekV4Budget, KVPoolAllocated, MambaPool, PoolEnd
from kvdiag.diagnosis.events.overflow import DeviceOutOfMemory
from kvdiag.diagnosis.events.pattern import Event, NotUnderstood
from kvdiag.diagnosis.events.progress import CaptureProgress
from kvdiag.diagnosis.events.ready import ServerLimits
from kvdiag.diagnosis.events.requests import RequestTooLong
from kvdiag.diagnosis.events.server_args import LaunchCommand, ServerArgs
from kvdiag.diagnosis.events.serving import DecodeBatch, HealthCheckFailed, PrefillBatch, Retraction, RetractionAborted
from kvdiag.diagnosis.events.weights import ShardProgress, WeightsBegin, WeightsLoaded
from kvdiag.diagnosis.lazy import lazy
from kvdiag.diagnosis.limits import DEFAULT_LIMITS
from kvdiag.diagnosis.lines import LogLine
from kvdiag.diagnosis.release import ReleaseRange
from kvdiag.diagnosis.series import Series

E = TypeVar("E", bound=Event)

MOST_UNREAD = 1_000  # lines that nothing reads; a log may hold a million, and a report shows few
MOST_RANKS = 4_096  # whose lines are read; no server of these releases has as many, and each is told by itself
# Of a rank, of each kind that may come a hundred thousand times: the rest is counted, the last one kept.
MOST_ALIKE = 64
# A launch with more events than a start prints: of what a rank says at every request, but for its figures, no more is
# kept than this.
CROWDED = 8_000
MOST_OF_ONE_WORDING = 200
CHANGING = lazy(r"0x[0-9a-f]+|\d+")  # in a text that is told once
_SPELLED = 700  # characters that tell one wording from another
BATCHES = (PrefillBatch, DecodeBatch)
# What is no such argument's value, whatever the log says: SGLang starts with none of them.
_LEAST = dict.fromkeys(("tp_size", "pp_size", "dp_size", "ep_size", "nnodes", "page_size"), 1)
REPEATED = (Retraction, RetractionAborted, HealthCheckFailed)
OFTEN = (ExceptionRaised, Frame, HostPagesExhausted, ProcessFailed, RequestTooLong, SkippedForMemory, Traceback)
FAILURES = (DeviceOutOfMemory, NoRoomForPool, CaptureFailed, ProcessFailed, Traceback, ExitCode, Killed, Sigquit)
_BARS = (ShardProgress, CaptureProgress)
# A rank is listed when it prints one of these; where nobody does, when it prints one of the second.
_FIGURES = (WeightsBegin, WeightsLoaded, KVPoolAllocated, MambaPool, PoolEnd, GraphBegin, GraphEnd, DeepSeekV4Budget)
_LESSER_FIGURES = (ServerLimits, DistributedEnd)


def wording_of(event: Event) -> str:
    """The text of an event's line with a # for each number in it: the same for what differs in figures alone."""
    return CHANGING.sub("#", event.line.text[:_SPELLED])


class EventIndex:
    """A launch's events by kind and by rank: a report asks for them per rank, and there may be thousands of ranks.

    rank_ids  kept by Launch.rank_ids; None until it is asked for
    """

    def __init__(self, events: Sequence[Event]) -> None:
        self._count = 0
        self._last: Event | None = None
        self.by_kind: dict[type[Event], list[Event]] = {}
        self._places: dict[type[Event], array[int]] = {}
        self.by_rank: dict[str, list[Event]] = {}
        self.extend(events)

    def extend(self, events: Sequence[Event]) -> None:
        """Takes in what stands behind the events that it covers; these are all of them."""
        self.rank_ids: tuple[str, ...] | None = None
        self._place_of: dict[int, int] | None = None
        self._found: dict[tuple[type[Event], ...], list[Event]] = {}
        for place in range(self._count, len(events)):
            event = events[place]
            kind = type(event)
            if kind not in self.by_kind:
                self.by_kind[kind], self._places[kind] = [], array("L")
            self.by_kind[kind].append(event)
            self._places[kind].append(place)
            self.by_rank.setdefault(event.rank, []).append(event)
        self._count, self._last = len(events), events[-1] if events else None

    def begins(self, events: Sequence[Event]) -> bool:
        """Whether it is the index of the first of these."""
        return 0 < self._count < len(events) and self._last is events[self._count - 1]

    def covers(self, events: Sequence[Event]) -> bool:
        """Whether it is the index of these: a launch only adds events, or puts another in the last one's place."""
        return self._count == len(events) and self._last is (events[-1] if events else None)

    def before(self, event: Event, kinds: tuple[type[E], ...]) -> Iterator[E]:
        """The events of these kinds that stand before another, in order; all where it is not among the events."""
        if self._place_of is None:
            self._place_of = {
                id(own): place
                for kind, events in self.by_kind.items()
                for place, own in zip(self._places[kind], events, strict=True)
            }
        places = self._place_of
        end = places.get(id(event), self._count)
        return takewhile(lambda other: places[id(other)] < end, self.of_kinds(kinds))

    def of_kinds(self, kinds: tuple[type[E], ...]) -> Sequence[E]:
        """The events of these kinds in order."""
        known = self._found.get(kinds)
        if known is None:
            wanted = [kind for kind in self.by_kind if issubclass(kind, kinds)]
            if len(wanted) == 1:
                known = self.by_kind[wanted[0]]
            else:
                placed = chain.from_iterable(
                    zip(self._places[kind], self.by_kind[kind], strict=True) for kind in wanted
                )
                known = [event for _, event in sorted(placed, key=itemgetter(0))]
            self._found[kinds] = known
        return cast("Sequence[E]", known)


_NO_EVENTS = EventIndex(())


@dataclass(slots=True)
class Repeats:
    """What one rank printed again and again, beyond the events that are kept of it.

    requests  the sum of what the lines say; untold of them say nothing, or none
    """

    last: Event
    times: int = 0
    requests: int = 0
    untold: int = 0

    def add(self, event: Event) -> None:
        """One more."""
        requests = event.requests if isinstance(event, Retraction) else None
        self.last = event
        self.times += 1
        self.requests += requests or 0
        self.untold += not requests

    def join(self, later: Repeats) -> None:
        """Those of another file, later ones."""
        self.last = later.last
        self.times += later.times
        self.requests += later.requests
        self.untold += later.untold


@dataclass
class Launch:
    """One server start: its arguments, its events in order, how far it came.

    release     as the report document has it: exact, from, before, basis
    releases    the same as a range that can be compared
    repeats     by kind and rank what came too often for all its events to be kept
    unkept      of OFTEN, how many are counted and not kept, by kind, rank and wording
    has_more_ranks  whether it has more ranks than MOST_RANKS: what the further ones say is not read
    """

    number: int = 1
    events: list[Event] = field(default_factory=list)
    server_args: list[ServerArgs] = field(default_factory=list)
    commands: list[LaunchCommand] = field(default_factory=list)
    arguments: dict[str, Argument] = field(default_factory=dict)
    series: Series = field(default_factory=Series)
    repeats: dict[tuple[type[Event], str], Repeats] = field(default_factory=dict)
    first_line: LogLine | None = None
    last_line: LogLine | None = None
    release: Mapping[str, str | None] = field(default_factory=dict)
    releases: ReleaseRange = field(default_factory=ReleaseRange)
    unkept: dict[tuple[type[Event], str, str], int] = field(default_factory=dict)
    has_more_ranks: bool = False
    _ranks: set[str] = field(default_factory=set, repr=False, compare=False)
    _wordings: dict[tuple[type[Event], str, str], int] = field(default_factory=dict, repr=False, compare=False)
    _unread: int = field(default=0, repr=False, compare=False)
    _alike: dict[tuple[type[Event], str], int] = field(default_factory=dict, repr=False, compare=False)
    _index: EventIndex = field(default=_NO_EVENTS, repr=False, compare=False)

    def add(self, event: Event) -> None:
        """Take one event in; batch lines go into the series, and of a run of bars the last one stays."""
        if event.rank not in self._ranks:
            if len(self._ranks) >= MOST_RANKS:
                self.has_more_ranks = True
                return
            self._ranks.add(event.rank)
        if isinstance(event, BATCHES):
            self.series.add(event)
        elif isinstance(event, _BARS) and self.events and _is_next_bar(self.events[-1], event):
            self.events[-1] = event
        elif isinstance(event, NotUnderstood):
            self._unread += 1
            if self._unread <= MOST_UNREAD:
                self.events.append(event)
        elif isinstance(event, REPEATED):
            self._repeat(event)
        elif isinstance(event, OFTEN) and len(self.events) >= CROWDED and self._is_one_of_many(event):
            self.repeats.setdefault((type(event), event.rank), Repeats(event)).add(event)
        else:
            self.events.append(event)
        self.first_line = self.first_line or event.line
        self.last_line = event.line

    def _repeat(self, event: Event) -> None:
        key = type(event), event.rank
        count = self._alike[key] = self._alike.get(key, 0) + 1
        if count <= MOST_ALIKE:
            self.events.append(event)
        else:
            self.repeats.setdefault(key, Repeats(event)).add(event)

    def _is_one_of_many(self, event: Event) -> bool:
        wording = type(event), event.rank, wording_of(event)
        count = self._wordings[wording] = self._wordings.get(wording, 0) + 1
        if count <= MOST_OF_ONE_WORDING:
            return False
        self.unkept[wording] = self.unkept.get(wording, 0) + 1
        return True

    def count(self, kind: type[Event]) -> int:
        """How many such events the log holds, those included that were only counted."""
        return len(self._found((kind,), None)) + sum(r.times for (k, _), r in self.repeats.items() if k is kind)

    def forget(self, kept: list[Event]) -> None:
        """Give the memory of a launch back that is counted and not told; these events stay."""
        self.events = kept
        self.series = Series()
        self.repeats, self._alike = {}, {}
        self.unkept, self._wordings, self._ranks = {}, {}, set()
        self.first_line = self.last_line = None
        self._index = _NO_EVENTS

    @property
    def index(self) -> EventIndex:
        """The events by kind and by rank, as they stand now."""
        if self._index.begins(self.events):
            self._index.extend(self.events)
        elif not self._index.covers(self.events):
            self._index = EventIndex(self.events)
        return self._index

    def each(self, *kinds: type[E], rank: str | None = None) -> list[E]:
        """Its events of these kinds, in order; of one rank when it is named."""
        return list(self._found(kinds, rank))

    def _found(self, kinds: tuple[type[E], ...], rank: str | None) -> Sequence[E]:
        if rank is not None:
            return [e for e in self.of_rank(rank) if isinstance(e, kinds)]
        return self.index.of_kinds(kinds)

    def of_rank(self, rank: str) -> Sequence[Event]:
        """The events of one rank, in order."""
        return self.index.by_rank.get(rank, ())

    def first(self, *kinds: type[E], rank: str | None = None) -> E | None:
        """The first such event."""
        return next(iter(self._found(kinds, rank)), None)

    def last(self, *kinds: type[E], rank: str | None = None) -> E | None:
        """The last such event."""
        return next(reversed(self._found(kinds, rank)), None)

    def has(self, *kinds: type[Event]) -> bool:
        """Whether such an event is in the log."""
        return any(issubclass(kind, kinds) for kind in self.index.by_kind)

    def value(self, name: str) -> Value:
        """The effective value of an argument, under whichever name its release has; None when the log does not tell."""
        for known in names_of(name):
            argument = self.arguments.get(known)
            if argument is not None:
                return argument.value
        return None

    def number_of(self, name: str) -> float | None:
        """An argument that is a number; None for one it cannot be: a count of GPUs below one, a fraction above it."""
        value = self.value(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            return None
        if name == "mem_fraction_static" and not 0 < value <= 1:
            return None
        return None if value < _LEAST.get(name, value) else value

    @property
    def printed_fields(self) -> tuple[str, ...]:
        """The names in SGLang's own line of arguments."""
        return tuple(read_arguments(self.server_args[0].body or "")) if self.server_args else ()

    @property
    def begins(self) -> bool:
        """Whether the log has the beginning of the start: its arguments, its command or a first step."""
        return bool(self.server_args or self.commands or self.has(DistributedBegin, WeightsBegin))

    @property
    def has_traffic(self) -> bool:
        """Whether the log shows requests being served."""
        return bool(self.series.prefill_batches or self.series.decode_batches)

    def highest(self, coordinate: str) -> int | None:
        """The highest number that any line's prefix has for TP, PP, DP or EP; None where no prefix has one."""
        ranks = set(self.index.by_rank) | {e.rank for e in self.series.edges}
        return max((int(m[1]) for rank in ranks for m in re.finditer(rf"\b{coordinate}(\d+)", rank)), default=None)

    @property
    def rank_ids(self) -> list[str]:
        """The ranks that printed a figure of memory, in natural order."""
        index = self.index
        if index.rank_ids is None:
            found = {e.rank for e in self.each(*_FIGURES)} or {e.rank for e in self.each(*_LESSER_FIGURES)}
            index.rank_ids = tuple(sorted(found, key=natural))
        return list(index.rank_ids)


def _is_next_bar(last: Event, event: Event) -> bool:
    """Whether a bar goes on from the one before it."""
    if isinstance(event, ShardProgress) and isinstance(last, ShardProgress):
        return (event.done or 0) >= (last.done or 0) and event.total == last.total
    if isinstance(event, CaptureProgress) and isinstance(last, CaptureProgress):
        return event.kind == last.kind and (event.done or 0) >= (last.done or 0)
    return False


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


def moment(clock: str | None) -> datetime | None:
    """A printed time; a time without a date stands on an arbitrary day."""
    if not clock:
        return None
    text = clock.replace(",", ".")
    try:
        return datetime.fromisoformat(text if "T" in text else f"2000-01-01T{text}").replace(tzinfo=None)
    except ValueError:
        return None


def split_launches(events: Iterable[Event], most: int = DEFAULT_LIMITS.launches) -> list[Launch]:
    """The launches of an upload, in the order they started, with their arguments and releases.

    A server that is restarted for days fills a log with thousands of alike starts: of more than `most` the first
    quarter and the last three quarters of that are given, each under its own number.
    """
    # The parts import Launch, so they are imported when the work begins.
    from kvdiag.diagnosis.machine import MachineTables
    from kvdiag.diagnosis.origins import collect_arguments, read_sources
    from kvdiag.diagnosis.splitting import split
    from kvdiag.diagnosis.wording import as_document, of_events, release_of

    tables = MachineTables()
    launches = split(tables.take(events), most)
    tables.give(launches)
    for number, launch in enumerate(launches, 1):
        launch.number = number
    if len(launches) > most:
        head = most // 4
        del launches[head : len(launches) - (most - head)]
    printed = None
    for launch in launches:
        launch.server_args = launch.each(ServerArgs)
        launch.commands = launch.each(LaunchCommand)
        printed = of_events(launch.events) or printed
        launch.releases, basis = release_of(launch, printed)
        launch.release = as_document(launch.releases, basis)
        launch.arguments = collect_arguments(launch, read_sources(launch, len(launches) == 1), launch.releases)
    return launches


__all__ = ["BATCHES", "FAILURES", "Launch", "Repeats", "moment", "natural", "split_launches"]
