"""Hides what a log must not show: secrets, addresses, names of people and machines, users' prompts."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kvdiag.diagnosis.databases import database
from kvdiag.diagnosis.decoding import clean
from kvdiag.diagnosis.harmless import Addressed, Harmless
from kvdiag.diagnosis.patterns import LOCAL, PATTERNS, Pattern

if TYPE_CHECKING:
    import regex

__all__ = ["PATTERNS", "Masker", "Pattern", "Triggers"]

TIMEOUT_S: Final = 1.0  # of one expression on one line
_BEGIN_KEY: Final = re.compile(r"-----BEGIN [A-Z ]{0,24}PRIVATE KEY(?: BLOCK)?-----")
_END_KEY: Final = "-----END "
_KEY_BODY: Final = re.compile(r"[A-Za-z0-9+/]{16}|Proc-Type:|DEK-Info:|Comment:|Version:")
_KEY_LINES: Final = 400  # a key that does not end by then was cut
_LEFT_OUT: Final = "[line left out: it takes too long to mask]"
_PATIENCE: Final = 8  # lines that were given up
_LONG: Final = 4 << 10  # characters; beyond them expressions run with a timeout
_MASKED: Final = re.compile(r"[\"']?\[(?:\d+ characters|[a-z_]{3,20})(?:\]['\",;:)}\]]*)?")
_PSEUDONYM: Final = re.compile(r"(?:host|user)-[a-z]{1,3}")
# The end of a quoted value that the line before began; a carrier may have cut it.
_QUOTED_REST: Final = {
    quote: re.compile(
        rf"(\s{{0,8}}(?:\S{{1,40}} std(?:out|err) [FP] |\{{\"log\":\")?)([^\s\"']{{1,200}})(?=\\*{quote})"
    )
    for quote in "\"'"
}
_NAME_LENGTH: Final = 40  # bytes of a name at the end of a line, with what stands behind it
_NAME_REACH: Final = 400  # bytes at the end of a line in which a secret's name is looked for
_NAME_LAST: Final = re.compile(
    rb"(?i)(?:key|api?[_-]?(?:ke?)?|token|secret|pass\w{0,6}|pwd|pat|credentials?|auth|cookie|dsn|string|webhook\w{0,4})"
    rb"[_\d]{0,3}[\"'\\]{0,4}"
    rb"\s{0,3}[:=,]{0,2}\s{0,3}(?:[|>][+-]?\d?)?\s{0,4}\\{0,4}(?:\\n\".{0,300})?(?:\[\d{0,3}m)?\r?\Z"
)
_BLANK_LINES: Final = 2  # between a name and its value
_CONTAINER_END: Final = 320  # characters at the end of a line that a container's JSON may stand in
_TAIL: Final = 48  # characters that a pattern's tail looks at


class Masker:
    """Hides what the patterns find, with pseudonyms that stay the same throughout one upload, and counts it.

    extra  patterns of a team's own; they are searched with a timeout
    """

    def __init__(self, extra: Sequence[Pattern] = ()) -> None:
        self.counts: dict[str, int] = {}
        self._names: dict[str, dict[str, str]] = {}
        self._given: set[str] = set()  # pseudonyms that stand for some name, here or where the log came from
        self.triggers = Triggers()
        self._rules = [_Rule(pattern) for pattern in PATTERNS]
        self._extra = [(pattern, _timed(pattern.expression, pattern.ignore_case)) for pattern in extra]
        self._in_key = 0  # lines of a private key so far, from its first on
        self._expected: list[_Rule] = []  # of a value whose name ended the line before
        self._blank = 0
        self._open: tuple[str, Pattern] | None = None  # the quote that a hidden value still lacks
        self._breaks: list[int] | None = None
        self.harmless = Harmless()  # lines of the file at hand, see masked_copy
        self.addressed = Addressed()

    @property
    def looks_ahead(self) -> bool:
        """Whether the next line must be masked in order, whatever it looks like."""
        return bool(self._in_key or self._expected or self._open)

    @property
    def has_own(self) -> bool:
        """Whether a team's own patterns are looked for, of which no sign tells the line."""
        return bool(self._extra)

    def finds_own(self, line: bytes) -> bool:
        """True for a line in which a team's own pattern stands, or for which one takes too long."""
        text = line.decode("utf-8", "replace")
        try:
            return any(expression.search(text, timeout=TIMEOUT_S) for _, expression in self._extra)
        except TimeoutError:
            return True

    def address_hidden(self, line: bytes) -> bytes | None:
        """A line of which an address is all there is to hide, without it; None where that is not known."""
        masked = self.addressed.masked(line)
        if masked is not None:
            self._count("ip_address")
        return masked

    def mask(self, text: str) -> str:
        """The text without what must not be shown, whatever stood before it."""
        return self._mask(text, [n for n in self.triggers.numbers(text) if not PATTERNS[n].after])

    def mask_behind(self, text: str, block: bytes, begin: int, message: str = "") -> str:
        """The same for a line that begins at a place in a block, where the line before may end with a secret's name.

        message  what the line's carriers hold; "" for a line without one
        """
        end = begin - 1
        start = block.rfind(b"\n", max(0, end - _NAME_REACH), max(end, 0)) + 1 or max(0, end - _NAME_REACH)
        before = ""
        near = (
            start if block[end - 1 : end] == b"}" else max(start, end - _NAME_LENGTH)
        )  # within a container's JSON or not
        if end > 0 and _NAME_LAST.search(block, near, end):
            before = clean(block[start:end].decode("utf-8", "replace"))
        elif not message or text.endswith(message) and not text[: -len(message)].strip():
            return self.mask(text)
        with self._apart(before):
            return self.mask_dressed(text, message)

    def mask_dressed(self, line: str, message: str) -> str:
        """The next line in order, where carriers stand around its message."""
        if not message or message == line:
            return self.mask_in_order(line)
        spelled = message
        if not line.endswith(message):
            spelled = json.dumps(message, ensure_ascii=False)[1:-1]
            if spelled not in line:
                return self.mask_in_order(line)
        head, _, tail = line.rpartition(spelled)
        masked = self.mask_in_order(message)
        if masked == message:
            return self._kept_open(line)
        return self._kept_open(
            head + (masked if spelled == message else json.dumps(masked, ensure_ascii=False)[1:-1]) + tail
        )

    def mask_empty(self, line: str) -> str:
        """The next line in order, where carriers stand around nothing: a blank line for what goes on behind it."""
        self.mask_in_order("")
        return self._kept_open(line)

    def _kept_open(self, line: str) -> str:
        """A line masked whole, once its message has been masked in order."""
        is_open = self._open
        masked = self.mask(line)
        self._open = is_open
        return masked

    def _mask(self, text: str, numbers: Sequence[int]) -> str:
        if numbers:
            rules = [self._rules[number] for number in numbers]
            if len(text) > _LONG:
                return self._mask_long(text, rules)
            for rule in rules:
                text = self._hide(rule.search, rule, text)
        return self._mask_extra(text) if self._extra else text

    def _mask_long(self, text: str, rules: list[_Rule]) -> str:
        """The same for a long text, where an expression may take too much time: it is given up then.

        A log with many such lines was made to take time; from then on they are left out at once.
        """
        if self.counts.get("hostile_line", 0) >= _PATIENCE:
            self._count("hostile_line")
            return _LEFT_OUT
        try:
            for rule in rules:
                text = self._hide(rule.search_timed, rule, text, timeout=TIMEOUT_S)
        except TimeoutError:
            self._count("hostile_line")
            return _LEFT_OUT
        return self._mask_extra(text)

    def _mask_extra(self, text: str) -> str:
        for pattern, expression in self._extra:
            try:
                text = expression.sub(self._replacer(pattern, None, []), text, timeout=TIMEOUT_S)
            except TimeoutError:
                return _LEFT_OUT
        return text

    def _hide(self, search: Any, rule: _Rule, text: str, **options: Any) -> str:
        """The text with one rule applied; the places where lines break in it move along."""
        if self._breaks is None:
            return str(search.sub(self._replacer(rule.pattern, rule.keep, []), text, **options))
        moved: list[tuple[int, int, int]] = []
        text = str(search.sub(self._replacer(rule.pattern, rule.keep, moved), text, **options))
        if moved:
            self._breaks = [_moved(place, moved) for place in self._breaks]
        return text

    def mask_in_order(self, text: str) -> str:
        """The same for the lines of a text one after another.

        What goes on from line to line is hidden too: a private key, a value on the line behind its name, the rest of a
        quoted value that was broken.
        """
        if self._in_key:
            if not self._leaves_key(text):
                self._in_key += 1
                return "[private_key]" if text.strip() else text
            text = text[max(0, text.find(_END_KEY)) :]
        if "PRIVATE KEY" in text and (found := _BEGIN_KEY.search(text)) and _END_KEY not in text[found.end() :]:
            self._in_key, self._expected, self._open = 1, [], None
            self._count("private_key")
            return self.mask(text[: found.end()])
        expected, is_open = self._expected, self._open
        if not text.strip():
            self._blank += 1
            if self._blank > _BLANK_LINES:
                self._expected, self._open = [], None
            return text
        self._expected, self._open, self._blank = [], None, 0
        numbers = self.triggers.numbers(text)
        hidden = self._behind(self._rest_of_value(text, is_open) if is_open else text, expected)
        masked = self._mask(hidden, [n for n in numbers if not PATTERNS[n].after])
        self._expected = [rule for n in numbers if (rule := self._rules[n]).pattern.after and rule.is_behind(text)]
        return masked

    def _behind(self, text: str, expected: Sequence[_Rule]) -> str:
        """The text behind a line that ended with the name of a secret."""
        if _HIDDEN_ITEM.match(text):
            return text
        for rule in expected:
            try:
                hidden = self._hide(rule.search_timed, rule, text, timeout=TIMEOUT_S)
            except TimeoutError:
                self._count("hostile_line")
                return _LEFT_OUT
            if hidden != text:
                return hidden
        return text

    def _leaves_key(self, text: str) -> bool:
        """Whether a line is no part of the private key before it."""
        if _END_KEY in text or self._in_key > _KEY_LINES or len(text.split()) > 2 and not _KEY_BODY.search(text):
            self._in_key = 0
            return True
        return False

    def _rest_of_value(self, text: str, is_open: tuple[str, Pattern]) -> str:
        quote, pattern = is_open
        found = _QUOTED_REST[quote].match(text)
        if found is None or _MASKED.fullmatch(found[2]):
            return text
        return found[1] + pattern.replacement.replace("{length}", str(len(found[2]))) + text[found.end() :]

    def mask_broken(self, parts: Sequence[str]) -> list[str]:
        """The same for the parts of one line that was broken, each with the blank that joins it: in as many parts."""
        self._breaks = [sum(map(len, parts[:n])) for n in range(1, len(parts))]
        masked = self.mask_in_order("".join(parts))
        places = [0, *self._breaks, len(masked)]
        self._breaks = None
        return [masked[begin:end] for begin, end in zip(places, places[1:], strict=False)]

    def mask_block(self, lines: Sequence[str], before: str = "") -> list[str]:
        """The same for a few lines in a row, behind the line `before`."""
        with self._apart(before):
            return [self.mask_in_order(line) for line in lines]

    @contextmanager
    def _apart(self, before: str) -> Iterator[None]:
        """Lines that are masked out of their turn, behind the line `before`."""
        outer = self._in_key, self._expected, self._open, self._blank
        self._in_key, self._expected, self._open, self._blank = 0, [], None, 0
        if before:
            counts = dict(self.counts)
            self.mask_in_order(before)
            self.counts = counts  # it has been counted where it was masked itself
        yield
        self._in_key, self._expected, self._open, self._blank = outer

    def host(self, name: str) -> str:
        """The pseudonym of a machine's name that stands where only such a name stands."""
        if re.fullmatch(LOCAL, name.lower()):
            return name
        self._count("host_name")
        return self._pseudonym("host-{n}", name)

    def _replacer(
        self, pattern: Pattern, keep: re.Pattern[str] | None, moved: list[tuple[int, int, int]]
    ) -> Callable[[Any], str]:
        """What stands for each match. `moved` takes where values were: begin, end, length of what stands for them."""

        def replace(found: Any) -> str:
            hidden = found[2] if found.re.groups > 1 else found[0]
            kept = found[1] if found.re.groups > 1 else ""
            if kept[-1:] in _QUOTED_REST and found.end() == len(found.string):
                self._open = (kept[-1], pattern)
            if _MASKED.fullmatch(hidden) or (keep is not None and keep.fullmatch(hidden.lower())):
                if _PSEUDONYM.fullmatch(hidden):
                    self._given.add(hidden)
                return str(found[0])
            self._count(pattern.kind)
            if "{n}" in pattern.replacement:
                instead = self._pseudonym(pattern.replacement, hidden)
            else:
                instead = pattern.replacement.replace("{length}", str(len(hidden)))
            moved.append((found.start() + len(kept), found.end(), len(instead)))
            return str(kept) + instead

        return replace

    def _count(self, kind: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def _pseudonym(self, form: str, value: str) -> str:
        names = self._names.setdefault(form, {})
        if value not in names:
            is_counted = form.startswith(("addr", "mail", "mac"))
            number = len(names)
            while (name := form.replace("{n}", str(number + 1) if is_counted else _letters(number))) in self._given:
                number += 1  # a browser gave it to another name before the log was sent
            names[value] = name
            self._given.add(name)
        return names[value]


def _letters(number: int) -> str:
    """a … z, aa … zz, aaa …"""
    letters = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(97 + rest) + letters
    return letters


def _moved(place: int, moved: Sequence[tuple[int, int, int]]) -> int:
    """Where a place in a text is once values in it are replaced; one within a value goes behind what stands for it."""
    shift = 0
    for begin, end, length in moved:
        if place <= begin:
            break
        if place < end:
            return begin + shift + length
        shift += length - (end - begin)
    return place + shift


class _Rule:
    """A pattern of ours, compiled when a text first needs it."""

    __slots__ = ("_after", "_compiled", "_keep", "_tail", "_timed", "pattern")

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self._compiled: re.Pattern[str] | None = None
        self._timed: regex.Pattern[str] | None = None
        self._after: regex.Pattern[str] | None = None
        self._tail: re.Pattern[str] | None = None
        self._keep: re.Pattern[str] | None = None

    @property
    def keep(self) -> re.Pattern[str] | None:
        """What is no secret where the pattern finds it."""
        if self._keep is None and self.pattern.keep:
            self._keep = re.compile(self.pattern.keep)
        return self._keep

    @property
    def search(self) -> re.Pattern[str]:
        if self._compiled is None:
            self._compiled = re.compile(self.pattern.expression, re.IGNORECASE if self.pattern.ignore_case else 0)
        return self._compiled

    @property
    def search_timed(self) -> regex.Pattern[str]:
        """The same expression for a search that can be given up."""
        if self._timed is None:
            self._timed = _timed(self.pattern.expression, self.pattern.ignore_case)
        return self._timed

    def is_behind(self, text: str) -> bool:
        """Whether the pattern is for the line behind this one."""
        if self.pattern.tail and '\\n"' not in text[-_CONTAINER_END:]:
            if self._tail is None:
                self._tail = re.compile(self.pattern.tail)
            if self._tail.search(text[-_TAIL:]) is None:
                return False
        if self._after is None:
            self._after = _timed(self.pattern.after)
        try:
            return self._after.search(text, timeout=TIMEOUT_S) is not None
        except TimeoutError:
            return False


def _timed(expression: str, ignore_case: bool = False) -> regex.Pattern[str]:
    """An expression for searches that can be given up."""
    import regex  # takes longer to load than a small log to read

    return regex.compile(expression, int(regex.IGNORECASE) if ignore_case else 0)


_HIDDEN_ITEM: Final = re.compile(r"\s{0,40}-\s{1,4}[\"']?\[(?:api_key|secret)\](?![^\s\"'])")


class Triggers:
    """Which patterns a text calls for, by their literals: nearly every line of a log calls for none."""

    def __init__(self) -> None:
        self._found: set[int] = set()
        self._ends: list[int] = []
        self._signs = _signs_of_all()

    def numbers(self, text: str) -> list[int]:
        """The patterns to try, by their places in PATTERNS."""
        if self._signs.database is None:
            return [n for n, pattern in enumerate(PATTERNS) if _calls(pattern, text)]
        found = self._found
        found.clear()
        self._signs.database.scan(text.encode("utf-8", "replace"), match_event_handler=self._note)
        if not found:
            return []
        called = {n for sign in found for n in self._signs.called[sign]}
        return sorted(n for n in called if n not in self._signs.loose or _calls(PATTERNS[n], text))

    def ends(self, block: bytes) -> list[int] | None:
        """Where signs of any pattern end in a block, ascending; None where they cannot be looked for at once."""
        if self._signs.database is None:
            return None
        self._ends = []
        self._signs.database.scan(block, match_event_handler=self._note_end)
        return sorted(set(self._ends))

    def _note(self, number: int, start: int, end: int, flags: int, context: Any) -> None:
        self._found.add(number)

    def _note_end(self, number: int, start: int, end: int, flags: int, context: Any) -> None:
        self._ends.append(end)


class _Signs(NamedTuple):
    """The signs of all patterns compiled into one scan.

    database  None where no Vectorscan is installed
    called  the patterns that each sign calls for: what several have in common is looked for once
    loose   patterns of one case that a sign in any case calls for
    """

    database: Any = None
    called: tuple[tuple[int, ...], ...] = ()
    loose: frozenset[int] = frozenset()


class _Compiled(threading.local):
    """Once a thread: a scan uses scratch memory of its own."""

    signs = _Signs()


_COMPILED: Final = _Compiled()


def _signs_of_all() -> _Signs:
    """This thread's scan for all signs."""
    if _COMPILED.signs.database is None:
        try:
            import hyperscan
        except ImportError:
            return _Signs()
        called: dict[tuple[str, bool], list[int]] = {}
        loose: set[int] = set()
        for number, pattern in sorted(enumerate(PATTERNS), key=lambda each: not each[1].ignore_case):
            if pattern.sign:
                called.setdefault((pattern.sign, pattern.ignore_case), []).append(number)
                continue
            for literal in map(re.escape, pattern.literals):
                anyhow = pattern.ignore_case or (literal.lower(), True) in called
                if anyhow and not pattern.ignore_case:
                    loose.add(number)
                called.setdefault((literal.lower() if anyhow else literal, anyhow), []).append(number)
        flags = {False: int(hyperscan.HS_FLAG_MULTILINE)}
        flags[True] = flags[False] | int(hyperscan.HS_FLAG_CASELESS)
        _COMPILED.signs = _Signs(
            database(
                [sign.encode() for sign, _ in called], range(len(called)), [flags[anyhow] for _, anyhow in called]
            ),
            tuple(tuple(numbers) for numbers in called.values()),
            frozenset(loose),
        )
    return _COMPILED.signs


def _calls(pattern: Pattern, text: str) -> bool:
    if pattern.sign:
        return re.search(pattern.sign, text, re.IGNORECASE | re.MULTILINE) is not None
    if pattern.ignore_case:
        lower = text.lower()
        return any(literal.lower() in lower for literal in pattern.literals)
    return any(literal in text for literal in pattern.literals)
