"""SGLang's own prefix: `[2025-05-01 10:00:00 DP0 TP3 EP3] `, in the forms of every release.

The date came with 0.3.6, milliseconds with 0.5.6 (SGLANG_LOG_MS). The order of the tokens changed four times: they
are read as a set. Sources: sglang/srt/utils/common.py: configure_logger(); managers/scheduler.py:
configure_scheduler_process().
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from kvdiag.diagnosis.lazy import lazy

_STAMP: Final = r"(?:(\d{4}-\d\d-\d\d)[ T])?(\d\d:\d\d:\d\d(?:[.,]\d{1,6})?)"
_TOKEN: Final = r"(?:[A-Z][A-Z_]{0,15}\d{1,6}|encode_server|encode_dp_worker\[\d{1,6}\])"
_MODE: Final = r"(?: [A-Z]\w{0,30}\.[A-Z]\w{0,30})?"  # an enumeration's value that some builds print before the ranks
_TOKENS: Final = rf"{_MODE}((?:[ ,]{{0,2}}{_TOKEN}){{0,8}})"
_BRACKETED: Final = lazy(rf"\[{_STAMP}{_TOKENS} ?\]")
_UNOPENED: Final = lazy(rf"{_STAMP}{_TOKENS}\](?=\s|$)")  # the opening bracket was lost
_TIMELESS: Final = lazy(
    r"\[((?:[ ,]{0,2}(?:DP|PP|TP|EP|ATTN_CP|MOE_DP)\d{1,6}){1,8}|encode_server|encode_dp_worker\[\d{1,6}\])"
    r"(?: [\w.]{1,80}\.py:\d{1,6})?\](?=\s)"  # with the place in the source that another format of logging prints
)
# A record that stands within a line: behind a bar, or behind a record that lost its line end.
_RECORD_START: Final = lazy(
    rf"\[(?:\d{{4}}-\d\d-\d\d[ T])?\d\d:\d\d:\d\d(?:[.,]\d{{1,6}})?{_MODE}(?:[ ,]{{0,2}}{_TOKEN}){{0,8}} ?\]"
)
# The same of a collector's record: its time glued onto text.
_STAMP_START: Final = lazy(r"(?<=[^\s\[\"'(])\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6,9}Z(?= )")
# What a shell printed, or another start, behind a line that a kill cut.
_SHELL_START: Final = lazy(r"(?<=[\w.,])(?<!OOM)(?:Killed$|python3? -m sglang\.|sglang serve )")
_KEY: Final = lazy(r"(DP|PP|TP|EP|ATTN_CP|MOE_DP)(\d{1,6})")


@dataclass(frozen=True, slots=True)
class Rank:
    """One process's coordinates; None where its prefix does not name one.

    A missing TP means "TP size 1" from 0.4.6 on and "no scheduler" before; the message decides.
    """

    dp: int | None = None
    pp: int | None = None
    tp: int | None = None
    ep: int | None = None
    attn_cp: int | None = None
    moe_dp: int | None = None
    process: str = ""  # encode_server, encode_dp_worker[0]

    @classmethod
    def parse(cls, text: str) -> Rank:
        """The coordinates in a prefix's tokens, in whatever order they stand."""
        found = {key.lower(): int(number) for key, number in _KEY.findall(text)}
        return cls(**found, process=text.strip() if text.strip().startswith("encode_") else "")


class Prefix(NamedTuple):
    """What stood before a message: its time, its rank's tokens and where the message begins."""

    clock: str | None
    rank: str
    end: int


def read_prefix(text: str) -> Prefix | None:
    """The prefix that a text begins with."""
    found = _BRACKETED.match(text) or _UNOPENED.match(text)
    if found:
        date, time, rank = found.groups()
        time = time.replace(",", ".")
        return Prefix(f"{date}T{time}" if date else time, _spelled(rank), found.end())
    if text[:1] == "[" and (found := _TIMELESS.match(text)):
        return Prefix(None, _spelled(found[1]), found.end())
    return None


def _spelled(tokens: str) -> str:
    return " ".join(tokens.replace(",", " ").split())


def may_be_glued(text: str) -> bool:
    """Whether a shell's word, or a launch command, may stand on the text with nothing between."""
    return text.endswith("Killed") or " -m sglang." in text or "sglang serve " in text


def record_starts(text: str) -> list[int]:
    """Where records begin within a text, its own beginning aside."""
    starts: list[int] = []
    if may_be_glued(text):
        starts += [found.start() for found in _SHELL_START.finditer(text)]
    if text.find("[", 1) >= 0:
        starts += [found.start() for found in _RECORD_START.finditer(text) if found.start()]
    if "Z " in text:
        starts += [found.start() for found in _STAMP_START.finditer(text) if found.start()]
    return sorted(starts)
