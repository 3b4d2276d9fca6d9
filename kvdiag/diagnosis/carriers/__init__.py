"""Carriers: what docker, Kubernetes, journald, Slurm, Ray and people put around a line, one file for each.

Wrappers nest (a compose prefix around docker's time around Ray's process), so they are peeled one after another.
"""

from __future__ import annotations

from kvdiag.diagnosis.carriers import (
    compose,
    docker,
    github_actions,
    journald,
    kubernetes,
    quoting,
    ray,
    records,
    slurm,
    stamps,
    strings,
    torchrun,
)
from kvdiag.diagnosis.carriers.carrier import Carrier, Peeled
from kvdiag.diagnosis.decoding import clean

__all__ = ["CARRIERS", "Carrier", "Peeled", "peel"]

# In the order in which they are tried: the particular before the general.
CARRIERS: tuple[Carrier, ...] = (
    records.JSON,
    strings.STRINGS,
    quoting.QUOTED,
    ray.RAY,
    kubernetes.CRI,
    github_actions.RUN,
    github_actions.STAMP,
    journald.ISO,
    docker.TIMESTAMPS,
    journald.FULL,
    journald.SHORT,
    journald.SYSLOG,
    journald.EXPORT,
    kubernetes.PREFIX,
    torchrun.TORCHRUN,
    kubernetes.STERN,
    compose.COMPOSE,
    stamps.STAMP,
    stamps.SHORT,
    slurm.SLURM,
    quoting.MARKED,
)
_BY_FIRST: dict[str, tuple[Carrier, ...]] = {
    char: tuple(each for each in CARRIERS if char in each.first)
    for char in frozenset().union(*(c.first for c in CARRIERS))
}
_DEEPEST = 5


def peel(text: str, names: set[str]) -> Peeled:
    """The line without its wrappers and without the blanks before it; the names of what was peeled go into `names`.

    The outermost wrapper that names a node gives the node, the innermost that gives a time the clock.
    """
    clock: str | None = None
    node, host, cut = "", False, False
    text = spelled = text.lstrip(" \t")
    for _ in range(_DEEPEST):
        if text[:1] == "[" and text[1:3].isdigit():
            break  # SGLang's own prefix
        found = None
        for carrier in _BY_FIRST.get(text[:1], ()):
            found = (carrier.again if carrier.again and carrier.name in names else carrier.peel)(text)
            if found is not None:
                names.add(records.Records.name_of(text) if carrier is records.JSON else carrier.name)
                break
        if found is None:
            break
        clock = found.clock or clock
        if found.node and not node:
            node, host = found.node, found.host
        cut = cut or found.cut
        text = found.text.lstrip(" \t")
    if "\\u" in spelled and text is not spelled:  # as an escape JSON holds what no line does
        text, node = clean(text), clean(node)
    return Peeled(text, clock, node, host=host, cut=cut)
