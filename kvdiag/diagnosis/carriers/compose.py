"""Docker Compose: `worker-1  | ` before every line, or before some."""

from __future__ import annotations

import re

from kvdiag.diagnosis.carriers.carrier import LETTERS, Carrier, Peeled
from kvdiag.diagnosis.lazy import lazy

_SERVICE = lazy(r"([A-Za-z][A-Za-z0-9_.-]{0,80}?) *\| ?")


def _peel(text: str) -> Peeled | None:
    found = _SERVICE.match(text)
    if not found:
        return None
    # One bare word before a bar is a table's cell as likely as a service.
    named = "-" in found[1] or "_" in found[1] or text.startswith("  ", found.end(1))
    if not named and not _stamped(text[found.end() :]):
        return None
    return Peeled(text[found.end() :], node=found[1])


def _again(text: str) -> Peeled | None:
    found = _SERVICE.match(text)
    return Peeled(text[found.end() :], node=found[1]) if found else None


def _stamped(text: str) -> bool:
    return re.match(r"\[?\d{4}-\d\d-\d\d[ T]\d\d:|\[\d\d:\d\d:\d\d", text) is not None


COMPOSE = Carrier("compose", LETTERS, _peel, _again)
