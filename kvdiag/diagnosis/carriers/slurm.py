"""Slurm: `srun --label` puts the task's number before every line."""

from __future__ import annotations

from kvdiag.diagnosis.carriers.carrier import DIGITS, LOOKS_PRINTED, Carrier, Peeled
from kvdiag.diagnosis.lazy import lazy

_TASK = lazy(r" *(\d{1,5}): ")


def _again(text: str) -> Peeled | None:
    found = _TASK.match(text)
    return Peeled(text[found.end() :], node=f"task{int(found[1])}") if found else None


def _peel(text: str) -> Peeled | None:
    found = _TASK.match(text)
    if not found or not LOOKS_PRINTED.match(text, found.end()):
        return None
    return Peeled(text[found.end() :], node=f"task{int(found[1])}")


SLURM = Carrier("slurm", DIGITS | frozenset(" "), _peel, _again)
