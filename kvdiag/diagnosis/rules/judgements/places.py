"""Where lines stand, and which came before which."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from kvdiag.diagnosis.events.pattern import Event
from kvdiag.diagnosis.lines import LogLine
from kvdiag.diagnosis.rules.rule import Case

E = TypeVar("E", bound=Event)

TRACEBACK_LINES = 120  # a frame this far above an error still belongs to its traceback


def is_before(one: LogLine, other: LogLine) -> bool:
    """Whether a line stands above another."""
    return one.place < other.place


def last_before(case: Case, line: LogLine, *kinds: type[E]) -> E | None:
    """The last event of these kinds above a line."""
    return next((e for e in reversed(case.launch.each(*kinds)) if is_before(e.line, line)), None)


def once(events: Iterable[E]) -> list[E]:
    """The same message of several ranks, or wrapped in another exception, once a rank."""
    seen: set[tuple[object, ...]] = set()
    kept = []
    for event in events:
        key = (event.rank, *(getattr(event, name, None) for name in ("tried", "gpu", "free", "allocated", "what")))
        if key not in seen:
            seen.add(key)
            kept.append(event)
    return kept


def ranks_of(events: Iterable[Event]) -> tuple[str, ...]:
    """The ranks that printed events, each once, in order."""
    return tuple(dict.fromkeys(e.rank for e in events))


def last_before_or_on(case: Case, line: LogLine, *kinds: type[E]) -> E | None:
    """As last_before, a line of its own included: bars and messages are glued together."""
    return next((e for e in reversed(case.launch.each(*kinds)) if e.line.place <= line.place), None)
