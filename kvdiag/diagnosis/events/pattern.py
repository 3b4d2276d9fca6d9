"""Event, @read_from and the matcher: the one place where a line becomes a typed fact.

An event and the lines it is read from are declared together. A phrase finds the line; each field is sought on its
own, so that SGLang may add or reorder `key=value` parts without harm.
"""

from __future__ import annotations

import math
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar, dataclass_transform

from kvdiag.diagnosis.events.expression import (
    AMOUNT,
    COUNT,
    DECIMAL,
    GIB,
    MIB,
    NUMBER,
    SIZE,
    SIZES,
    TIMEOUT_S,
    WORD,
    Expression,
    expression,
    plain,
)
from kvdiag.diagnosis.lines import LogLine
from kvdiag.diagnosis.scanner import Scanner, scanner_for
from kvdiag.diagnosis.units import Bytes, read_decimal_gb, read_size

PATIENCE = 8  # expressions that were given up, after which a long line is not read
_LONG = 4 << 10  # characters
_OF_FIGURES = "0123456789.,_+-"
_EXCERPT = 40  # lines that people copy out of a log: the last of them is whole more often than cut
_OPEN_ENDS = ("+)", "*)", "\\w)")  # of an expression: what it finds may go on


@dataclass_transform(kw_only_default=True, frozen_default=True)
class _Fact:
    """Fields by annotation, as a frozen dataclass has them; a hundred dataclasses would take longer to make than a
    log to read. Facts are equal when they are the same one."""

    FIELDS: ClassVar[tuple[str, ...]] = ()
    _defaults: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        own = [name for name, hint in cls.__dict__.get("__annotations__", {}).items() if "ClassVar" not in str(hint)]
        cls.FIELDS = (*cls.FIELDS, *(name for name in own if name not in cls.FIELDS))
        cls._defaults = {**cls._defaults, **{name: cls.__dict__[name] for name in own if name in cls.__dict__}}

    def __init__(self, **values: Any) -> None:
        # Attribute by attribute, in one order: so their names are kept once a class, and not in every one of the
        # tens of thousands of facts that a large deployment prints.
        for name in self.FIELDS:
            if name in values:
                object.__setattr__(self, name, values[name])
            elif name in self._defaults:
                object.__setattr__(self, name, self._defaults[name])
        if (wrong := values.keys() ^ self.FIELDS) - self._defaults.keys():
            raise TypeError(f"{type(self).__name__}: fields missing or unknown: {', '.join(sorted(wrong))}")

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __repr__(self) -> str:
        held = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.FIELDS if name != "line")
        return f"{type(self).__name__}({held})"


class Event(_Fact):
    """One typed fact and the line it was read from."""

    line: LogLine

    @property
    def rank(self) -> str:
        """The rank that printed it, as its prefix spells it."""
        return self.line.rank

    @property
    def releases(self) -> str | None:
        """First and last examined release whose wording its line has; None where the declaration does not tell."""
        found: str | None = getattr(self, "_releases", None)
        return found

    @property
    def is_partial(self) -> bool:
        """Whether the log is cut within its line, before a figure that some release prints there."""
        return getattr(self, "_is_partial", False)


E = TypeVar("E", bound=Event)
Reader = Callable[[Any], Any]
Parse = Callable[[str], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class DecimalGB:
    """A field printed in units of 10^9 bytes."""

    pattern: str


@dataclass(frozen=True, slots=True)
class ByteCount:
    """A field printed as a bare number of bytes."""

    pattern: str


@dataclass(frozen=True, slots=True)
class InMiB:
    """A field printed as a bare number of MiB, with no unit beside it."""

    pattern: str


@dataclass(frozen=True, slots=True)
class Every:
    """A field that takes all matches rather than the first."""

    pattern: str


FieldPattern = str | DecimalGB | ByteCount | InMiB | Every


class Declaration:
    """How one wording of an event is recognised and read.

    phrase    expression that finds the line; `literals` are what the scanner looks for, one of which every match has
    excludes  texts whose presence makes the line another event's
    samples   lines it reads, each with the releases that print it ("" where no release of SGLang does)
    source    module and function that print it
    releases  first and last examined release with this wording
    dense     a batch line: the bulk of a serving log, counted and sampled rather than kept
    parse     reads all fields at once, where a line is too frequent for one search a field
    fallback  reads only what no other declaration reads
    alone     a line that begins with one of the literals is this and nothing else, so that none other need be tried:
              progress bars and batch lines come in their ten thousands
    opening   looked for only where a text begins: what is of use where the lines before it are missing
    """

    __slots__ = (
        "_fields",
        "_patterns",
        "_plain",
        "alone",
        "constants",
        "dense",
        "event",
        "excludes",
        "fallback",
        "literals",
        "opening",
        "parse",
        "phrase",
        "releases",
        "sampled",
        "source",
    )

    def __init__(
        self,
        event: type[Event],
        phrase: str,
        literals: tuple[str, ...],
        patterns: Mapping[str, FieldPattern],
        sampled: tuple[tuple[str, str], ...],
        source: str,
        releases: str | None,
        excludes: tuple[str, ...] = (),
        constants: Mapping[str, Any] | None = None,
        dense: bool = False,
        parse: Parse | None = None,
        fallback: bool = False,
        alone: bool = False,
        opening: bool = False,
    ) -> None:
        self.event = event
        self.phrase: Expression = expression(phrase)
        self.literals = literals
        self.sampled = sampled
        self.source = source
        self.releases = releases
        self.excludes = excludes
        self.constants: Mapping[str, Any] = constants or {}
        self.dense = dense
        self.parse = parse
        self.fallback = fallback
        self.alone = alone or dense
        self.opening = opening
        self._patterns = patterns
        self._fields: list[tuple[str, Reader]] | None = None
        # A phrase of plain text, or of several, is found by its literals alone.
        self._plain = all(plain(part) in literals for part in phrase.split("|"))

    @property
    def samples(self) -> tuple[str, ...]:
        """The lines it is tested with."""
        return tuple(text for _, text in self.sampled)

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields it reads."""
        return (*self._patterns, *self.constants)

    def read(self, line: LogLine) -> Event | None:
        """The event on this line, or None where the phrase is not there. Raises TimeoutError."""
        text = line.text
        if not any(literal in text for literal in self.literals):
            return None
        return self.read_candidate(line, text)

    def read_candidate(self, line: LogLine, text: str) -> Event | None:
        """As `read`, of a line that is known to hold one of the literals."""
        if self.excludes and any(x in text for x in self.excludes):
            return None
        if not self._plain and not self.phrase.search(text):
            return None
        if self.parse is not None:
            # The parser gives every field: nothing is left to check on a line of which there are a hundred thousand.
            values = self.parse(text[: text.rfind(", ")] if line.is_glued and ", " in text else text)
            values["line"] = line
            event = self.event.__new__(self.event)
            object.__setattr__(event, "__dict__", values)
            return event
        values = dict[str, Any].fromkeys(self.event.FIELDS[1:])
        values.update(self.event._defaults)
        values.update(self.constants)
        if self._fields is None:
            self._fields = self._readers()
        is_cut = line.is_cut and (line.is_glued or line.number > _EXCERPT or self._ends_open(text))
        ended = _ended(text) if is_cut else text
        for name, read in self._fields:
            found = read(ended)
            if found is not None:
                values[name] = found
        if is_cut:
            values.update(self._at_cut(text, ended))
        event = self.event(line=line, **values)
        object.__setattr__(event, "_releases", self.releases)
        if line.is_cut and self._goes_on(ended) and (is_cut or not self._is_whole(text)):
            object.__setattr__(event, "_is_partial", True)
        return event

    def _at_cut(self, text: str, ended: str) -> dict[str, Any]:
        """Where the log is cut within the line: no word that may have gone on, and the rest of the line as it is."""
        found: dict[str, Any] = {}
        for name, read in self._fields or ():
            wanted = _worded(self._patterns[name])
            if wanted.endswith(".*)"):
                found[name] = read(text)
            elif isinstance(self._patterns[name], Every):
                found[name] = None
            elif wanted.endswith(_OPEN_ENDS):
                match = expression(wanted).search(ended)
                if match is not None and match.span()[1] == len(text):
                    found[name] = None
        return found

    def _ends_open(self, text: str) -> bool:
        """Whether a text without a line end stops within a field.

        It does where it stops with one, and no sample of the same fields stops there.
        """
        last, order = self._last(text), self._order(text)
        return bool(last) and not any(
            last & self._last(sample) and order == self._order(sample) for sample in self.samples
        )

    def _last(self, text: str) -> set[str]:
        """The fields that a text stops with."""
        text = text.rstrip()
        matches = ((name, expression(_worded(pattern)).search(text)) for name, pattern in self._patterns.items())
        return {name for name, match in matches if match is not None and match.span()[1] == len(text)}

    def _is_whole(self, text: str) -> bool:
        """Whether a text stops as a sample does."""
        end = text.rstrip()[-3:]
        return any(
            sample.rstrip()[-3:] == end and self._order(sample)[-1:] == self._order(text)[-1:]
            for sample in self.samples
        )

    def _goes_on(self, text: str) -> bool:
        """Whether a sample has a field behind the last one that the text has."""
        order = self._order(text)
        samples = [self._order(sample) for sample in self.samples]
        if not order:
            return any(samples)
        return any(order[-1] in sample and sample[-1] != order[-1] for sample in samples)

    def _order(self, text: str) -> list[str]:
        """The fields that a text has, as they stand in it."""
        places = ((name, expression(_worded(pattern)).search(text)) for name, pattern in self._patterns.items())
        return [name for _, name in sorted((found.span()[0], name) for name, found in places if found is not None)]

    def _readers(self) -> list[tuple[str, Reader]]:
        hints = typing.get_type_hints(self.event)
        return [(name, _reader(pattern, hints[name])) for name, pattern in self._patterns.items()]


DECLARATIONS: list[Declaration] = []


def read_from(
    phrase: str,
    *,
    fields: Mapping[str, FieldPattern] | None = None,
    samples: Iterable[str] | Mapping[str, str | tuple[str, ...]],
    source: str,
    releases: str | None = None,
    literals: Iterable[str] = (),
    excludes: Iterable[str] = (),
    constants: Mapping[str, Any] | None = None,
    dense: bool = False,
    parse: Parse | None = None,
    fallback: bool = False,
    alone: bool = False,
    opening: bool = False,
) -> Callable[[type[E]], type[E]]:
    """Declare a wording of the decorated event.

    `samples` are lines, or lines by the releases that print them ("0.4.3..0.5.8"); `releases` then follow from them.
    Raises ValueError when no literal of three characters can be found, or a field is unknown.
    """

    def declare(event: type[E]) -> type[E]:
        found = tuple(literals) or literals_of(phrase)
        if not found or any(len(text) < 3 for text in found):
            raise ValueError(f"{event.__name__}: the phrase {phrase!r} has no literal that the scanner could look for")
        unknown = (set(fields or {}) | set(constants or {})) - set(event.FIELDS)
        if unknown:
            raise ValueError(f"{event.__name__} has no field {', '.join(sorted(unknown))}")
        sampled = _sampled(samples, releases)
        DECLARATIONS.append(
            Declaration(
                event,
                phrase,
                found,
                fields or {},
                sampled,
                source,
                releases or _span([when for when, _ in sampled]),
                tuple(excludes),
                constants,
                dense,
                parse,
                fallback,
                alone,
                opening,
            )
        )
        return event

    return declare


def _sampled(
    samples: Iterable[str] | Mapping[str, str | tuple[str, ...]], releases: str | None
) -> tuple[tuple[str, str], ...]:
    if not isinstance(samples, Mapping):
        return tuple((releases or "", text) for text in samples)
    return tuple(
        (when, text) for when, texts in samples.items() for text in ((texts,) if isinstance(texts, str) else texts)
    )


def _span(ranges: list[str]) -> str | None:
    """From the first release of the ranges to the last; None where a wording is of no release."""
    if not all(ranges):
        return None
    ends = [end for when in ranges for end in (when.partition("..")[0], when.rpartition("..")[2])]
    if not ends:
        return None
    ordered = sorted(ends, key=lambda text: [int(x) for x in re.findall(r"\d+", text)])
    return f"{ordered[0]}..{ordered[-1]}"


def literals_of(phrase: str) -> tuple[str, ...]:
    """Texts one of which every match of a flat expression contains; () when there are none."""
    if "|" in phrase:
        parts = [plain(part) for part in phrase.split("|")]
        return tuple(part for part in parts if part) if all(parts) else ()
    whole = plain(phrase)
    if whole:
        return (whole,)
    text = re.sub(r"\\([.\-+*?()\[\]{}|^$/=:#'\" ,])", lambda m: f"\0{ord(m[1]):04x}", phrase)
    text = re.sub(r"\[[^\]]*\][*+?]?(?:\{[^}]*\})?|\([^()]*\)[*+?]?|\\[a-zA-Z][*+?]?|.[*?]|[.^$]\+?", "\1", text)
    runs = [re.sub("\0([0-9a-f]{4})", lambda m: chr(int(m[1], 16)), run) for run in text.split("\1")]
    best = max(runs, key=len, default="")
    return (best,) if len(best) >= 3 else ()


# Fields


def _reader(pattern: FieldPattern, hint: Any) -> Reader:
    """From a line's text to the field's value; None where the line has none."""
    if isinstance(pattern, Every):
        return _every(pattern.pattern, hint)
    search = expression(_worded(pattern))
    convert = _converter(hint, pattern)

    def read(text: str) -> Any:
        found = search.search(text)
        return None if found is None else convert(found)

    return read


def _worded(pattern: FieldPattern) -> str:
    """The expression of a field. "type=" must not be found at the end of "dtype="."""
    wanted = pattern if isinstance(pattern, str) else pattern.pattern
    return rf"\b{wanted}" if re.match(r"\w+=", wanted) else wanted


def _ended(text: str) -> str:
    """A text within which the log is cut, without the figure at its end: 15 may be the begin of 159277."""
    ended = text.rstrip(_OF_FIGURES)
    return ended[:-1].rstrip(_OF_FIGURES) if re.search(r"\d[eE]\Z", ended[-2:]) else ended


def _every(pattern: str, hint: Any) -> Reader:
    """All matches of a pattern: of sizes as Bytes, of whole numbers as int, else as text."""
    of = str(hint)

    def read(text: str) -> Any:
        import regex

        found = regex.compile(pattern).findall(text, timeout=TIMEOUT_S)[:64]
        if "Bytes" in of:
            sizes = (read_size(*(x if isinstance(x, tuple) else (x, "GB"))) for x in found)
            return tuple(x for x in sizes if x is not None) or None
        if "int" in of:
            return tuple(n for n in map(_integer, found) if n is not None) or None
        return tuple(found) or None

    return read


def _converter(hint: Any, pattern: FieldPattern) -> Reader:
    kinds = [k for k in typing.get_args(hint) if k is not type(None)] if _is_optional(hint) else [hint]
    kind = kinds[0]
    if kind is Bytes:
        match pattern:
            case DecimalGB():
                return lambda m: read_decimal_gb(m[1])
            case ByteCount():
                return lambda m: read_size(m[1].replace(",", ""), "bytes")
            case InMiB():
                return lambda m: read_size(m[1], "MiB")
        return lambda m: read_size(m[1], m[2] if len(m.groups()) > 1 and m[2] else "GB")
    if kind is int:
        return lambda m: _integer(_text(m))
    if kind is float:
        return lambda m: _real(_text(m))
    if kind is bool:
        return lambda m: _text(m).lower() in ("true", "1", "yes")
    if typing.get_origin(kind) is tuple:
        return lambda m: tuple(n for n in (_integer(x) for x in m[1].split(",") if x.strip()) if n is not None)
    return _text


def _text(found: Any) -> str:
    """The group that took part in the match."""
    return next((group.strip() for group in found.groups() if group is not None), "")


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
        value = float(text) if len(text) <= 40 else math.nan
    except ValueError:
        return None
    return value if math.isfinite(value) else None


# Lines to events


class NotUnderstood(Event):
    """A line that speaks of memory and that no declaration reads: a renamed message announces itself."""

    MENTIONS: ClassVar[tuple[str, ...]] = (
        "avail mem=",
        "avail_mem=",
        "mem usage",
        "available_gpu_mem",
        "KV Cache",
        "KV cache",
        "max_total_num_tokens=",
        "GB host memory",
        "out of memory",
    )


@dataclass
class Matcher:
    """All declarations as one reader of lines."""

    declarations: list[Declaration] = field(default_factory=lambda: DECLARATIONS)

    def __post_init__(self) -> None:
        self._timeouts = 0
        table: dict[str, list[Declaration]] = {}
        for declaration in self.declarations:
            for literal in declaration.literals:
                table.setdefault(literal, []).append(declaration)
        self._table = list(table.items())
        self._scanner: Scanner | None = None
        alone = [(literal, declaration) for declaration in self.declarations if declaration.alone
                 for literal in declaration.literals]  # fmt: skip
        self._starts = tuple(literal for literal, _ in alone)
        self._alone: dict[str, list[tuple[str, Declaration]]] = {}  # by their first three characters
        for literal, declaration in alone:
            self._alone.setdefault(literal[:3], []).append((literal, declaration))

    @property
    def phrases(self) -> list[bytes]:
        """What the scanner looks for everywhere, batch lines aside."""
        found = {x for d in self.declarations if not d.dense and not d.opening for x in d.literals}
        return sorted(text.encode() for text in found | set(NotUnderstood.MENTIONS))

    @property
    def opening(self) -> list[bytes]:
        """What it looks for only where a text begins."""
        return sorted({x.encode() for d in self.declarations if d.opening for x in d.literals})

    @property
    def dense(self) -> list[bytes]:
        """The phrases of batch lines."""
        return sorted({x.encode() for d in self.declarations if d.dense for x in d.literals})

    @property
    def bars(self) -> list[bytes]:
        """What whole progress bars begin with."""
        return sorted({x.encode() for d in self.declarations if d.alone and not d.dense for x in d.literals})

    def claims(self, line: LogLine) -> list[tuple[Declaration, Event]]:
        """Every declaration that reads this line.

        More than one is a mistake in the declarations, unless a message carries another one within it: a failed
        capture tells what failed.
        """
        text = line.text
        if self._timeouts >= PATIENCE and len(text) > _LONG:
            return []  # the log was made to take time
        if self._scanner is None:
            self._scanner = scanner_for([literal.encode() for literal, _ in self._table])
        candidates = [self._table[number][1] for number in self._scanner.numbers(text.encode("utf-8", "replace"))]
        found: list[tuple[Declaration, Event]] = []
        tried: set[int] = set()
        for declarations in candidates:
            for declaration in declarations:
                if id(declaration) in tried:
                    continue
                tried.add(id(declaration))
                try:
                    event = declaration.read_candidate(line, text)
                except TimeoutError:
                    self._timeouts += 1
                    continue
                if event is not None:
                    found.append((declaration, event))
        if len(found) > 1 and any(declaration.fallback for declaration, _ in found):
            found = [claim for claim in found if not claim[0].fallback] or found[:1]
        return found

    def read(self, lines: Iterable[LogLine]) -> Iterator[Event]:
        """Lines to events; a line of memory that nothing reads becomes NotUnderstood."""
        starts = self._starts
        for line in lines:
            text = line.text
            if text.startswith(starts):
                event = self._read_alone(line, text)
                if event is not None:
                    yield event
                    continue
            claims = self.claims(line)
            if claims:
                for _, event in claims:
                    yield event
            elif any(mention in text for mention in NotUnderstood.MENTIONS):
                yield NotUnderstood(line=line)

    def _read_alone(self, line: LogLine, text: str) -> Event | None:
        """The event of a line that is a batch line or a whole bar; None where something may be glued onto it."""
        for literal, declaration in self._alone.get(text[:3], ()):
            if text.startswith(literal):
                if not declaration.dense and not text.endswith("]"):
                    return None
                try:
                    return declaration.read_candidate(line, text)
                except TimeoutError:
                    return None
        return None


def field_names(event: type[Event]) -> list[str]:
    """The fields of an event class, its line aside."""
    return [name for name in event.FIELDS if name != "line"]


__all__ = [
    "AMOUNT",
    "COUNT",
    "DECIMAL",
    "DECLARATIONS",
    "GIB",
    "MIB",
    "NUMBER",
    "SIZE",
    "SIZES",
    "WORD",
    "ByteCount",
    "DecimalGB",
    "Declaration",
    "Event",
    "Every",
    "InMiB",
    "Matcher",
    "NotUnderstood",
    "field_names",
    "literals_of",
    "read_from",
]
