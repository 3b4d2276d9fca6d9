"""Ray: `(Actor pid=123, ip=10.0.0.2) ` before a line, `[repeated 7x across cluster]` after it."""

from __future__ import annotations

from kvdiag.diagnosis.carriers.carrier import Carrier, Peeled
from kvdiag.diagnosis.lazy import lazy

_ACTOR = lazy(r"\(([\w.<>:-]{1,120}(?:\([^)]{0,80}\))?) (?:pid=(\d{1,10}))(?:, ip=([\w.:-]{1,64}))?\) ?")
_BARE = lazy(r"\((?:pid=(\d{1,10}))(?:, ip=([\w.:-]{1,64}))?\) ?")
_REPEATED = lazy(r"\s*\[repeated \d{1,9}x across (?:cluster|all nodes)\][^\n]{0,200}$")


def _peel(text: str) -> Peeled | None:
    if found := _ACTOR.match(text):
        pid, address = found[2], found[3]
    elif found := _BARE.match(text):
        pid, address = found[1], found[2]
    else:
        return None
    node = f"pid={pid}" + (f" ip={address}" if address else "")
    return Peeled(_REPEATED.sub("", text[found.end() :]), node=node)


RAY = Carrier("ray", frozenset("("), _peel)
