"""Messages that were cut into several lines: by a terminal, an editor, an e-mail program, or by hand.

Two ways back. A file that is wrapped at one width throughout is joined before it is scanned, so that a phrase broken in
two is found. In any other file a line that is plainly cut takes its continuation with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from kvdiag.diagnosis.decoding import clean
from kvdiag.diagnosis.lazy import lazy

NARROWEST: Final = 40
WIDEST: Final = 250  # SGLang's own lines are longer, so a file without a longer line has been wrapped
_ENOUGH: Final = 3  # full lines with a continuation
_TERMINALS: Final = (80, 100, 120, 132, 160, 200)  # columns; there two full lines and no other are enough
LONGEST_JOIN: Final = 64 << 10

# What the line behind a wrapped one begins with when it is a line of its own.
_OWN: Final = lazy(
    "|".join(
        (
            r"\[?\d{4}-\d\d-\d\d[T ]\d\d:",
            r"\[?\d\d:\d\d:\d\d",
            r"\[(?:DP|TP|PP|EP)\d",
            r"Traceback \(most",
            r"  File \"",
            r"[\w.]{0,80}(?:Error|Exception): ",
            r"(?:INFO|WARNING|ERROR|DEBUG)[: ]",
            r"```",
            r"#+ ",
            r"\s*$",
            r"[|+]",  # a table
            r"[\w@.-]{1,80}[:~][^ ]{0,200}[$#] ",  # a shell's prompt
            r"\(\w+ pid=",
            r"[A-Z][a-z]{2} [ \d]\d \d\d:",
            r"\{\"",
            r"\d+: ",
            r"(?:Prefill|Decode)\. |Benchmark|Warmup|max_total_num_tokens=\d|Load weight (?:begin|end)|KV Cache is",
            r"Memory pool end|Capture (?:\w+ ){1,4}(?:begin|end)|Init torch|The server is fired",
            r"\w[\w.-]{0,80}-\d+ +\| ",
        )
    )
)
_LOG: Final = lazy(
    r"(?s)server_args|^.{0,60}\[(?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d|avail mem|Load weight|sglang|SGLang|out of memory"
    r"|KVPool|max_total_num_tokens|torch\."
)
# No line of SGLang ends so: with its own prefix, or with an arrow.
_POINTS_ON: Final = lazy(r"->$|:\d\d(?:\.\d{1,6})?(?: [A-Z][A-Z_]{1,15}\d{1,6}){0,8}\]$")
# The parts that PyTorch's message is broken into by hand.
_OOM: Final = lazy(
    r"\s*(?:Tried to allocate|GPU (?:\d+ )?has|NPU \d+|HIP |XPU |Process (?:\d+ )?has|Including non-PyTorch"
    r"|Of the allocated|of which|is free|memory in use|with [\d.]+ [KMG]iB|and [\d.]+ [KMG]iB"
    r"|[\d.]+ [KMG]iB|is allocated|is reserved|allocated by|by PyTorch|If reserved|reserved by|unallocated"
    r"|has a total|capacity of|\(GPU|total capacity|already allocated|reserved in total|in private"
    r"|CUDA Graphs|PyTorch|try setting|See documentation|to avoid|fragmentation)"
)
# The parts of SGLang's refusal, which names the fraction that would do at its end.
_REFUSAL: Final = lazy(
    r"\s*(?:leave|no GPU|GPU memory|memory for|for the KV|the KV|KV cache|cache under|under|--mem-fraction-static|Raise"
    r"|above|[\d.]+ |\(minimum|minimum|viable|= \d|\d - available|- available|available/pre|/|pre =|If using|using"
    r"|speculative|decoding|draft|weights are|are now|now counted|counted)"
)
_ASKED: Final = lazy(r"Tried to allocate [\d.]+ \w+\.\s*$")  # the message's first sentence alone
_MEMORY: Final = lazy(
    r"\s*(?![\w.]{0,80}(?:Error|Exception): )"
    r"(?:\w[\w #-]{0,40}(?:=|: )\S|avail mem|mem usage|[KV] size|available_gpu_mem)"
)
_BRACKET: Final = lazy(r"\s*\(\w+=\d")


def is_own_line(text: str) -> bool:
    """Whether a line begins as none does that goes on another: a log line, a prompt, a table, nothing at all."""
    return bool(_OWN.match(text))


class Wrap(NamedTuple):
    """How a file was wrapped: its width in characters, and whether words were cut (hard) or kept whole."""

    width: int
    hard: bool


def wrap_of(block: bytes) -> Wrap | None:
    """How a file's lines were wrapped, judged by its first block; None where they were not."""
    if len(block) > WIDEST * 4 and max(map(len, block[: 64 << 10].split(b"\n"))) > WIDEST * 4:
        return None
    lines = _lines(block)
    width = max(map(len, lines), default=0)
    if not NARROWEST <= width <= WIDEST or not any(_LOG.search(line) for line in lines):
        return None
    exact = cut = whole = blanks = 0
    for line, after in zip(lines, lines[1:], strict=False):
        if _is_full(line, after, width) and not _OWN.match(after):
            exact += len(line) == width and not _is_one_word(line, after, width)
            cut += len(line) == width
            blanks += len(line) == width and (line[-1:] == " " or after[:1] == " ")
            whole += 1
    if whole < _ENOUGH and not (whole == exact == 2 and width in _TERMINALS):
        return None
    # A blank at the edge is dropped where words are kept whole. A few lines look wrapped by chance.
    return Wrap(width, hard=exact >= (0.4 if blanks else 0.65) * (whole - cut + exact))


def _lines(block: bytes) -> list[str]:
    """The lines of a block as a terminal shows them."""
    lines = block.decode("utf-8", "replace").split("\n")
    if b"\x1b[" in block or b"[0m" in block:
        return [clean(line.rstrip("\r")) for line in lines]
    return [line.rstrip("\r") for line in lines]


def _is_full(line: str, after: str, width: int) -> bool:
    """Whether the next line's first word had no room on this one. Indented lines were printed so."""
    if not line or not after.strip():
        return False
    if len(line) >= width:
        return True
    word = after.split(None, 1)[0]
    return not after[:1].isspace() and len(line) + 1 + len(word) > width and len(word) <= width


def _is_one_word(line: str, after: str, width: int) -> bool:
    """Whether a word longer than the width goes on in the next line: it is cut even where words are kept whole."""
    if len(line) != width or line[-1:].isspace() or after[:1].isspace() or not after:
        return False
    return len(line.rsplit(None, 1)[-1]) + len(after.split(None, 1)[0]) > width


def unwrap(block: bytes, number: int, wrap: Wrap) -> tuple[bytes, list[int]]:
    """A block with its wrapped lines joined, and the physical number of each line that is left, from `number` on."""
    joined = whole_lines(block, wrap)
    numbers: list[int] = []
    for parts in joined:
        numbers.append(number)
        number += len(parts)
    ended = block[-1:] == b"\n"
    return "\n".join("".join(parts) for parts in joined).encode("utf-8", "replace") + (b"\n" if ended else b""), numbers


def whole_lines(block: bytes, wrap: Wrap) -> list[list[str]]:
    """The lines of a block as they were before they were wrapped: the physical lines of each, with what joins them."""
    lines = _lines(block)
    if not lines[-1]:
        lines.pop()
    joined: list[list[str]] = []
    open_line = False
    length = 0
    for at, line in enumerate(lines):
        if open_line and length < LONGEST_JOIN and (_POINTS_ON.search(lines[at - 1]) or not _OWN.match(line)):
            whole_word = wrap.hard or _is_one_word(lines[at - 1], line, wrap.width)
            joined[-1].append(line if whole_word else " " + line.lstrip())
            length += len(line)
        else:
            joined.append([line])
            length = len(line)
        open_line = at + 1 < len(lines) and _is_full(line, lines[at + 1], wrap.width)
        open_line = open_line and (not wrap.hard or len(line) == wrap.width)
    return joined


def broken(text: str, count: int, wrap: Wrap) -> list[str]:
    """A text in `count` lines as the file is wrapped; the last one takes what does not fit."""
    lines = []
    for _ in range(count - 1):
        cut = min(len(text), wrap.width)
        blank = -1 if wrap.hard or len(text) <= wrap.width else text.rfind(" ", 1, wrap.width + 1)
        lines.append(text[:blank] if blank > 0 else text[:cut])
        text = text[blank + 1 :] if blank > 0 else text[cut:]
    return [*lines, text]


def join_cut(text: str, following: Callable[[int], tuple[str, ...]]) -> tuple[str, int]:
    """The message with its continuation where it is plainly cut, and how many of the following lines that took."""
    if "out of memory" in text and "GiB" not in text and "is free" not in text:
        return _join(text, following(14), _OOM, blanks=2)
    if "out of memory" in text and _ASKED.search(text):
        return _join(text, following(14), _OOM, blanks=0)
    if "out of memory" in text and not text.rstrip().endswith((".", ")", "VARS", "!")):
        return _join(text, following(14), _OOM, blanks=0)
    if "Loaded weights leave" in text and "minimum viable" not in text:
        return _join(text, following(6), _REFUSAL, blanks=0)
    if text.endswith((",", "=", ":")) and ("=" in text or ":" in text) and len(text) < 400:
        return _join(text, following(3), _MEMORY, blanks=0)
    if text.endswith(" cache") and len(text) < 400:
        return _join(text, following(3), _BRACKET, blanks=0)  # a sentence broken before the figures in its brackets
    if ("server_args=" in text or "ServerArgs(" in text) and _depth(text) > 0:
        return _join_arguments(text, following(400))
    return text, 0


def _join(text: str, following: tuple[str, ...], wanted: re.Pattern[str], *, blanks: int) -> tuple[str, int]:
    parts = [text.rstrip()]
    taken = 0
    for at, line in enumerate(following, 1):
        if not line.strip():
            blanks -= 1
            if blanks < 0:
                break
            continue
        if not wanted.match(line):
            break
        parts.append(line.strip())
        taken = at
    return " ".join(parts), taken


def _join_arguments(text: str, following: tuple[str, ...]) -> tuple[str, int]:
    """Arguments that were cut at a width: joined while they look like it and until their brackets close."""
    if not following or len(following[0]) > WIDEST + 50:
        return text, 0
    parts = [text]
    depth = _depth(text)
    for line in following:
        if depth <= 0 or not line.strip() or _OWN.match(line):
            break
        parts.append(" " + line.strip() if parts[-1].endswith((",", ":")) else line)
        depth += _depth(line)
    joined = depth <= 0 or len(parts) > 3
    return ("".join(parts), len(parts) - 1) if joined else (text, 0)


def _depth(text: str) -> int:
    return text.count("(") + text.count("{") - text.count(")") - text.count("}")
