"""journald and syslog: `journalctl` in its short forms and its export form, RFC 3164 and 5424.

Their JSON form is read with the other JSON records.
"""

from __future__ import annotations

from kvdiag.diagnosis.carriers.carrier import DIGITS, LETTERS, MONTHS, Carrier, Peeled
from kvdiag.diagnosis.lazy import lazy

_HOST = r"([A-Za-z0-9][\w.:-]{0,253}) "
_UNIT = r"([\w@./:+\\-]{1,120})(?:\[(\d{1,10})\])?: ?"
_SHORT = lazy(rf"(?:(?:{MONTHS}) [ \d]\d(?: \d{{4}})? (\d\d:\d\d:\d\d(?:\.\d{{1,9}})?)) {_HOST}{_UNIT}")
# Seven digits of a second and more are another collector's.
_ISO = lazy(rf"(\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{{1,6}})?)(?:Z|[+-]\d\d:?\d\d) {_HOST}{_UNIT}")
_FULL = lazy(
    rf"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) (\d{{4}}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d{{1,9}})?) [A-Z]{{1,5}}[+\d:-]"
    rf"{{0,6}} {_HOST}{_UNIT}"
)
_UNIX = lazy(rf"\d{{10}}\.\d{{6}} {_HOST}{_UNIT}")
_MONOTONIC = lazy(rf"\[ *\d{{1,9}}\.\d{{6}}\] {_HOST}{_UNIT}")
_RFC5424 = lazy(
    r"<\d{1,3}>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?)\S{0,6} (\S{1,253}) (\S{1,48}) (\S{1,128}) (\S{1,32}) "
    r"(?:-|\[[^\]]{0,512}\]) ?(?:\ufeff)?"
)
_PRIORITY = lazy(r"<\d{1,3}>(?!1 )")
_EXPORT = lazy(r"MESSAGE=(?=\[?\d\d|[A-Z])")


def _short(text: str) -> Peeled | None:
    if found := _SHORT.match(text):
        return Peeled(text[found.end() :], found[1], found[2], host=True)
    if found := _MONOTONIC.match(text):
        return Peeled(text[found.end() :], None, found[1], host=True)
    return None


def _iso(text: str) -> Peeled | None:
    if found := _ISO.match(text):
        return Peeled(text[found.end() :], found[1], found[2], host=True)
    if found := _UNIX.match(text):
        return Peeled(text[found.end() :], None, found[1], host=True)
    return None


def _full(text: str) -> Peeled | None:
    found = _FULL.match(text)
    return Peeled(text[found.end() :], f"{found[1]}T{found[2]}", found[3], host=True) if found else None


def _syslog(text: str) -> Peeled | None:
    if found := _RFC5424.match(text):
        return Peeled(text[found.end() :], found[1], found[2] if found[2] != "-" else "", host=True)
    if found := _PRIORITY.match(text):
        return Peeled(text[found.end() :])
    return None


def _export(text: str) -> Peeled | None:
    found = _EXPORT.match(text)
    return Peeled(text[found.end() :]) if found else None


def _export_again(text: str) -> Peeled | None:
    return Peeled(text.removeprefix("MESSAGE=")) if text.startswith("MESSAGE=") else None


SHORT = Carrier("journald", LETTERS | frozenset("["), _short)
FULL = Carrier("journald", LETTERS, _full)
ISO = Carrier("journald", DIGITS, _iso)
EXPORT = Carrier("journald", frozenset("M"), _export, _export_again)
SYSLOG = Carrier("syslog", frozenset("<"), _syslog)
