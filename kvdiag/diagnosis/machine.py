"""The machine that a launch ran on, from tables beside the log: nvidia-smi, rocm-smi, npu-smi, check_env."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kvdiag.diagnosis.cards import readable
from kvdiag.diagnosis.events.hardware import (
    MACHINE,
    CardProcess,
    CardTable,
    DeviceNamed,
    DriverPrinted,
    LibraryPrinted,
)
from kvdiag.diagnosis.events.pattern import Event
from kvdiag.diagnosis.events.platform import DesktopOnGPU, UnifiedMemoryDevice, WindowsSubsystem
from kvdiag.diagnosis.events.server_args import VersionPrinted
from kvdiag.diagnosis.lines import LogLine
from kvdiag.diagnosis.units import Bytes

if TYPE_CHECKING:
    from kvdiag.diagnosis.launches import Launch

MOST_CARDS = 256
MOST_PROCESSES = 64
_LINES = 4  # of one card
_TABLES = (*MACHINE, DesktopOnGPU, UnifiedMemoryDevice, WindowsSubsystem, VersionPrinted)


class MachineTables:
    """Keeps the tables of files that hold no launch, for the launches that say nothing of their machine."""

    def __init__(self) -> None:
        self._tables: dict[int, list[Event]] = {}
        self._logs: set[int] = set()

    def take(self, events: Iterable[Event]) -> Iterator[Event]:
        """All events, in their order."""
        for event in events:
            if isinstance(event, _TABLES):
                self._tables.setdefault(event.line.file, []).append(event)
            yield event

    def give(self, launches: Sequence[Launch]) -> None:
        """Adds the tables to each launch that has none of its own, where all of them are of one kind of card."""
        logs = {event.line.file for launch in launches for event in (*launch.events, *launch.series.edges)}
        loose = [event for file, events in self._tables.items() if file not in logs for event in events]
        if not loose or len(_kinds(loose)) > 1:
            return
        for launch in launches:
            if not launch.has(*MACHINE):
                launch.events[:0] = loose


def _kinds(events: Iterable[Event]) -> set[str]:
    return {readable(event.name) for event in events if isinstance(event, DeviceNamed) and event.name}


@dataclass
class Card:
    """One card as a table shows it; what the table does not say is None."""

    gpu: int | None
    name: str | None = None
    total: Bytes | None = None
    used: Bytes | None = None
    lines: list[LogLine] = field(default_factory=list)


@dataclass
class Machine:
    """What the tables say: cards and processes in their order, the driver, the libraries' releases."""

    cards: list[Card] = field(default_factory=list)
    processes: list[CardProcess] = field(default_factory=list)
    driver: DriverPrinted | None = None
    libraries: list[LibraryPrinted] = field(default_factory=list)


def machine_of(launch: Launch) -> Machine | None:
    """The machine of a launch; None where no table tells. Of several tables in a log the last one counts."""
    found = Machine()
    named: Card | None = None  # whose memory stands on the row below its name
    for event in launch.each(*MACHINE):
        if isinstance(event, DeviceNamed):
            for number in _numbers(event):
                named = _card(found.cards, number)
                named.name = readable(event.name or "") or named.name
                named.lines = [*named.lines, event.line][-_LINES:]
        elif isinstance(event, CardTable):
            card = named if event.gpu is None else _card(found.cards, event.gpu)
            if card is None:
                card = _card(found.cards, len(found.cards))
                card.gpu = None  # a row without the one above it tells no number
            card.total, card.used = event.total or card.total, event.used if event.used is not None else card.used
            card.lines = [*card.lines, event.line][-_LINES:]
            named = None
        elif isinstance(event, CardProcess) and len(found.processes) < MOST_PROCESSES:
            found.processes.append(event)
        elif isinstance(event, DriverPrinted) and event.driver:
            found.driver = event
        elif isinstance(event, LibraryPrinted) and event.library and event.release:
            found.libraries.append(event)
    return found if found.cards or found.driver or found.libraries or found.processes else None


def _numbers(event: DeviceNamed) -> list[int]:
    return [int(number) for number in (event.gpus or "").split(",") if number.isdecimal() and len(number) < 4]


def _card(cards: list[Card], number: int) -> Card:
    for card in cards:
        if card.gpu == number:
            return card
    card = Card(number)
    if len(cards) < MOST_CARDS:
        cards.append(card)
    return card
