"""LogLine: one line of a log as the later stages see it, and the reader that finds the lines worth looking at."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from sys import intern
from typing import Final

from kvdiag.diagnosis.archives import Meter
from kvdiag.diagnosis.carriers import peel
from kvdiag.diagnosis.carriers.stamps import peel_head
from kvdiag.diagnosis.carriers.strings import unescape
from kvdiag.diagnosis.decoding import clean, clean_block, decode
from kvdiag.diagnosis.errors import UnreadableLog
from kvdiag.diagnosis.harmless import BAR, Harmless
from kvdiag.diagnosis.lazy import lazy
from kvdiag.diagnosis.limits import DEFAULT_LIMITS, Limits
from kvdiag.diagnosis.masking import Masker
from kvdiag.diagnosis.peaks import Peaks
from kvdiag.diagnosis.prefix import may_be_glued, read_prefix, record_starts
from kvdiag.diagnosis.scanner import AHEAD, Block, Find, scanner_for
from kvdiag.diagnosis.texts import Log, Text, open_texts
from kvdiag.diagnosis.wrapping import Wrap, join_cut, unwrap, wrap_of

__all__ = ["FileInfo", "LineReader", "Log", "LogLine"]

REMEMBERED: Final = 1024  # lines whose following lines are still known; those of errors stay known
_PROGRESS_S: Final = 0.5
_VERY_LONG: Final = 64 << 20  # of a text; behind that an eighth of the sample is enough
_FEW: Final = 2 << 10  # bytes kept behind a line that is neither long nor speaks of trouble
_LONG: Final = 400
_BEGINNING: Final = 40  # characters that tell where in a line its message begins
_BEFORE: Final = 4 << 10  # of an overlong line, kept before a phrase
_ABOVE: Final = 4 << 10  # bytes kept before a line that speaks of trouble: the frames that an exception ends
_BEFORE_NEXT: Final = 512  # of a line, kept for the masking of the next: a secret's name may end it

# A line as SGLang prints it and nothing else on it: most lines by far.
_PLAIN: Final = re.compile(
    r"\[(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d{1,6})?)((?: [A-Z][A-Z_]{0,15}\d{1,6}){0,8})\] ([^\[\x00-\x1f\x7f\\]*)$"
)
_TROUBLE: Final = re.compile(rb"Traceback|Error|rror:|xception|out of memory|[Kk]illed|SIGQUIT|died|exit code")
_STRING_BREAK: Final = re.compile(r'(?<!\\)\\n(?:",?\s{0,40}"?)?')
_STRING_END: Final = re.compile(r'(?<!\\)\\n",\s{0,40}"')
# From one line to the next in what a collector answers on one line: Loki's pairs, CloudWatch's and others' objects.
_MESSAGE_KEY: Final = r'"(?:message|line|log|textPayload)":\s{0,8}"'
_PAIR: Final = r'"\w{1,40}":\s{0,8}(?:\d{1,20}|"[^"\\]{0,200}")'
_OBJECT_END: Final = rf'"(?:,\s{{0,8}}(?!{_MESSAGE_KEY}){_PAIR}){{0,6}}\s{{0,8}}\}}'
_ANSWER_BREAK: Final = lazy(
    r'"\],\s{0,8}\["\d{10,20}",\s{0,8}"'
    rf"|{_OBJECT_END},\s{{0,8}}\{{(?:\s{{0,8}}{_PAIR},){{0,6}}\s{{0,8}}{_MESSAGE_KEY}"
)
_ANSWER_HEAD: Final = lazy(rf'^\{{"[^\\]{{0,2000}}?(?:\[\["\d{{10,20}}",\s{{0,8}}"|{_MESSAGE_KEY})')
_ANSWER_END: Final = lazy(rf'(?:"\]|{_OBJECT_END})\s{{0,8}}\].*$')
_ANSWER_GOES_ON: Final = ('"],', "},")
_NEEDS_ESCAPES: Final = (b'"', b"\\", b"<", b">", b"&")


@dataclass(frozen=True, slots=True)
class LogLine:
    """One physical line, or one record of it where a line holds several.

    file    index of the file in the upload, members of an archive counted singly
    number  physical line, from 1, after decompression
    text    the message: carrier, colour codes and SGLang's own prefix peeled off, secrets masked
    clock   the time as printed, "2025-03-08T12:29:08" with its fraction; "12:29:08" where the log gives no date
    rank    the rank's tokens as the prefix spells them, "" when it has none
    node    the process or machine that the carrier names, "" when it names none
    shown   the line as a reader sees it: masked, without colour codes, with its carrier
    batches how many batch lines this one stands for; more than itself where only a sample of them is read
    is_cut  it may have gone on: the file ends with it and has no line end there, or another record is glued onto it
    is_glued  the latter: it did go on
    """

    file: int
    number: int
    text: str
    clock: str | None = None
    rank: str = ""
    node: str = ""
    shown: str = ""
    after: Following | tuple[str, ...] = field(default=(), repr=False, compare=False)
    batches: int = 1
    is_cut: bool = field(default=False, compare=False)
    is_glued: bool = field(default=False, compare=False)

    @property
    def place(self) -> tuple[int, int]:
        """File and line, which is the order lines were printed in."""
        return self.file, self.number

    @property
    def whole(self) -> str:
        """`shown`, with what stands on the next lines where one sentence was broken over several."""
        begin = self.text[:_BEGINNING]
        at = self.shown.rfind(begin) if begin else -1
        rest = self.shown[at:].rstrip()
        return (
            self.shown[:at] + self.text if at >= 0 and rest != self.text and self.text.startswith(rest) else self.shown
        )

    def following(self, count: int, word: str = "") -> tuple[str, ...]:
        """The texts of the next physical lines, at most `count` and at most what 8 KiB hold.

        With a word of plain letters, () where none of them holds it: then they are not decoded.
        """
        if isinstance(self.after, tuple):
            return self.after[:count] if any(word in text for text in self.after) else ()
        return self.after.texts(count) if self.after.may_hold(word) else ()

    def preceding(self, count: int) -> tuple[str, ...]:
        """The texts of the physical lines before one of trouble, at most `count` and what 4 KiB hold; else ()."""
        return () if isinstance(self.after, tuple) else self.after.above(count)


@dataclass
class FileInfo:
    """What the report says of one file.

    bytes, lines       of the unpacked text
    carriers           names of the wrappers that were peeled off
    gap                what was left out of a file over the limit: first_line, last_line, bytes
    batch_lines        Decode and Prefill lines in the file, and how many of them were read (None: none there)
    """

    name: str
    bytes: int = 0
    lines: int = 0
    encoding: str = "utf-8"
    compression: str | None = None
    carriers: list[str] = field(default_factory=list)
    gap: dict[str, int] | None = None
    batch_lines: dict[str, int] | None = None


_COLOUR: Final = re.compile(rb"\x1b|\0|\[\d{0,3}(?:;\d{1,3}){0,4}m")


def _is_dressed(raw: bytes) -> bool:
    """Whether colours, or marks that are not seen, may stand within a word."""
    return not raw.isascii() or _COLOUR.search(raw) is not None


class Following:
    """The lines after one, decoded when they are asked for."""

    __slots__ = ("_above", "_before", "_carriers", "_is_cut", "_masker", "_raw", "_rest")

    def __init__(
        self,
        rest: str,
        raw: bytes,
        masker: Masker | None,
        carriers: set[str],
        before: bytes,
        is_cut: bool,
        above: bytes = b"",
    ) -> None:
        self._above = above
        self._rest, self._raw, self._masker, self._carriers, self._before = rest, raw, masker, carriers, before
        self._is_cut = is_cut  # the file ends with them and has no line end there

    def texts(self, count: int) -> tuple[str, ...]:
        """At most `count` texts; () once the lines are forgotten."""
        return self._texts(count, unprefixed=False)

    def may_hold(self, word: str) -> bool:
        """Whether a word of plain letters may be among the texts; a carrier or a secret may yet take it away."""
        return word.encode() in self._raw or word in self._rest or _is_dressed(self._raw)

    def is_cut_within(self, count: int) -> bool:
        """Whether the file is cut in one of the next `count` lines."""
        return self._is_cut and self._raw.count(b"\n") + 1 + (self._rest.count("\n") + 1 if self._rest else 0) <= count

    @property
    def is_empty(self) -> bool:
        """Whether nothing stands behind."""
        return not self._raw.strip() and not self._rest.strip()

    def unprefixed(self, count: int) -> tuple[str, ...]:
        """The texts up to the first line with SGLang's own prefix: what the line before may go on with."""
        return self._texts(count, unprefixed=True)

    def above(self, count: int) -> tuple[str, ...]:
        """At most `count` texts of the lines before; () once the lines are forgotten."""
        lines = self._above.split(b"\n")[-count:] if self._above else []
        found = [_message_of(clean(decode(raw.rstrip(b"\r").rpartition(b"\r")[2])), self._carriers)[0] for raw in lines]
        return tuple(self._masker.mask_block(found) if self._masker is not None else found)

    def _texts(self, count: int, *, unprefixed: bool) -> tuple[str, ...]:
        if count <= 0 or not self._raw and not self._rest:
            return ()
        found = self._rest.split("\n", count)[:count] if self._rest else []
        for raw in self._raw.split(b"\n", count)[: count - len(found)]:
            text, has_prefix = _message_of(clean(decode(raw.rstrip(b"\r").rpartition(b"\r")[2])), self._carriers)
            if has_prefix and unprefixed:
                break
            found += text.split("\n")
        if self._masker is not None:
            found = self._masker.mask_block(found[:count], clean(decode(self._before)))
        return tuple(found[:count])

    def forget(self) -> None:
        """Gives the memory back."""
        self._raw, self._rest, self._before, self._above = b"", "", b"", b""


class LineReader:
    """The lines of an upload that contain a phrase, in the order of the files.

    phrases  what to look for, as SGLang spells it
    dense    phrases of batch lines, the bulk of a serving log: all of them up to limits.exact_batch_bytes of a file,
             above that a sample of each block and every new peak
    bars     phrases that progress bars begin with, of which there may be thousands: a line that begins with one has
             nothing before it and no continuation
    opening  phrases to look for in the first block of a file alone
    masker   what hides secrets; a new one for each reader where none is given, None hides nothing

    After the iteration `files` says what was read and `masked` what was hidden. Iterate once. Raises UnreadableLog and
    LogTooLarge.
    """

    def __init__(
        self,
        logs: Sequence[Log],
        phrases: Sequence[bytes],
        limits: Limits | None = None,
        dense: Sequence[bytes] = (),
        on_progress: Callable[[int], None] | None = None,
        masker: Masker | bool = True,
        bars: Sequence[bytes] = (),
        opening: Sequence[bytes] = (),
    ) -> None:
        self._logs = logs
        self._limits = limits or DEFAULT_LIMITS
        self._dense = tuple(dense)
        self._bars = tuple(bars)
        self._opening = Find(opening)
        self._scanner = scanner_for(_spellings(phrases))
        self._tell = on_progress
        self._told = 0.0
        self._masker: Masker | None = (Masker() if masker else None) if isinstance(masker, bool) else masker
        self._memory: deque[Following] = deque()
        self._pinned = 0
        self.files: list[FileInfo] = []

    @property
    def masked(self) -> dict[str, int]:
        """How much was hidden, by kind."""
        return self._masker.counts if self._masker else {}

    def __iter__(self) -> Iterator[LogLine]:
        meter = Meter(self._limits)
        for log in self._logs:
            for text in open_texts(log, self._limits, meter):
                yield from self._read(text)
        if not any(info.bytes for info in self.files):
            name = self.files[0].name if self.files else "The upload"
            raise UnreadableLog(f"{name} is empty. Send the log that the server printed.")

    def _read(self, text: Text) -> Iterator[LogLine]:
        info = FileInfo(text.name, encoding=text.encoding, compression=text.compression)
        self.files.append(info)
        page = _Page(len(self.files) - 1, self, info)
        wrap: Wrap | None = None
        blank = True
        for block in text.blocks:
            if block.offset == 0 and not block.seen:
                wrap = wrap_of(block.data)
            blank = blank and not block.data.strip(b"\0 \t\r\n")
            yield from page.read(block, wrap)
            self._progress(block.number)
        info.bytes = 0 if blank else text.blocks.size
        info.lines = text.blocks.lines
        info.carriers = sorted(page.carriers)
        if gap := text.blocks.gap:
            info.gap = {"first_line": gap.first_line, "last_line": gap.last_line, "bytes": gap.bytes}
        if page.dense_all:
            info.batch_lines = {"read": page.dense_read, "all": page.dense_all}

    def _claims(self, record: str) -> bool:
        """Whether one record of a line that holds several has a phrase."""
        raw = record.encode("utf-8", "replace")
        return self._scanner.claims(raw) or any(phrase in raw for phrase in self._dense)

    def _progress(self, lines: int) -> None:
        if self._tell is not None and (now := time.monotonic()) - self._told >= _PROGRESS_S:
            self._told = now
            self._tell(sum(info.lines for info in self.files) + lines)

    def _remember(self, following: Following, trouble: bool) -> None:
        if trouble and self._pinned < REMEMBERED:
            self._pinned += 1
            return
        self._memory.append(following)
        if len(self._memory) > REMEMBERED:
            self._memory.popleft().forget()


class _Page:
    """One file while it is read."""

    def __init__(self, file: int, reader: LineReader, info: FileInfo) -> None:
        self._file, self._reader = file, reader
        self._limits = reader._limits
        self._masker = reader._masker
        self._peaks = Peaks()
        self.carriers: set[str] = set()
        self.dense_all = self.dense_read = 0
        self._prefixes: dict[bytes, tuple[str | None, str, str]] = {}
        self._harmless = Harmless()
        self._clocks: dict[tuple[str, str], str] = {}
        self._texts: dict[str, str] = {}
        self._long = ""  # the last long text
        self._taken = 0  # following lines that the last record took with it
        self._is_glued = False  # another record onto the last of those
        self._stands_for = 1  # batch lines

    def read(self, block: Block, wrap: Wrap | None) -> Iterator[LogLine]:
        data, seen = block.data, block.seen
        numbers: list[int] | None = None
        if wrap is not None and not seen:
            data, numbers = unwrap(data, block.number, wrap)
        cleaned = clean_block(data)
        if cleaned is not data:
            seen = len(clean_block(data[:seen])) if seen else 0
            data = cleaned
        ends = self._reader._scanner.ends(data)
        if block.offset == 0 and not block.seen:
            ends = sorted([*ends, *self._reader._opening.ends(data)])
        batches: dict[int, int] = {}
        if self._reader._dense:
            batches = self._batches(data, block.offset)
            ends = sorted([*ends, *batches]) if ends else sorted(batches)
        done = seen  # up to here the block's records have been read
        counted, number = seen, 0
        find, rfind, bars, longest = data.find, data.rfind, self._reader._bars, self._limits.line_bytes
        has_returns = b"\r" in data
        for end in ends:
            if end <= done:
                continue
            begin = rfind(b"\n", 0, end) + 1
            stop = find(b"\n", end)
            if stop < 0:
                stop = len(data)
            if has_returns:
                begin = rfind(b"\r", begin, end) + 1 or begin
                bar = find(b"\r", end, stop)
                if bar >= 0:
                    stop = bar
            if stop - begin > longest:
                begin, stop = self._window(data, begin, stop, end)
            if begin > counted:
                number += data.count(b"\n", counted, begin)
                counted = begin
            done = stop
            at = block.number + number if numbers is None else numbers[min(number, len(numbers) - 1)]
            stands_for = batches.get(end)
            is_cut = stop == len(data) and not block.ahead
            if stands_for is not None:
                line = self._batch(data, begin, stop, at, stands_for)
            else:
                line = self._bar(data, begin, stop, at, is_cut) if data.startswith(bars, begin, stop) else None
            if line is not None:
                yield line
                continue
            self._taken = 0
            self._stands_for = 1 if stands_for is None else stands_for
            yield from self._records(data, begin, stop, at, block.ahead)
            for _ in range(self._taken):
                done = find(b"\n", done) + 1 or len(data)
                done = find(b"\n", done) if find(b"\n", done) >= 0 else len(data)
        if numbers is None:
            block.lines = number + data.count(b"\n", counted)

    def _window(self, data: bytes, begin: int, stop: int, end: int) -> tuple[int, int]:
        """Of an overlong line the part around a phrase, from its record's start where that is near."""
        low = max(begin, end - _BEFORE)
        mark = data.rfind(b"[20", low, end)
        begin = mark if mark >= 0 else low
        stop = min(stop, begin + self._limits.line_bytes)
        # A document on one line holds its lines as strings: the last one whole.
        ended = max(data.rfind(string_end, end, stop) for string_end in (b"\\n", b'"],["', b'},{"'))
        return begin, ended + 2 if ended >= 0 else stop

    def _batches(self, data: bytes, offset: int) -> dict[int, int]:
        """Where the phrases of the batch lines to be read end, and how many batch lines each stands for."""
        exact = offset < self._limits.exact_batch_bytes
        sample = self._limits.batch_sample if offset < _VERY_LONG else max(1, self._limits.batch_sample // 8)
        found: dict[int, int] = {}
        for phrase in self._reader._dense:
            at = data.find(phrase)
            if at < 0:
                continue
            length = len(phrase)
            most = len(data) if exact else sample
            before = len(found)
            while at >= 0 and len(found) - before < most:
                last = at + length
                found[last] = 1
                at = data.find(phrase, last)
            count = len(found) - before
            if at >= 0:
                rest = data.count(phrase, at)
                found[last] += rest
                count += rest
            self.dense_all += count
        if not exact and found:
            for peak in self._peaks.new(data):
                found.setdefault(peak, 0)
        self.dense_read += len(found)
        return found

    def _batch(self, data: bytes, begin: int, stop: int, number: int, batches: int) -> LogLine | None:
        """A batch line with nothing but SGLang's prefix before it, read the short way; None for any other."""
        close = data.find(b"] ", begin, begin + 80) + 2
        if close < 2 or data.find(b"[", close, stop) >= 0:
            return None
        head = data[begin:close]
        known = self._prefixes.get(head)
        if known is None:
            spelled = head.decode("latin-1")
            prefix = read_prefix(spelled)
            if prefix is None or prefix.end != len(head) - 1:
                return None
            if len(self._prefixes) > 4096:
                self._prefixes.clear()
            known = self._prefixes[head] = (prefix.clock, prefix.rank, spelled)
        raw = data[close:stop]
        text = decode(raw).rstrip()
        if self._masker is not None:
            text = self._unless_harmless(raw, text)
        clock, rank, spelled = known
        return LogLine(self._file, number, text, clock, rank, "", spelled + text, (), batches)

    def _bar(self, data: bytes, begin: int, stop: int, number: int, is_cut: bool) -> LogLine | None:
        """A progress bar with nothing before it or glued onto it; None for any other line."""
        raw = data[begin:stop]
        text = decode(raw)
        if not text.isprintable() or not BAR.fullmatch(text):
            return None
        text = text.rstrip()
        if self._masker is not None:
            text = self._unless_harmless(raw, text)
        return LogLine(self._file, number, text, None, "", "", text, is_cut=is_cut)

    def _unless_harmless(self, raw: bytes, text: str) -> str:
        """The text masked, which takes nothing where one alike hid nothing."""
        if raw in self._harmless:
            return text
        masked = self._masked(text)
        if masked == text and self._masker is not None and not self._masker.has_own:
            self._harmless.learn(raw, text)
        return masked

    def _records(self, data: bytes, begin: int, stop: int, number: int, ahead: bytes) -> Iterator[LogLine]:
        raw = data[begin:stop]
        masker = self._masker
        try:
            segment = raw.decode()
        except UnicodeDecodeError:
            segment = decode(raw)
        plain = _PLAIN.match(segment)
        if plain is not None and plain[4].isascii() and not may_be_glued(plain[4]):
            date, clock, rank, text = plain.groups()
            if masker is not None:
                text = masker.mask_behind(text, data, begin)
            after = self._after(data, stop, ahead, "", raw)
            text = text.rstrip()
            shown = segment[: plain.start(4)] + text
            if after is not None:
                text = self._continued(text, after)
            yield LogLine(
                self._file,
                number,
                self._once(peel_head(text)),
                self._clock(date, clock),
                intern(rank[1:]),
                "",
                shown,
                after or (),
                self._stands_for,
                self._is_cut(text, after, stop == len(data) and not ahead),
                after is not None and self._is_glued,
            )
            return
        yield from self._peeled(clean(segment), raw, number, data, begin, stop, ahead)

    def _clock(self, date: str, clock: str) -> str:
        """A time as one text for all lines that have it: thousands of ranks print within some seconds."""
        known = self._clocks.get((date, clock))
        if known is None:
            if len(self._clocks) >= REMEMBERED:
                self._clocks.clear()
            known = self._clocks[date, clock] = f"{date}T{clock}"
        return known

    def _once(self, text: str) -> str:
        """A text as one for all lines that say the same: every rank does, and every start again."""
        if len(text) > _LONG:
            self._long = self._long if text == self._long else text
            return self._long
        if len(self._texts) >= REMEMBERED:
            self._texts.clear()
        return self._texts.setdefault(text, text)

    def _peeled(
        self, segment: str, raw: bytes, number: int, data: bytes, begin: int, stop: int, ahead: bytes
    ) -> Iterator[LogLine]:
        peeled = peel(segment, self.carriers)
        node = peeled.node
        masker = self._masker
        if peeled.host and masker is not None:
            node = masker.host(node)
        if node != peeled.node:
            segment = segment.replace(peeled.node, node, 1)
        shown = segment.rstrip()
        if masker is not None:
            shown = masker.mask_behind(shown, data, begin, peeled.text.rstrip())
        pieces = _pieces(peeled.text)
        several = len(pieces) > 1
        for at, piece in enumerate(pieces):
            records = _split(piece)
            for index, record in enumerate(records):
                last = index == len(records) - 1
                if (several or len(records) > 1) and not self._reader._claims(record):
                    continue
                prefix = read_prefix(record)
                text = record[prefix.end :].strip() if prefix else record.strip()
                text = peel_head(text)
                if masker is not None:
                    text = masker.mask_behind(text, data, begin)
                rest = "\n".join(pieces[at + 1 :]) if several and last else ""
                own = piece.encode("utf-8", "replace") if several else raw
                after = self._after(data, stop, ahead, rest, own) if last else None
                if after is not None:
                    text = self._joined(text, data, stop, ahead) if peeled.cut else self._continued(text, after)
                yield LogLine(
                    self._file, number, text, (prefix.clock if prefix else None) or peeled.clock,
                    prefix.rank if prefix else "", node,
                    shown if len(records) == 1 and not several else self._masked(record.strip()), after or (),
                    self._stands_for, self._is_cut(text, after, not last or stop == len(data) and not ahead),
                    not last or after is not None and self._is_glued,
                )  # fmt: skip

    def _is_cut(self, text: str, after: Following | None, is_last: bool) -> bool:
        """Whether a line, with the following ones that it took, may have gone on."""
        if after is None or is_last:
            return is_last
        if self._is_glued or after.is_cut_within(self._taken):
            return True
        return after.is_empty and text.endswith((",", "=", ":"))

    def _joined(self, text: str, data: bytes, stop: int, ahead: bytes) -> str:
        """The text with its other parts, where the carrier split it at a size."""
        self._is_glued, cut, behind = False, True, data
        begin = data.find(b"\n", stop) + 1
        while cut and len(text) < self._limits.line_bytes:
            if not 0 < begin < len(behind):
                if behind is ahead or not ahead:
                    break
                behind, begin = ahead, 0
            end = behind.find(b"\n", begin)
            end = len(behind) if end < 0 else end
            peeled = peel(clean(decode(behind[begin:end].rstrip(b"\r"))), self.carriers)
            part = peeled.text.rstrip()
            text += self._masker.mask_block([part], text[-_BEFORE_NEXT:])[0] if self._masker is not None else part
            cut, begin = peeled.cut, end + 1
            self._taken += 1
        return text

    def _continued(self, text: str, after: Following) -> str:
        """The text with what belongs to it on the next lines."""
        self._is_glued = False
        text, self._taken = join_cut(text, after.unprefixed)
        starts = record_starts(text) if self._taken and may_be_glued(text) else []
        self._is_glued = bool(starts)
        return text[: starts[0]].rstrip() if starts else text

    def _masked(self, text: str) -> str:
        return self._masker.mask(text) if self._masker is not None else text

    def _after(self, data: bytes, stop: int, ahead: bytes, rest: str, raw: bytes) -> Following | None:
        """The lines behind this one; None for a batch line, which has no continuation."""
        for phrase in self._reader._dense:
            if phrase in raw:
                return None
        trouble = _TROUBLE.search(raw) is not None
        most = AHEAD if trouble or len(raw) > _LONG else _FEW
        line_end = data.find(b"\n", stop, stop + AHEAD)
        behind = data[line_end + 1 : line_end + 1 + most] if line_end >= 0 else b""
        if len(behind) < most and (line_end >= 0 or stop == len(data)):
            behind += ahead[: most - len(behind)]
        if len(behind) >= most:
            behind = behind[: behind.rfind(b"\n") + 1] or behind
        is_cut = not ahead and 0 <= line_end < len(data) - 1 <= line_end + most and data[-1:] != b"\n"
        above = b""
        begin = stop - len(raw)
        if trouble and data.startswith(raw, begin):
            above = data[max(0, begin - _ABOVE) : max(0, begin - 1)]
            above = above[above.find(b"\n") + 1 :] if begin > _ABOVE else above
        following = Following(rest, behind, self._masker, self.carriers, raw[-_BEFORE_NEXT:], is_cut, above)
        self._reader._remember(following, trouble)
        return following


def _spellings(phrases: Sequence[bytes]) -> list[bytes]:
    """The phrases, and how they look inside a JSON string where that differs."""
    found = dict.fromkeys(phrases)
    for phrase in phrases:
        if any(char in phrase for char in _NEEDS_ESCAPES):
            escaped = phrase.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
            found[escaped] = None
            found[escaped.replace(b"<", b"\\u003c").replace(b">", b"\\u003e").replace(b"&", b"\\u0026")] = None
    return list(found)


def _pieces(text: str) -> list[str]:
    """The lines in what a carrier held: several where it held several, or a whole document on one line."""
    if "\n" in text:
        return text.split("\n")
    if "\\n" in text and (text[0] in '{["' or _STRING_END.search(text)):
        pieces = [unescape(piece) for piece in _STRING_BREAK.split(text) if piece.strip()]
        return [line for piece in pieces for line in piece.split("\n")]  # of an odd number of backslashes
    if any(mark in text for mark in _ANSWER_GOES_ON):
        pieces = _ANSWER_BREAK.split(text)
        if len(pieces) > 1:
            pieces[0] = _ANSWER_HEAD.sub("", pieces[0])
            pieces[-1] = _ANSWER_END.sub("", pieces[-1])
            return [line for piece in pieces for line in unescape(piece).split("\n")]
    return [text]


def _split(text: str) -> list[str]:
    """The records on one line. One within a document's string ends with the string."""
    starts = record_starts(text)
    if not starts:
        return [text]
    records = []
    bounds = [0, *starts, len(text)]
    for begin, end in zip(bounds, bounds[1:], strict=False):
        record = text[begin:end]
        quoted = begin > 0 and (text[begin - 1] in "\"'" or text[begin - 2 : begin] == "\\n")
        if quoted:
            record, ended, _ = record.partition("\\n")
            record = unescape(record if ended else record.split('",', 1)[0].rstrip('", ]}')).replace("\n", " ")
        if record.strip():
            records.append(record)
    return records


def _message_of(line: str, carriers: set[str]) -> tuple[str, bool]:
    """A following line's text, its carrier and its prefix taken off, and whether it had a prefix."""
    text = peel(line, carriers).text
    prefix = read_prefix(text)
    return (text[prefix.end :] if prefix else text).strip(), prefix is not None
