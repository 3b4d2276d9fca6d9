"""Bytes to text: encodings told by content, control codes taken out. Nothing here raises on what a file contains."""

from __future__ import annotations

import codecs
import io
import re
from typing import Final

from kvdiag.diagnosis.errors import UnreadableLog
from kvdiag.diagnosis.lazy import lazy

_BOMS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WIDE: Final = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
_CONTROLS: Final = bytes({*range(32), 127} - {0, 7, 8, 9, 10, 12, 13, 27})

# Escape sequences of terminals: CSI, OSC (links, titles), string commands, two-character ones. The ESC may also be
# lost or written out, see below.
_ESCAPE: Final = (
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)|[PX^_][^\x1b\n]{0,4096}\x1b\\"
    r"|[ -/]{1,4}[0-~]|[0-Z\\-~])?"
)
_ESCAPE_TEXT: Final = lazy(_ESCAPE)
_ESCAPE_BYTES: Final = lazy(_ESCAPE.encode())
_WRITTEN: Final = lazy(r"(?:\^\[|\\x1b|[\\#]033|\\u001[bB]|\\e|[\u241b\ufffd])\[[0-9;]{0,16}[A-Za-z]")
# Colour codes whose ESC was lost on the way: "[2m...[0m [31mERROR[0m". A duration such as "[1m20s" is none.
_LOST: Final = lazy(
    r"\[(?:[0-9]|2[1-9]|0[1-9]|[34][0-9]|9[0-7]|10[0-7]|[34]8;5;\d{1,3})(?:;\d{1,3}){0,4}m(?![\d ]\d)|\[m$"
)
_CONTROL_TEXT: Final = lazy(
    r"[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f\ufeff\xad\u200b-\u200e\u200f\u2028\u2029\x85"
    r"\u061c\u202a-\u202e\u2060-\u2064\u2066-\u2069"  # marks that are not seen, or turn the text behind them
    r"\ud800-\udfff]"  # halves of a pair, which JSON and Python can spell and no file can hold
)

# What scanners of paper, chat programs and web pages make of ASCII punctuation. All in UTF-8 they begin with c2, e2,
# e3 or ef.
_LOOKALIKES: Final = {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)} | {
    "\u3000": " ", "\u00a0": " ", "\u202f": " ", "\u2007": " ", "。": ".", "、": ",", "【": "[", "】": "]",
    "‘": "'", "’": "'", "“": '"', "”": '"', "〔": "[", "〕": "]",
}  # fmt: skip
_LOOKALIKE_TEXT: Final = str.maketrans(_LOOKALIKES)
_LOOKALIKE_BYTES: Final = lazy(b"|".join(re.escape(char.encode()) for char in _LOOKALIKES))
_ASCII_OF: Final = {char.encode(): plain.encode() for char, plain in _LOOKALIKES.items()}
# The bytes that the ones worth a rewritten block begin with; quotation marks stand in no phrase.
_LEADS: Final = ((b"\xef", b"\xef\xbc"), (b"\xef", b"\xef\xbd"), (b"\xc2", b"\xc2\xa0"), (b"\xe3", b"\xe3\x80"))

_BINARY: Final = (
    (b"\x89PNG", "a PNG picture"), (b"\xff\xd8\xff", "a JPEG picture"), (b"GIF8", "a GIF picture"),
    (b"%PDF", "a PDF document"), (b"\x7fELF", "a program"), (b"MZ\x90", "a program"), (b"GGUF", "a model file"),
    (b"SQLite format 3", "a database"), (b"\x80\x04\x95", "a Python pickle"), (b"\x80\x02", "a Python pickle"),
    (b"OggS", "a sound file"), (b"\x93NUMPY", "an array file"),
)  # fmt: skip


def detect_encoding(name: str, sample: bytes) -> str:
    """The encoding of a file, from its first bytes: a codec's name.

    Raises UnreadableLog when they are no text.
    """
    for mark, what in _BINARY:
        if sample.startswith(mark):
            raise UnreadableLog(f"{name} is {what}, not a log. Send the text that the server printed.")
    for mark, encoding in _BOMS:
        if sample.startswith(mark) and (encoding == "utf-8-sig" or sample[:4096].count(0) > len(sample[:4096]) // 5):
            return encoding
    head = sample.lstrip(b"\0")[:4096]  # a file that was truncated while it was written begins with a hole of NULs
    pairs = len(head) // 2
    if pairs >= 4:
        even, odd = head[: 2 * pairs : 2].count(0), head[1 : 2 * pairs : 2].count(0)
        # The hole's own NULs may leave the first NUL of a big-endian text out, which turns the parity; look again.
        if max(even, odd) > 0.4 * pairs and min(even, odd) < 0.05 * pairs:
            start = len(sample) - len(sample.lstrip(b"\0"))
            return "utf-16-le" if (odd > even) == (start % 2 == 0) else "utf-16-be"
    head = sample.replace(b"\0", b"")
    if sample and not head:
        raise UnreadableLog(f"{name} holds no text. Send the log that the server printed.")
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if controls > max(8, 0.02 * len(head)):
        raise UnreadableLog(f"{name} is binary, not text. Send the log that the server printed.")
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return "utf-8" if _has_utf8(head) else "latin-1"
    return "utf-8"


def _has_utf8(sample: bytes) -> bool:
    return re.search(rb"[\xc3-\xdf][\x80-\xbf](?![\x80-\xbf])|[\xe1-\xef][\x80-\xbf]{2}|\xf0[\x90-\xbf][\x80-\xbf]{2}",
                     sample) is not None  # fmt: skip


def is_wide(encoding: str) -> bool:
    """Whether one character takes two or four bytes, so that the stream is rewritten before it is scanned."""
    return encoding in _WIDE


class Narrowed(io.RawIOBase):
    """A UTF-16 or UTF-32 stream as UTF-8, a piece at a time; what cannot be decoded becomes U+FFFD."""

    def __init__(self, stream: io.RawIOBase, encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._ready = b""
        self._first = True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while not self._ready:
            piece = self._stream.read(64 << 10) or b""
            text = self._decoder.decode(piece, final=not piece)
            if self._first and text:
                text, self._first = text.removeprefix("\ufeff"), False
            self._ready = text.encode("utf-8", "replace")
            if not piece:
                break
        count = min(len(buffer), len(self._ready))
        buffer[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        return count


def decode(raw: bytes) -> str:
    """One line's text: UTF-8 where it is, else Latin-1 where no UTF-8 is in it, else with U+FFFD for what is broken."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        if _has_utf8(raw):
            return raw.decode("utf-8", "replace")
        return raw.decode("latin-1")


def without_marks(text: str) -> str:
    """A text without control codes, marks that are not seen and halves of pairs; tabs and line ends stay."""
    return text if text.isprintable() else _CONTROL_TEXT.sub("", text)


def clean(text: str) -> str:
    """A line without control codes and with ASCII punctuation for its lookalikes; tabs stay."""
    if "\x1b" in text:
        text = _ESCAPE_TEXT.sub("", text)
    text = without_marks(text)
    if not text.isascii():
        text = text.translate(_LOOKALIKE_TEXT)
    if "[[" in text or "\\" in text or "#033[" in text or "\u241b" in text or "\ufffd" in text:
        text = _WRITTEN.sub("", text)
    return _LOST.sub("", text)


def without_escapes(block: bytes) -> bytes:
    """A block without terminal escapes and NULs, its lines and their ends untouched."""
    if b"\x1b" in block:
        block = _ESCAPE_BYTES.sub(b"", block)
    return block.replace(b"\0", b"") if b"\0" in block else block


def clean_block(block: bytes) -> bytes:
    """A block in which phrases can be found: no escapes, no NULs, ASCII punctuation; its line ends are untouched.

    Returns the block itself when there is nothing to clean, which costs a few passes of memchr.
    """
    block = without_escapes(block)
    if not block.isascii() and any(byte in block and lead in block for byte, lead in _LEADS):
        block = _LOOKALIKE_BYTES.sub(lambda found: _ASCII_OF[found[0]], block)
    return block
