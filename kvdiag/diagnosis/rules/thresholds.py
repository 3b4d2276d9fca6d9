"""Every threshold of the rules, in one place: its unit, what it may be, and what it decides.

A case carries them, so that a team, a command line or a file may hold its own: `Thresholds.read()`.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kvdiag.diagnosis.ledger.sizing.inputs import FreeWanted
from kvdiag.diagnosis.units import GIB, Bytes


class Unit(StrEnum):
    """What a threshold counts. Sizes are given in GiB (2^30 bytes) and held in bytes."""

    GIB = "GiB"
    SHARE = "share"
    TIMES = "times"
    TOKENS = "tokens"
    REQUESTS = "requests"
    RETRACTIONS = "retractions"


_COUNTS = (Unit.TOKENS, Unit.REQUESTS, Unit.RETRACTIONS)


def _size(gib: float, least: float, most: float, meaning: str) -> Any:
    return _declared(Bytes(round(gib * GIB)), Unit.GIB, least, most, meaning)


def _share(value: float, meaning: str, most: float = 1.0) -> Any:
    return _declared(value, Unit.SHARE, 0.0, most, meaning)


def _times(value: float, least: float, most: float, meaning: str) -> Any:
    return _declared(value, Unit.TIMES, least, most, meaning)


def _count(value: int, unit: Unit, least: int, most: int, meaning: str) -> Any:
    return _declared(value, unit, least, most, meaning)


def _declared(default: Any, unit: Unit, least: float, most: float, meaning: str) -> Any:
    return dataclasses.field(default=default, metadata={"unit": unit, "least": least, "most": most, "meaning": meaning})


@dataclass(frozen=True, slots=True)
class Threshold:
    """One threshold as it is shown: sizes in GiB, shares from 0 to 1, the others as counts."""

    name: str
    unit: Unit
    value: float | int
    default: float | int
    least: float
    most: float
    meaning: str

    @property
    def is_overridden(self) -> bool:
        """Whether somebody holds another value than kvdiag's own."""
        return self.value != self.default

    def told(self, value: float | int) -> str:
        """A value with its unit: "5 GiB", "0.85", "2.4 times"."""
        number = f"{value:,}" if isinstance(value, int) else f"{value:g}"
        return number if self.unit is Unit.SHARE else f"{number} {self.unit.value}"


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Sizes in bytes, shares from 0 to 1, tokens and requests as counts."""

    # what should be free at the end of a start
    free_wanted: Bytes = _size(5, 0.1, 64, "free memory wanted at the end on a card of `free_wanted_card` and more")
    free_wanted_card: Bytes = _size(
        60, 8, 1024, "the smallest card on which all of `free_wanted` is wanted; less below"
    )
    free_wanted_least: Bytes = _size(1.5, 0, 64, "never less is wanted, or a fifth of a smaller card")
    free_wanted_shared: float = _share(0.2, "of a memory that host and GPU share, wanted free there at the end")
    thin_share: float = _share(0.5, "less than this share of what is wanted is thin")
    room_share: float = _times(2.4, 1, 100, "more than this multiple of what is wanted is room to use")

    # sizes and shares that are worth a word
    memory_is_short: Bytes = _size(1, 0.01, 16, "an error with less free than this may be a shortage in disguise")
    graphs_large: Bytes = _size(3, 0.1, 256, "graphs that take as much in all are named")
    graphs_share_named: Bytes = _size(1, 0.01, 256, "a kind of graph that takes as much is named among the remedies")
    non_torch_large: Bytes = _size(4, 0.1, 256, "memory outside PyTorch's allocator from here on is named")
    weights_near_limit: float = _share(0.85, "weights that fill more of the free memory leave little for the rest")
    weights_multiple: float = _times(1.6, 1.05, 100, "weights as many times what the checkpoint makes expect are large")
    weights_slack: float = _times(2.25, 1, 20, "of the wanted free memory, that a start needs beside weights and pool")
    pool_takes_share: float = _share(0.85, "a pool that takes more of what was free before it takes all slack")
    pool_tiny_tokens: int = _count(8_192, Unit.TOKENS, 1, 10**9, "a pool of as few tokens is tiny")
    large_prefill_tokens: int = _count(4_096, Unit.TOKENS, 1, 10**9, "new tokens that make a prefill batch a large one")
    workload_share: float = _share(0.5, "of the pool, that the request limit can use at most before it is oversized")
    state_share: float = _times(0.6, 0.01, 100, "a state pool of as many times the KV pool is large")
    default_moved: Bytes = _size(1, 0.01, 256, "memory that a changed default moves between two starts to be named")
    prefill_graph_share: Bytes = _size(1, 0.01, 256, "memory set aside for prefill graphs to be named")

    # fractions
    auto_fraction_low: float = _share(0.5, "an automatic fraction up to here is unusually low")
    fractions_apart: float = _share(0.05, "two fractions as near as this leave no feasible one between them")
    fraction_hopeless: float = _share(0.97, "a minimum above this leaves nothing to run in")

    # ranks and stages
    rank_spread: Bytes = _size(1, 0.01, 256, "ranks that differ by less are alike")
    rank_spread_share: float = _share(0.02, "of the card: big cards may differ by more")
    stage_spread: float = _share(0.12, "of the weights, by which pipeline stages differ when whole layers do")

    # figures that should agree
    reserve_excess: Bytes = _size(1, 0.01, 256, "free after the pool above the reserve: something counted came back")
    reserve_excess_share: float = _share(0.05, "of the memory before loading, as `reserve_excess` on big cards")
    came_back_share: float = _share(0.04, "of the memory before loading: less moves from start to start")
    reserve_closes: Bytes = _size(
        0.13, 0.001, 16, "between the reserve and what is free after the pool, when it closes"
    )
    returned_memory: Bytes = _size(0.25, 0.01, 256, "free memory that rises while a draft's pool is built")
    memory_fell: Bytes = _size(0.5, 0.01, 256, "memory that is gone between two readings without an entry")
    fragmentation_block: Bytes = _size(0.25, 0.001, 256, "unused memory of the allocator below this lies about anyway")

    # other processes and platforms
    trainer_request: Bytes = _size(8, 0.1, 1024, "one request of a trainer from here on is its full-vocabulary tensor")
    foreign_memory: Bytes = _size(2, 0.01, 1024, "memory of another process, beyond a context")
    context_least: Bytes = _size(0.3, 0.01, 16, "a CUDA context and what comes with it, at least")
    context_most: Bytes = _size(3, 0.01, 64, "a CUDA context and what comes with it, at most")
    desktop_least: Bytes = _size(1, 0.01, 16, "what a desktop holds, at least")
    shared_card_share: float = _share(0.25, "of a card; a second process with as much is another rank's")
    bogus_request: Bytes = _size(1024, 64, 2**30, "a single request from here on is a corrupted size")

    # serving
    retractions: int = _count(2, Unit.RETRACTIONS, 1, 10**6, "as many make a storm")
    usage_full: float = _share(0.995, "a pool used to this share is full")
    usage_high: float = _share(0.9, "a pool used to this share is nearly full")
    usage_idle: float = _share(0.05, "usage above this with no request and no prefix cache is leaked")
    swa_idle: float = _share(0.1, "a window pool used to less than this is idle")
    small_page_tokens: int = _count(16, Unit.TOKENS, 1, 4096, "below this page size rounding is no matter")
    many_requests: int = _count(200, Unit.REQUESTS, 1, 10**6, "as many small requests make page rounding matter")
    rounding_loss: float = _share(0.05, "of the pool, lost to page rounding, to be named")
    crowded_tokens: int = _count(
        65_536, Unit.TOKENS, 1, 10**9, "as many tokens received at once are many batches' worth"
    )
    crowded_share: float = _times(2, 1, 1000, "an expert's even share, that the fullest one gets when it is crowded")

    @classmethod
    def read(cls, given: Mapping[str, object]) -> Thresholds:
        """Some thresholds by name, the others as they are; values as numbers or text, sizes in GiB.

        Raises ValueError with a sentence on a name that is none and on a value that cannot be meant.
        """
        fields = {field.name: field for field in dataclasses.fields(cls)}
        values: dict[str, Any] = {}
        for name, value in given.items():
            if name not in fields:
                raise ValueError(_no_such(str(name), list(fields)))
            values[name] = _value(name, value, fields[name].metadata)
        found = dataclasses.replace(cls(), **values)
        found._check(set(values))
        return found

    def each(self) -> list[Threshold]:
        """All of them with their default, in the order of this file."""
        found = []
        for field in dataclasses.fields(self):
            about = field.metadata
            value, own = (_shown(x, about["unit"]) for x in (getattr(self, field.name), _own(field)))
            found.append(
                Threshold(field.name, about["unit"], value, own, about["least"], about["most"], about["meaning"])
            )
        return found

    def overridden(self) -> list[Threshold]:
        """Those that differ from kvdiag's own."""
        return [one for one in self.each() if one.is_overridden]

    def to_document(self) -> list[dict[str, Any]]:
        """The overridden ones for the report: name, value, default, unit, meaning."""
        return [
            {"name": x.name, "value": x.value, "default": x.default, "unit": x.unit.value, "meaning": x.meaning}
            for x in self.overridden()
        ]

    @property
    def wanted(self) -> FreeWanted:
        """Free memory wanted at the end, in GiB, as the sizing needs it."""
        full, card, least = self.free_wanted / GIB, self.free_wanted_card / GIB, self.free_wanted_least / GIB
        return FreeWanted(full, card, least, self.thin_share, self.free_wanted_shared)

    def wanted_on(self, card: Bytes, unified: bool = False) -> Bytes:
        """Free memory wanted at the end on a card of this size; more where the host lives in the same memory."""
        return Bytes(round(self.wanted.on(card / GIB, unified) * GIB))

    def _check(self, given: set[str]) -> None:
        shown = {one.name: one for one in self.each()}
        for low, high in _ORDERED:
            if given & {low, high} and getattr(self, low) > getattr(self, high):
                one, other = shown[low], shown[high]
                raise ValueError(
                    f"{low} ({one.told(one.value)}) is more than {high} ({other.told(other.value)}):"
                    f" give both so that {low} is the smaller"
                )


_ORDERED = (
    ("free_wanted_least", "free_wanted"),
    ("context_least", "context_most"),
    ("auto_fraction_low", "fraction_hopeless"),
    ("usage_high", "usage_full"),
)
_NUMBER = re.compile(r"([+-]?(?:\d[\d_,]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(GiB|GB|MiB|MB|%)?", re.IGNORECASE)


def _own(field: dataclasses.Field[Any]) -> Any:
    """kvdiag's own value of a threshold."""
    return field.default


def _shown(value: float | int, unit: Unit) -> float | int:
    """As it is given: a size in GiB to four decimals, whole where it is whole."""
    if unit in _COUNTS:
        return int(value)
    number = round(value / GIB, 4) if unit is Unit.GIB else float(value)
    return int(number) if unit is Unit.GIB and number == int(number) else number


def _no_such(name: str, known: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name.strip().lower().replace("-", "_"), known, n=3, cutoff=0.5)
    near = near or [x for x in known if set(name.lower().split("_")) & set(x.split("_"))][:3]
    hint = f": did you mean {', '.join(near)}?" if near else "; docs/rules/thresholds.md lists them"
    return f"no threshold is called {name[:60]!r}{hint}"


def _value(name: str, given: object, about: Mapping[str, Any]) -> Any:
    """A value in the field's own unit. Raises ValueError with a sentence."""
    unit: Unit = about["unit"]
    wanted = {Unit.GIB: "a size in GiB", Unit.SHARE: "a share from 0 to 1", Unit.TIMES: "a number"}
    kind = wanted.get(unit, f"a whole number of {unit.value}")
    number = _number(given, unit)
    if number is None or (unit in _COUNTS and number != int(number)):
        raise ValueError(f"{name} is {kind}, not {str(given)[:40]!r}")
    if not about["least"] <= number <= about["most"]:
        ends = f"{about['least']:,g} and {about['most']:,g}" + (" GiB" if unit is Unit.GIB else "")
        raise ValueError(f"{name} lies between {ends}, not at {str(given)[:40]}")
    if unit is Unit.GIB:
        return Bytes(round(number * GIB))
    return int(number) if unit in _COUNTS else number


def _number(given: object, unit: Unit) -> float | None:
    """The number that a value means; None where it is none, or of another unit."""
    if isinstance(given, bool):
        return None
    if isinstance(given, int | float):
        number, suffix = float(given), ""
    else:
        found = _NUMBER.fullmatch(str(given).strip()) if isinstance(given, str) and len(given) < 60 else None
        if found is None:
            return None
        number, suffix = float(found[1].replace(",", "").replace("_", "")), (found[2] or "").lower()
    if not math.isfinite(number):
        return None
    match suffix, unit:
        case "", _:
            return number
        case (("gib" | "gb"), Unit.GIB):
            return number
        case (("mib" | "mb"), Unit.GIB):
            return number / 1024
        case "%", (Unit.SHARE | Unit.TIMES):
            return number / 100
    return None


DEFAULT_THRESHOLDS = Thresholds()
