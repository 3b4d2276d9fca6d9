"""Kubernetes: `kubectl logs --prefix`, stern, and the container runtime's own files (CRI)."""

from __future__ import annotations

from kvdiag.diagnosis.carriers.carrier import DIGITS, LETTERS, Carrier, Peeled
from kvdiag.diagnosis.lazy import lazy

_PREFIX = lazy(r"\[(?:pod|po)/([^\s/\]]{1,253})/([^\s\]]{1,253})\] ?")
_STERN = lazy(
    r"(?:\+ )?([a-z0-9][a-z0-9.-]{1,250}) › ([a-z0-9-]{1,63}) ?[│|]? ?|([a-z0-9-]{4,250}) ([a-z0-9-]{1,63}) [│] ?"
)
_CRI = lazy(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?)(?:Z|[+-]\d\d:\d\d) (?:stdout|stderr) ([FP])(?::\w+)? ?")


def _pod(text: str) -> Peeled | None:
    found = _PREFIX.match(text)
    return Peeled(text[found.end() :], node=found[1]) if found else None


def _stern(text: str) -> Peeled | None:
    found = _STERN.match(text)
    return Peeled(text[found.end() :], node=found[1] or found[3]) if found else None


def _cri(text: str) -> Peeled | None:
    found = _CRI.match(text)
    return Peeled(text[found.end() :], found[1], cut=found[2] == "P") if found else None


PREFIX = Carrier("kubernetes", frozenset("["), _pod)
STERN = Carrier("kubernetes", frozenset("+") | LETTERS | DIGITS, _stern)
CRI = Carrier("cri", DIGITS, _cri)
