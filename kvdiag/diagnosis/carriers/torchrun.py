"""torchrun: `[rank0]: ` (PyTorch's own excepthook) and `[default0]: ` (tee) before a line."""

from __future__ import annotations

from kvdiag.diagnosis.carriers.carrier import LOOKS_PRINTED, Carrier, Peeled
from kvdiag.diagnosis.lazy import lazy

_RANK = lazy(r"\[(rank\d{1,5}|default\d{1,5}|[\w-]{1,40}\d{1,5}/\d{1,5})\]: ?")
_NUMBER = lazy(r"\[(\d{1,5})\]: ?")  # mpirun and deepspeed launchers


def _again(text: str) -> Peeled | None:
    if found := _NUMBER.match(text):
        return Peeled(text[found.end() :], node=f"rank{int(found[1])}")
    return _peel(text)


def _peel(text: str) -> Peeled | None:
    if found := _RANK.match(text):
        return Peeled(text[found.end() :], node=found[1])
    found = _NUMBER.match(text)
    if found and LOOKS_PRINTED.match(text, found.end()):
        return Peeled(text[found.end() :], node=f"rank{int(found[1])}")
    return None


TORCHRUN = Carrier("torchrun", frozenset("["), _peel, _again)
