"""One deployment over several files or processes: nodes of one launch joined, rotated parts put in order.

Nodes       same model and sizes under different node ranks, or ranks that complete each other at the same time
Parts       a file without a start goes on with the launch that the file before it in time left running
Everything else (a prefill and a decode server, two replicas) stays a launch of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime, timedelta

from kvdiag.diagnosis.arguments import Value, read_arguments
from kvdiag.diagnosis.events.pattern import Event
from kvdiag.diagnosis.events.server_args import ServerArgs
from kvdiag.diagnosis.launches import Launch, moment
from kvdiag.diagnosis.splitting import STARTUP, same_deployment, with_line

START_TOGETHER = timedelta(minutes=30)  # nodes of one launch may wait for each other, but not for long


def join_files(files: Sequence[list[Launch]]) -> list[Launch]:
    """The launches of all files, in the order they started."""
    if len(files) == 1:
        return files[0]
    joined: list[Launch] = []
    order = sorted(range(len(files)), key=lambda n: (_first_clock(files[n]) or datetime.max, n))
    for index in order:
        for position, launch in enumerate(files[index]):
            partner = _partner(joined, launch, is_first=position == 0)
            if partner is None:
                joined.append(launch)
            else:
                _merge(partner, launch)
    joined.sort(key=lambda x: _started(x) or datetime.max)
    return joined


def _first_clock(launches: Sequence[Launch]) -> datetime | None:
    return next((found for x in launches if (found := _started(x)) is not None), None)


def _started(launch: Launch) -> datetime | None:
    clocks = (e.line.clock for e in (*launch.events, *launch.series.edges))
    return next((found for clock in clocks if (found := moment(clock)) is not None), None)


def _last_clock(launch: Launch) -> datetime | None:
    clocks = [e.line.clock for e in launch.events[-20:]]
    if launch.series.last is not None:
        clocks.append(launch.series.last.line.clock)
    return max((found for clock in clocks if (found := moment(clock)) is not None), default=None)


def _partner(joined: Sequence[Launch], launch: Launch, is_first: bool) -> Launch | None:
    for other in reversed(joined):
        if _are_nodes(other, launch):
            return other
    if is_first and not launch.has(*STARTUP, ServerArgs):
        begin = _started(launch)
        for other in reversed(joined):
            end = _last_clock(other)
            if begin is None or end is None or begin >= end:
                return other
    return None


def _arguments(launch: Launch) -> list[dict[str, Value]]:
    return [read_arguments(e.body or "", is_cut=True) for e in launch.each(ServerArgs)]


def _are_nodes(one: Launch, two: Launch) -> bool:
    if not _overlap(one, two):
        return False
    mine, theirs = _arguments(one), _arguments(two)
    if mine and theirs:
        return all(same_deployment(a, b) for a in mine for b in theirs)
    ranks, others = set(one.rank_ids), set(two.rank_ids)
    return bool(ranks and others) and not ranks & others and "" not in ranks | others


def _overlap(one: Launch, two: Launch) -> bool:
    """Whether two launches started together; True where no clock tells."""
    a, b = _started(one), _started(two)
    return a is None or b is None or abs(a - b) <= START_TOGETHER


def _merge(into: Launch, other: Launch) -> None:
    clash = set(into.rank_ids) & set(other.rank_ids)
    nodes = len(into.each(ServerArgs)) or 1
    events = [_on_node(e, f"node{nodes}", clash) for e in other.events] if clash else other.events
    into.events.extend(events)
    for (kind, rank), more in other.repeats.items():
        more.last = _on_node(more.last, f"node{nodes}", clash)
        known = into.repeats.setdefault((kind, more.last.rank if rank in clash else rank), more)
        if known is not more:
            known.join(more)
    for wording, count in other.unkept.items():
        into.unkept[wording] = into.unkept.get(wording, 0) + count
    into.has_more_ranks |= other.has_more_ranks
    into.series.merge(other.series)
    into.first_line = into.first_line or other.first_line
    if other.last_line is not None and other.first_line is not None and not other.has(ServerArgs):
        into.last_line = other.last_line


def _on_node(event: Event, node: str, clash: set[str]) -> Event:
    """The event with its rank told apart from the same rank of another node."""
    if event.rank not in clash:
        return event
    name = f"{node}/{event.rank}" if event.rank else node
    return with_line(event, dataclasses.replace(event.line, rank=name))
