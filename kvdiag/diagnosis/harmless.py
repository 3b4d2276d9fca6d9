"""The bulk of a log: lines that are alike but for their digits hide nothing, or a client's address and nothing else.

Batch lines and progress bars speak of tokens, and so call for patterns of secrets at every line. Where a line holds
nothing but keys and figures, and nothing in it was hidden, another that differs in digits alone has nothing to hide
either. Access lines name a client each: where its address was all that was hidden, it is in another alike.
"""

from __future__ import annotations

import re
from typing import Final

from kvdiag.diagnosis.lazy import lazy

_DIGITS: Final = b"0123456789"
_SHAPES: Final = 256  # more wordings than any log has
# What journald, syslog, Kubernetes, Docker and Compose write before a line. No part of a host's name begins with a
# digit, as those of an address do.
_TIME = (
    r"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)"
)
_HOST = r"[A-Za-z][\w-]{0,62}(?:\.[A-Za-z][\w-]{0,62}){0,6}"
_CARRIED = (
    rf"(?:[A-Za-z][\w.-]{{0,62}} {{0,62}}\| {{1,2}})?(?:{_TIME} (?:std(?:out|err) [FP] )?)?"
    rf"(?:{_HOST} [A-Za-z][\w.@-]{{0,62}}(?:\[\d{{1,10}}\])?: )?"
)
# A batch line of nothing but keys and figures. No figure holds two dots or a colon, as an address does.
FIGURES: Final = re.compile(
    rf"{_CARRIED}"
    r"(?:\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?(?: [A-Z][A-Z_]{0,15}\d{1,6}){0,8}\] )?"
    r"[A-Za-z ]{1,40}(?:\[\d{1,12}\])?[.,] "
    r"(?:[#A-Za-z][#A-Za-z /().-]{0,60}: (?:-?\d{1,20}(?:\.\d{1,20})?%?|True|False)(?:, |,?$)){1,40}"
)
# A bar: words, shares, counts and times.
BAR: Final = lazy(
    r"[A-Za-z][A-Za-z -]{0,60}(?:\((?:\w{1,20}=\d{1,12}(?:\.\d{1,6})?(?: GB)?,? ?){1,4}\))?: *\d{1,3}%(?: Completed)? *"
    r"(?:\|[ #0-9\u2580-\u259f]{0,200})?"
    r"(?:\| *\d{1,9}/\d{1,9} \[[\d:?]{1,12}<[\d:?]{1,12}(?:, *(?:\d{1,9}(?:\.\d{1,6})?|\?)(?:it/s|s/it))?\])? *"
)
# An access line of uvicorn's with a client's IPv4 address. No part of its path holds digits, but for a version's.
_OCTET = rb"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
ACCESS: Final = lazy(
    rb"(" + _CARRIED.encode() + rb"INFO: {1,10})(" + _OCTET + rb"(?:\." + _OCTET + rb"){3})"
    rb"(:\d{1,5} - \"[A-Z]{3,7} (?:/(?:v\d|[a-z][a-z_-]{0,30})){0,6}/? HTTP/\d\.\d\" \d{3}[A-Za-z ]{0,40})"
)
_PSEUDONYM: Final = re.compile(rb"addr-\d{1,9}")
_ADDRESSES: Final = 1 << 16
# Keys whose figure may be a secret.
_NAMES: Final = lazy(r"(?i)pass|secret|key|cred|auth|\bpin\b|\bcode\b|login|user")


class Harmless:
    """The shapes of lines that were seen to hide nothing; a shape is a line without its digits."""

    def __init__(self) -> None:
        self._shapes: set[bytes] = set()

    def __contains__(self, raw: bytes) -> bool:
        return raw.translate(None, _DIGITS) in self._shapes

    def learn(self, raw: bytes, text: str) -> None:
        """Notes a line in which nothing was hidden, where its form allows no secret of digits."""
        is_figures = FIGURES.fullmatch(text) or BAR.fullmatch(text)
        if is_figures and len(self._shapes) < _SHAPES and not _NAMES.search(text):
            self._shapes.add(raw.translate(None, _DIGITS))


class Addressed:
    """Access lines in which a client's address was all that was hidden, and what stands for each address."""

    def __init__(self) -> None:
        self._shapes: set[bytes] = set()
        self._names: dict[bytes, bytes] = {}

    def masked(self, raw: bytes) -> bytes | None:
        """A line with its address hidden; None where it is not known how."""
        found = ACCESS.fullmatch(raw)
        if found is None:
            return None
        head, address, rest = found.groups()
        name = self._names.get(address)
        return head + name + rest if name is not None and _shape(head, rest) in self._shapes else None

    def learn(self, raw: bytes, masked: bytes) -> None:
        """Notes how a line was masked, where its form allows nothing to hide but the address."""
        if len(self._names) >= _ADDRESSES or len(self._shapes) >= _SHAPES or (found := ACCESS.fullmatch(raw)) is None:
            return
        head, address, rest = found.groups()
        name = masked[len(head) : len(masked) - len(rest)]
        if masked == head + name + rest and _PSEUDONYM.fullmatch(name) and not _NAMES.search(raw.decode()):
            self._shapes.add(_shape(head, rest))
            self._names[address] = name


def _shape(head: bytes, rest: bytes) -> bytes:
    return (head + b"@" + rest).translate(None, _DIGITS)
