"""Docker: the json-file driver's records, and what `docker logs -t` and other collectors put before a line."""

from __future__ import annotations

from kvdiag.diagnosis.carriers.carrier import DIGITS, Carrier, Peeled
from kvdiag.diagnosis.lazy import lazy

_STAMP = lazy(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{8,9})(?:Z|[+-]\d\d:\d\d)[ \t]")


def _timestamps(text: str) -> Peeled | None:
    found = _STAMP.match(text)
    return Peeled(text[found.end() :], found[1]) if found else None


# kubectl logs --timestamps prints the same nine digits.
TIMESTAMPS = Carrier("docker", DIGITS, _timestamps)
