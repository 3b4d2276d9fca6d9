"""The start-up as a timeline: seconds that each rank spent in each phase, and the rank that held the others up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kvdiag.diagnosis.events.cuda_graph import GraphBegin, GraphEnd
from kvdiag.diagnosis.events.distributed import DistributedBegin, DistributedEnd
from kvdiag.diagnosis.events.kv_pool import DeepSeekV4Budget, KVPoolAllocated, MambaPool, PoolEnd
from kvdiag.diagnosis.events.pattern import Event
from kvdiag.diagnosis.events.ready import FiredUp, ServerLimits
from kvdiag.diagnosis.events.server_args import ServerArgs
from kvdiag.diagnosis.events.weights import WeightsBegin, WeightsLoaded
from kvdiag.diagnosis.launches import Launch, moment
from kvdiag.diagnosis.lines import LogLine

_MARKS = (
    DistributedBegin,
    DistributedEnd,
    WeightsBegin,
    WeightsLoaded,
    KVPoolAllocated,
    MambaPool,
    DeepSeekV4Budget,
    PoolEnd,
    GraphBegin,
    GraphEnd,
    ServerLimits,
)


@dataclass(frozen=True, slots=True)
class Phase:
    """One step of one rank's start.

    name      processes | distributed | weights | kv_cache | cuda_graph | warmup, with "draft " before it where a draft
              model's step comes again
    seconds   as SGLang prints it, else between the clocks of its lines; None where neither tells
    slowest   whether this rank took longest of all, by more than a second and a tenth
    """

    name: str
    rank: str
    seconds: float | None
    first_line: LogLine
    last_line: LogLine
    slowest: bool = False


def timeline(launch: Launch) -> tuple[Phase, ...]:
    """The phases of all ranks in the order they began."""
    found: list[Phase] = []
    marks = launch.each(*_MARKS)
    ranks: dict[str, list[Event]] = {}
    for event in marks:
        ranks.setdefault(event.rank, []).append(event)
    for rank, own in ranks.items():
        found += _of_rank(rank, own)
    found += _of_launch(launch, marks)
    return tuple(_name_slowest(sorted(found, key=lambda p: p.first_line.place)))


def _of_rank(rank: str, marks: Sequence[Event]) -> Iterator[Phase]:
    begin: Event | None = None
    first: Event
    seen: dict[str, int] = {}

    def phase(name: str, first: Event, last: Event, printed: float | None) -> Phase:
        seen[name] = seen.get(name, 0) + 1
        again = seen[name] > 1 and name in ("distributed", "weights", "kv_cache")
        return Phase(f"draft {name}" if again else name, rank, _seconds(first, last, printed), first.line, last.line)

    for event in marks:
        match event:
            case DistributedBegin() | WeightsBegin() | GraphBegin():
                begin = event
            case DistributedEnd():
                first = begin if isinstance(begin, DistributedBegin) else event
                yield phase("distributed", first, event, event.elapsed_s)
                begin = None
            case WeightsLoaded():
                first = begin if isinstance(begin, WeightsBegin) else event
                yield phase("weights", first, event, event.elapsed_s)
                begin = event
            case PoolEnd():
                first = begin if begin is not None and not isinstance(begin, GraphBegin) else event
                yield phase("kv_cache", first, event, None)
                begin = event
            case GraphEnd():
                first = begin if isinstance(begin, GraphBegin) else event
                kind = (event.kind or "").strip()
                yield phase(
                    "draft cuda_graph" if "draft" in kind.split() else "cuda_graph", first, event, event.elapsed_s
                )
                begin = None
            case KVPoolAllocated() | MambaPool() | DeepSeekV4Budget():
                begin = begin or event


def _of_launch(launch: Launch, marks: Sequence[Event]) -> Iterator[Phase]:
    """What the processes do together: before the first rank speaks, and from the summary to the ready line."""
    args = launch.first(ServerArgs)
    first = marks[0] if marks else None
    if args is not None and first is not None and _seconds(args, first, None) is not None:
        yield Phase("processes", "", _seconds(args, first, None), args.line, first.line)
    summary, ready = launch.last(ServerLimits), launch.first(FiredUp)
    if summary is not None and ready is not None:
        yield Phase("warmup", "", _seconds(summary, ready, None), summary.line, ready.line)


def _seconds(first: Event, last: Event, printed: float | None) -> float | None:
    if printed is not None:
        return printed
    begin, end = moment(first.line.clock), moment(last.line.clock)
    if first is last or begin is None or end is None or end < begin:
        return None
    if ("T" in (first.line.clock or "")) != ("T" in (last.line.clock or "")):
        return None
    return (end - begin).total_seconds()


def _name_slowest(phases: Sequence[Phase]) -> Iterator[Phase]:
    most: dict[str, list[float]] = {}  # the two longest of each name
    for phase in phases:
        if phase.seconds is not None:
            most[phase.name] = sorted((*most.get(phase.name, ()), phase.seconds))[-2:]
    for phase in phases:
        # The longest of the others: the second where this one is the longest.
        longest = most.get(phase.name, [])
        others = longest[:-1] if longest and phase.seconds == longest[-1] else longest
        next_slowest = others[-1] if others else None
        slow = (
            phase.seconds is not None
            and next_slowest is not None
            and phase.seconds > next_slowest + 1
            and phase.seconds > next_slowest * 1.1
        )
        yield Phase(phase.name, phase.rank, phase.seconds, phase.first_line, phase.last_line, slow)


__all__ = ["Phase", "timeline"]
