"""What people put before a line when they pass it on: e-mail quoting, list bullets, diff marks, code fences."""

from __future__ import annotations

from kvdiag.diagnosis.carriers.carrier import LOOKS_PRINTED, Carrier, Peeled
from kvdiag.diagnosis.lazy import lazy

_QUOTED = lazy(r"(?:> ?){1,8}")
_MARKED = lazy(r"(?:[-*+•|│] |`{1,3}(?:\w{1,12} )?|\d{1,7}[:|│\t] ?|\d{1,7}[-→] ?)")


def _quoted(text: str) -> Peeled | None:
    found = _QUOTED.match(text)
    return Peeled(text[found.end() :]) if found else None


def _marked(text: str) -> Peeled | None:
    found = _MARKED.match(text)
    if not found or not LOOKS_PRINTED.match(text, found.end()):
        return None
    return Peeled(text[found.end() :].rstrip("`").rstrip())


QUOTED = Carrier("quoted", frozenset(">"), _quoted)
MARKED = Carrier("marked", frozenset("-*+•|│`0123456789"), _marked)
