"""GitHub Actions: a stamp with seven digits before every line; `gh run view --log` adds job and step."""

from __future__ import annotations

from kvdiag.diagnosis.carriers.carrier import DIGITS, LETTERS, Carrier, Peeled
from kvdiag.diagnosis.lazy import lazy

_STAMP = lazy(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7})Z (?:##\[\w{1,20}\])?")
_RUN = lazy(r"[^\t\n]{1,200}\t[^\t\n]{1,200}\t(?=\ufeff?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z )\ufeff?")


def _stamp(text: str) -> Peeled | None:
    found = _STAMP.match(text)
    return Peeled(text[found.end() :], found[1]) if found else None


def _run(text: str) -> Peeled | None:
    found = _RUN.match(text) if "\t" in text else None
    return Peeled(text[found.end() :]) if found else None


STAMP = Carrier("github_actions", DIGITS, _stamp)
RUN = Carrier("github_actions", LETTERS | DIGITS, _run)
