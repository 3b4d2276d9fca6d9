"""A time before the line from a tool that names nothing else: `ts`, `awk`, supervisors, loggers, the command
lines of Loki, AWS and Google Cloud. Also the head of a record of Python's logging in another format than SGLang's.
"""

from __future__ import annotations

import re

from kvdiag.diagnosis.carriers.carrier import DIGITS, LETTERS, LOOKS_PRINTED, MONTHS, Carrier, Peeled
from kvdiag.diagnosis.lazy import lazy

_LEVEL = r"(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|NOTICE)"
_ISO = r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)(?:Z|[+-]\d\d:?\d\d| UTC)?"
_TAIL = lazy(rf"{_ISO} (\S{{1,512}}) (?=\[)")  # aws logs tail: time, stream
_TAIL_AGAIN = lazy(rf"{_ISO} ([\w$.-]{{1,200}}/[\w/\[\]$.-]{{0,300}}\w) ")
_LOKI = lazy(rf"{_ISO} (\{{[^{{}}\n]{{0,2000}}\}}) ")
_TS = lazy(rf"(?:{MONTHS}) [ \d]\d (\d\d:\d\d:\d\d(?:\.\d{{1,6}})?) ")
_LOGGING = lazy(
    rf"{_ISO}\s{{0,3}}(?:[-|:]\s{{0,3}})?(?:\[?{_LEVEL}\]?\s{{0,8}}[-|:]?\s{{0,3}}[\w.]{{1,120}}(?:[:.]\w{{1,80}}){{0,2}}\s?[-|:]\s"
    rf"|[\w.]{{1,120}}(?::\d{{1,6}})?\s[-|:]\s\[?{_LEVEL}\]?\s[-|:]\s"
    rf"|\[?{_LEVEL}\]?\s{{1,8}}[-|:]?\s?(?:\d{{1,7}} (?=\[))?)"
)
_PLAIN = lazy(rf"\[?{_ISO}\]?[ :|\t]\s{{0,3}}(?:- )?")
# Google Cloud's logging: severity, time in UTC.
_SEVERITY = lazy(r"[A-Z]{4,9} (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?)Z ")
_BASIC = lazy(rf"{_LEVEL}:[\w.]{{1,120}}:")
_HEAD = lazy(rf"{_LEVEL}\s{{1,4}}(?:\d\d-\d\d \d\d:\d\d:\d\d )?\[?[\w./-]{{1,120}}:\d{{1,6}}\]?:?\s")


def _behind(text: str, found: re.Match[str]) -> Peeled:
    return Peeled(text[found.end() :], f"{found[1]}T{found[2].replace(',', '.')}")


def _stamp(text: str) -> Peeled | None:
    for pattern in (_LOGGING, _TAIL, _LOKI):
        if found := pattern.match(text):
            return _behind(text, found)
    found = _PLAIN.match(text)
    return _behind(text, found) if found and LOOKS_PRINTED.match(text, found.end()) else None


def _stamp_again(text: str) -> Peeled | None:
    """The same where lines have such a stamp, so that those of a traceback need not look printed."""
    if (known := _stamp(text)) is not None:
        return known
    found = _TAIL_AGAIN.match(text) or _PLAIN.match(text)
    return _behind(text, found) if found else None


def _short_again(text: str) -> Peeled | None:
    found = _TS.match(text)
    return _short(text) or (Peeled(text[found.end() :], found[1]) if found else None)


def _short(text: str) -> Peeled | None:
    found = _TS.match(text)
    if found and LOOKS_PRINTED.match(text, found.end()):
        return Peeled(text[found.end() :], found[1])
    if found := _SEVERITY.match(text):
        return Peeled(text[found.end() :], found[1])
    if found := _BASIC.match(text):
        return Peeled(text[found.end() :])
    return None


def peel_head(text: str) -> str:
    """A message without `INFO server_args.py:1835: ` or `WARNING:sglang.srt.server_args:` before it."""
    if text[:1] in "DIWECN" and (found := _HEAD.match(text) or _BASIC.match(text)):
        return text[found.end() :]
    return text


STAMP = Carrier("stamped", DIGITS, _stamp, _stamp_again)
SHORT = Carrier("stamped", LETTERS, _short, _short_again)
