"""@rule, Case, Finding, Evidence, Remedy, Severity: the form of every rule."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kvdiag.diagnosis.cards import may_be_unified
from kvdiag.diagnosis.events.cuda_graph import GraphBegin, GraphEnd, GraphSizes
from kvdiag.diagnosis.events.kv_pool import DeepSeekV4Pools, PoolEnd, SlidingWindowPool
from kvdiag.diagnosis.events.overflow import DeviceOutOfMemory
from kvdiag.diagnosis.events.pattern import Event
from kvdiag.diagnosis.events.progress import CaptureProgress
from kvdiag.diagnosis.events.ready import ServerLimits
from kvdiag.diagnosis.events.weights import WeightsLoaded
from kvdiag.diagnosis.launches import Launch
from kvdiag.diagnosis.ledger.model import Entry, Ledger, Model, Moment, Reading
from kvdiag.diagnosis.ledger.sizing.unified import unified_device
from kvdiag.diagnosis.lines import LogLine
from kvdiag.diagnosis.outcome import Outcome
from kvdiag.diagnosis.rules.thresholds import DEFAULT_THRESHOLDS, Thresholds
from kvdiag.diagnosis.units import Bytes, to_gib

if TYPE_CHECKING:
    from kvdiag.diagnosis.ledger.sizing import Sizing


class Severity(StrEnum):
    """How much a finding matters; the order is that of the report."""

    CRITICAL = "critical"
    WARNING = "warning"
    ADVICE = "advice"
    INFO = "info"

    @property
    def weight(self) -> int:
        """0 for the worst."""
        return list(Severity).index(self)


class Confidence(StrEnum):
    """certain: the arithmetic closes; likely: the evidence fits one cause best; possible: it fits, among others."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


class Direction(StrEnum):
    """Which way to turn a knob."""

    RAISE = "raise"
    LOWER = "lower"
    SET = "set"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The line a figure came from; `value` in GiB, tokens or as printed."""

    line: LogLine
    figure: str = ""
    value: float | int | str | None = None


@dataclass(frozen=True, slots=True)
class Effect:
    """What a remedy changes one figure to, with the interval the print's rounding allows."""

    before: float | int | None
    after: float | int | None
    low: float | int | None = None
    high: float | int | None = None


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change, its effect and its cost.

    flag       a flag, an environment variable, "upgrade" or "container memory"
    effect     figure name ("kv_tokens", "free_gib", …) to Effect
    command    words of the launch command that go, and those that come; None where no value is named
    """

    flag: str
    direction: Direction
    to: str | None = None
    before: str | None = None
    effect: dict[str, Effect] = field(default_factory=dict)
    cost: str = ""
    note: str = ""
    command: tuple[tuple[str, ...], tuple[str, ...]] | None = None


def flags_beside(flag: str, to: str | None, added: Sequence[str]) -> str:
    """What the words that come into a command set beside a flag: "--dp-size 8"; "" where that flag is all."""
    own = (flag,) if to is None else (flag, to)
    return " ".join(added[len(own) :]) if tuple(added[: len(own)]) == own else ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause, with all its ranks.

    stake    orders findings of one severity: GiB per GPU at stake
    part_of  the id of the cause, where this is only its symptom or its consequence
    """

    summary: str
    evidence: tuple[Evidence, ...]
    ranks: tuple[str, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    confidence: Confidence = Confidence.CERTAIN
    severity: Severity | None = None  # the rule's own where None
    why: str = ""
    formula: str = ""
    stake: float = 0.0
    part_of: str = ""
    rule: str = ""


@dataclass(frozen=True, slots=True)
class Cleared:
    """A suspicion, or a printed piece of advice, why it does not hold, and the lines that show it."""

    claim: str
    because: str
    lines: tuple[LogLine, ...] = ()


class Case:
    """A launch, its ledgers, its sizing and the launches before and after it: all a rule may look at."""

    def __init__(
        self,
        launch: Launch,
        ledgers: Sequence[Ledger],
        outcome: Outcome,
        sizing: Sizing | None = None,
        earlier: Sequence[Case] = (),
        thresholds: Thresholds = DEFAULT_THRESHOLDS,
    ) -> None:
        self.thresholds = thresholds
        self.launch = launch
        self.ledgers = tuple(ledgers)
        self.outcome = outcome
        self.sizing = sizing
        self.earlier = tuple(earlier)
        self.later: tuple[Case, ...] = ()

    def ledger(self, rank: str) -> Ledger:
        """One rank's ledger."""
        return next(x for x in self.ledgers if x.rank == rank)

    @cached_property
    def limits(self) -> ServerLimits | None:
        """The summary line of the scheduler that has the fewest tokens."""
        found = self.launch.each(ServerLimits)
        known = [x for x in found if x.tokens is not None]
        return min(known, key=lambda x: x.tokens or 0) if known else None

    @property
    def tokens(self) -> int | None:
        """max_total_num_tokens, else the smallest full-attention pool of the target, as its own or its family's line
        has it."""
        if self.limits is not None:
            return self.limits.tokens
        pools = [x.kv_tokens for x in self.ledgers if x.kv_tokens is not None]
        pools = pools or [x.full_tokens for x in self.launch.each(SlidingWindowPool) if x.full_tokens is not None]
        last = self.launch.last(DeepSeekV4Pools)
        if not pools and last is not None and last.full is not None:
            pools = [last.full]
        return min(pools, default=None)

    @cached_property
    def context_length(self) -> int | None:
        """Tokens one request may use: the summary line's, else the argument's; None where that is no length."""
        if self.limits is not None and self.limits.context_len is not None:
            return self.limits.context_len if self.limits.context_len > 0 else None
        given = self.launch.number_of("context_length")
        return int(given) if given is not None and given >= 1 else None

    @cached_property
    def opening(self) -> Reading | None:
        """The smallest free memory before the target's weights."""
        found = [x.reading(Moment.WEIGHTS_BEGIN) for x in self.ledgers]
        return min((x for x in found if x is not None), key=lambda x: x.available, default=None)

    @cached_property
    def after_weights(self) -> Reading | None:
        """The smallest free memory after the target's weights."""
        found = [x.reading(Moment.WEIGHTS_END) for x in self.ledgers]
        return min((x for x in found if x is not None), key=lambda x: x.available, default=None)

    @cached_property
    def after_pool(self) -> Reading | None:
        """The smallest free memory after the target's pools."""
        found = [x.reading(Moment.POOL_END) for x in self.ledgers]
        return min((x for x in found if x is not None), key=lambda x: x.available, default=None)

    @cached_property
    def lowest(self) -> Ledger | None:
        """The rank that has least free memory at the end of its start."""
        done = [x for x in self.ledgers if x.closing is not None]
        return min(done, key=lambda x: x.closing.available if x.closing else 0, default=None)

    @cached_property
    def free_at_end(self) -> Reading | None:
        """Free memory at the end: available_gpu_mem, else the last reading after the last capture, of the lowest rank.

        None while the start has not come that far: after its pools alone only where the server got ready without one.
        """
        late = {Moment.CUDA_GRAPH_END, Moment.READY}
        if self.is_ready:
            late |= {Moment.POOL_END, Moment.CUDA_GRAPH_BEGIN}
        ends = [x.closing for x in self.ledgers if x.closing is not None and x.closing.moment in late]
        if not any(x.closing for x in self.ledgers):  # the summary's rank may not be one that printed a figure
            said = ((x.available, x.line) for x in self.launch.each(ServerLimits) if x.available is not None)
            ends = [Reading(Moment.READY, Model.TARGET, available, line) for available, line in said]
        return min(ends, key=lambda x: x.available, default=None)

    @property
    def goes_on_capturing(self) -> bool:
        """Whether the log ends within a capture that a rank begins after its last reading: less is then left."""
        if self.is_ready or self.launch.has(ServerLimits):
            return False
        return any(
            event.line.place > ledger.closing.line.place
            for ledger in self.ledgers
            if ledger.closing is not None
            for event in self.launch.each(GraphBegin, GraphSizes, rank=ledger.rank)
        )

    @property
    def has_graphs_after_end(self) -> bool:
        """Whether the last reading is from before a capture, so that less is free at the end than it says."""
        end = self.free_at_end
        early = end is not None and end.moment in (Moment.POOL_END, Moment.CUDA_GRAPH_BEGIN)
        return early and self.launch.has(GraphBegin, GraphEnd, CaptureProgress)

    @cached_property
    def opening_size(self) -> Bytes | None:
        """Free memory before loading on the rank that has least; where only the end of the load is printed, with what
        the load took."""
        if self.opening is not None:
            return self.opening.available
        pools = {e.rank: e.line.place for e in reversed(self.launch.each(PoolEnd))}
        loads = {e.rank: e for e in reversed(self.launch.each(WeightsLoaded))}  # a rank's second load is a draft's

        def after_pool(loaded: WeightsLoaded) -> bool:
            """A load after the rank's pool is a draft's."""
            first = pools.get(loaded.rank)
            return first is not None and first < loaded.line.place

        sums = [
            Bytes(loaded.available + loaded.used)
            for loaded in loads.values()
            if loaded.available is not None and loaded.used is not None and loaded.used > 0 and not after_pool(loaded)
        ]
        return min(sums, default=None)

    @cached_property
    def card(self) -> Bytes | None:
        """The card's size: the capacity that the log prints, else the free memory before loading."""
        return self.opening_size if self._capacity is None else self._capacity

    @cached_property
    def _capacity(self) -> Bytes | None:
        known = [x.capacity for x in self.ledgers if x.capacity is not None]
        known += [x.capacity for x in self.launch.each(DeviceOutOfMemory) if x.capacity is not None]
        return min(known, default=None)

    @cached_property
    def card_at_least(self) -> Bytes | None:
        """A lower bound of the card's size where the log tells neither: pools and readings that were there at once."""
        if self.card is not None:
            return self.card
        sums: list[int] = []
        for ledger in self.ledgers:
            after = ledger.reading(Moment.POOL_END)
            sums += [r.available for r in ledger.readings]
            if after is not None and ledger.kv_size is not None:
                sums.append(after.available + ledger.kv_size)
            if ledger.closing is not None and ledger.kv_size is not None:
                sums.append(ledger.closing.available + ledger.kv_size)
        return Bytes(max(sums)) if sums else None

    @property
    def wanted_free(self) -> Bytes | None:
        """Free memory wanted at the end; None where the card's size is not known."""
        return None if self.card is None else self.wanted_on(self.card)

    @property
    def wanted_range(self) -> tuple[Bytes, Bytes]:
        """The least and the most that may be wanted, given what the log tells of the card."""
        if self.card is not None:
            unnamed = self._capacity is None and may_be_unified(self.card)
            shared = unnamed or unified_device(self.launch) is not None
            return self.wanted_on(self.card), self.thresholds.wanted_on(self.card, shared)
        least = max(self.thresholds.free_wanted_least, self.wanted_on(self.card_at_least or Bytes(0)))
        return least, self.thresholds.free_wanted

    def wanted_on(self, card: Bytes) -> Bytes:
        """Free memory wanted on a card of this size."""
        return self.thresholds.wanted_on(card)

    @property
    def is_ready(self) -> bool:
        """Whether the launch came up."""
        return self.outcome.outcome == "ready"

    @cached_property
    def fraction(self) -> float | None:
        """mem_fraction_static in force: as printed, else SGLang's own where nothing speaks against it."""
        printed = self.launch.number_of("mem_fraction_static")
        if printed is not None or self.sizing is None or self.sizing.inputs.fraction_doubt:
            return printed
        return self.sizing.inputs.fraction


Check = Callable[[Case], Iterator[Finding]]
Absence = Callable[[Case], str | None]


@dataclass(frozen=True)
class Rule:
    """A rule as the registry holds it.

    sections  "What it sees", "Why it matters", "What to do", "Sources", from the module's docstring
    needs     events without which it cannot run
    releases  "first..last" examined release in which the cause exists; either end may be open
    unless    reasons why a launch has nothing that the rule is about
    """

    id: str
    title: str
    severity: Severity
    sections: dict[str, str]
    needs: tuple[type[Event], ...]
    releases: str | None
    check: Check
    unless: tuple[Absence, ...] = ()

    def idle_because(self, case: Case) -> str | None:
        """Why the rule has nothing to look at in this launch; None where it applies."""
        for absence in self.unless:
            reason = absence(case)
            if reason is not None:
                return reason
        if self.releases is not None:
            since, before = release_bounds(self.releases)
            known = case.launch.releases
            inside = known.within(since, before)
            if inside is False or (inside is None and not known.may(since, before)):
                return f"it is about releases {_bounds_in_words(self.releases)}, not {known}"
        return None


def release_bounds(releases: str) -> tuple[str, str | None]:
    """The first release of a range and the first one after it."""
    first, dots, last = releases.partition("..")
    last = last if dots else first
    if not last:
        return first or "0.1.0", None
    major, minor, patch = (int(x) for x in last.split("."))
    return first or "0.1.0", f"{major}.{minor}.{patch + 1}"


def _bounds_in_words(releases: str) -> str:
    """ "0.5.3.." as "from 0.5.3 on"."""
    first, dots, last = releases.partition("..")
    if first and last:
        return f"{first} to {last}"
    return releases if not dots else f"from {first} on" if first else f"up to {last}"


RULES: list[Rule] = []


def rule(
    *,
    severity: Severity,
    needs: Sequence[type[Event]] = (),
    releases: str | None = None,
    unless: Sequence[Absence] = (),
) -> Callable[[Check], Check]:
    """Register the decorated check under its file's name. Raises ValueError when the docstring lacks a section."""

    def register(check: Check) -> Check:
        module = sys.modules[check.__module__]
        title, sections = _sections(module.__doc__ or "")
        missing = [name for name in SECTIONS if name not in sections]
        if missing:
            raise ValueError(f"{check.__module__}: its docstring has no section {', '.join(missing)}")
        name = check.__module__.rsplit(".", 1)[-1].replace("_", "-").removeprefix("-")
        RULES.append(Rule(name, title, severity, sections, tuple(needs), releases, check, tuple(unless)))
        return check

    return register


SECTIONS = ("What it sees", "Why it matters", "What to do", "Sources")


def _sections(doc: str) -> tuple[str, dict[str, str]]:
    title, _, rest = doc.strip().partition("\n")
    sections: dict[str, str] = {}
    name = ""
    for line in rest.splitlines():
        if line.strip() in SECTIONS:
            name = line.strip()
            sections[name] = ""
        elif name:
            sections[name] = f"{sections[name]} {line.strip()}".strip() if line.strip() else f"{sections[name]}\n"
    return title.strip().rstrip("."), {key: text.strip() for key, text in sections.items()}


def cite(
    *sources: Event | Reading | Entry | LogLine | None, figure: str = "", value: Any = None
) -> tuple[Evidence, ...]:
    """The lines of events, readings and entries as evidence; absent ones are left out."""
    found: list[Evidence] = []
    for source in sources:
        match source:
            case Reading():
                found.append(Evidence(source.line, f"{source.moment.value} available_gib", to_gib(source.available, 4)))
            case Entry():
                found.extend(
                    Evidence(line, f"{source.pool.value} gib", to_gib(source.size, 4)) for line in source.lines
                )
            case Event():
                found.append(Evidence(source.line, figure, value))
            case LogLine():
                found.append(Evidence(source, figure, value))
    return tuple(found)


__all__ = [
    "Case",
    "Check",
    "Cleared",
    "Confidence",
    "Direction",
    "Effect",
    "Evidence",
    "Finding",
    "Model",
    "Remedy",
    "Rule",
    "rule",
]
