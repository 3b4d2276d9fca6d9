"""Event, @read_from and the matcher: the one place where a line becomes a typed fact.

An event and the lines it is read from are declared together. A phrase finds the line; each field is sought on its
own, so that SGLang may add or reorder `key=value` parts without harm.
"""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import regex

from kvdiag.diagnosis.lines import LogLine
from kvdiag.diagnosis.units import Bytes, read_decimal_gb, read_size

TIMEOUT_S = 1.0  # of one expression on one line; logs come from strangers

# Field expressions shared by the declarations. A size has two groups, number and unit, or one (then GB, meaning 2^30).
NUMBER = r"(-?\d[\d_,]*)"
DECIMAL = r"(-?\d+(?:\.\d+)?(?:e-?\d+)?)"
GIB = r"(-?\d+(?:\.\d+)?(?:e-?\d+)?) ?GB"
SIZE = r"(-?\d+(?:\.\d+)?) ?(bytes|[KMGTPE]i?B)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One typed fact and the line it was read from."""

    line: LogLine

    @property
    def rank(self) -> str:
        """The rank that printed it, as its prefix spells it."""
        return self.line.rank


E = TypeVar("E", bound=Event)
Reader = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class DecimalGB:
    """A field printed in units of 10^9 bytes."""

    pattern: str


FieldPattern = str | DecimalGB


class Expression:
    """A regular expression that is compiled when it is first needed: hundreds stand in the declarations."""

    __slots__ = ("_compiled", "pattern")

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._compiled: regex.Pattern[str] | None = None

    def search(self, text: str) -> regex.Match[str] | None:
        """The first match in the text. Raises TimeoutError after TIMEOUT_S."""
        if self._compiled is None:
            self._compiled = regex.compile(self.pattern)
        return self._compiled.search(text, timeout=TIMEOUT_S)


@dataclass(frozen=True)
class Declaration:
    """How one wording of an event is recognised and read.

    phrase    expression that finds the line; `literals` are what the scanner looks for, one of which every match has
    excludes  texts whose presence makes the line another event's
    samples   lines it reads, each with the releases that print it
    source    module and function that print it
    releases  first and last examined release with this wording
    dense     a batch line: the bulk of a serving log, counted and sampled rather than kept
    """

    event: type[Event]
    phrase: Expression
    literals: tuple[str, ...]
    fields: Mapping[str, tuple[Expression, Reader]]
    samples: tuple[str, ...]
    source: str
    releases: str | None
    excludes: tuple[str, ...]
    constants: Mapping[str, Any]
    dense: bool

    def read(self, line: LogLine) -> Event | None:
        """The event on this line, or None where the phrase is not there."""
        text = line.text
        if not any(literal in text for literal in self.literals) or any(x in text for x in self.excludes):
            return None
        if not self.phrase.search(text):
            return None
        values: dict[str, Any] = dict(self.constants)
        for name, (pattern, convert) in self.fields.items():
            found = pattern.search(text)
            values[name] = convert(found) if found else None
        return self.event(line=line, **values)


DECLARATIONS: list[Declaration] = []


def read_from(
    phrase: str,
    *,
    fields: Mapping[str, FieldPattern] | None = None,
    samples: Iterable[str],
    source: str,
    releases: str | None = None,
    literals: Iterable[str] = (),
    excludes: Iterable[str] = (),
    constants: Mapping[str, Any] | None = None,
    dense: bool = False,
) -> Callable[[type[E]], type[E]]:
    """Declare a wording of the decorated event. Raises ValueError when no literal of three characters can be found."""

    def declare(event: type[E]) -> type[E]:
        found = tuple(literals) or literals_of(phrase)
        if not found or any(len(text) < 3 for text in found):
            raise ValueError(f"{event.__name__}: the phrase {phrase!r} has no literal that the scanner could look for")
        hints = typing.get_type_hints(event)
        compiled = {
            name: (
                Expression(pattern.pattern if isinstance(pattern, DecimalGB) else pattern),
                _converter(hints[name], isinstance(pattern, DecimalGB)),
            )
            for name, pattern in (fields or {}).items()
        }
        DECLARATIONS.append(
            Declaration(
                event=event,
                phrase=Expression(phrase),
                literals=found,
                fields=compiled,
                samples=tuple(samples),
                source=source,
                releases=releases,
                excludes=tuple(excludes),
                constants=constants or {},
                dense=dense,
            )
        )
        return event

    return declare


def literals_of(phrase: str) -> tuple[str, ...]:
    """The longest plain text that every match of a flat expression contains; () when there is none."""
    if "|" in phrase:
        return ()
    plain = re.sub(r"\\([.\-+*?()\[\]{}|^$/=:#'\" ,])", lambda m: f"\0{ord(m[1]):04x}", phrase)
    plain = re.sub(r"\[[^\]]*\][*+?]?(?:\{[^}]*\})?|\([^()]*\)[*+?]?|\\[a-zA-Z][*+?]?|.[*?]|[.^$]\+?", "\1", plain)
    runs = [re.sub("\0([0-9a-f]{4})", lambda m: chr(int(m[1], 16)), run) for run in plain.split("\1")]
    best = max(runs, key=len, default="")
    return (best,) if len(best) >= 3 else ()


def _converter(hint: Any, decimal: bool) -> Reader:
    kinds = [k for k in typing.get_args(hint) if k is not type(None)] if _is_optional(hint) else [hint]
    kind = kinds[0]
    if kind is Bytes:
        if decimal:
            return lambda m: read_decimal_gb(m[1])
        return lambda m: read_size(m[1], m[2] if len(m.groups()) > 1 and m[2] else "GB")
    if kind is int:
        return lambda m: _integer(m[1])
    if kind is float:
        return lambda m: _real(m[1])
    if kind is bool:
        return lambda m: m[1].lower() in ("true", "1", "yes")
    if typing.get_origin(kind) is tuple:
        return lambda m: tuple(n for n in (_integer(x) for x in m[1].split(",") if x.strip()) if n is not None)
    return lambda m: next((group.strip() for group in m.groups() if group is not None), None)


def _is_optional(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def _integer(text: str) -> int | None:
    digits = text.replace("_", "").replace(",", "").strip()
    try:
        return int(digits) if len(digits) <= 20 else None
    except ValueError:
        return None


def _real(text: str) -> float | None:
    try:
        return float(text) if len(text) <= 40 else None
    except ValueError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotUnderstood(Event):
    """A line that speaks of memory and that no declaration reads: a renamed message announces itself."""

    MENTIONS: ClassVar[tuple[str, ...]] = ("avail mem=", "mem usage=", "KV Cache", "max_total_num_tokens=")


@dataclass
class Matcher:
    """All declarations as one reader of lines."""

    declarations: list[Declaration] = field(default_factory=lambda: DECLARATIONS)

    @property
    def phrases(self) -> list[bytes]:
        """What the scanner looks for, batch lines aside."""
        found = {x for d in self.declarations if not d.dense for x in d.literals} | set(NotUnderstood.MENTIONS)
        return sorted(text.encode() for text in found)

    @property
    def dense(self) -> list[bytes]:
        """The phrases of batch lines."""
        return sorted({x.encode() for d in self.declarations if d.dense for x in d.literals})

    def claims(self, line: LogLine) -> list[tuple[Declaration, Event]]:
        """Every declaration that reads this line; more than one is a mistake in the declarations."""
        found = []
        for declaration in self.declarations:
            try:
                event = declaration.read(line)
            except TimeoutError:
                continue
            if event is not None:
                found.append((declaration, event))
        return found

    def read(self, lines: Iterable[LogLine]) -> Iterator[Event]:
        """Lines to events; a line of memory that nothing reads becomes NotUnderstood."""
        for line in lines:
            claims = self.claims(line)
            if claims:
                for _, event in claims:
                    yield event
            elif any(text in line.text for text in NotUnderstood.MENTIONS):
                yield NotUnderstood(line=line)


def field_names(event: type[Event]) -> list[str]:
    """The fields of an event class, its line aside."""
    return [f.name for f in dataclasses.fields(event) if f.name != "line"]
