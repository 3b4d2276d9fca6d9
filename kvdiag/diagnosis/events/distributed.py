"""Distributed start: the CUDA context, communicators and their buffers."""

from __future__ import annotations

from dataclasses import dataclass

from kvdiag.diagnosis.events.pattern import DECIMAL, GIB, Event, read_from
from kvdiag.diagnosis.units import Bytes

_SOURCE = "sglang/srt/model_executor/model_runner.py: init_torch_distributed()"


@read_from(
    r"Init (?:torch distributed|nccl) begin\.",
    literals=("Init torch distributed begin.", "Init nccl begin."),
    samples=("Init torch distributed begin.", "Init nccl begin."),
    source=_SOURCE,
    releases="0.2.15..0.5.19",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedBegin(Event):
    """A rank joins the process group. A draft worker prints it again."""


@read_from(
    r"Init torch distributed ends\.|Memory baseline taken\.",
    literals=("Init torch distributed ends.", "Memory baseline taken."),
    fields={"used": rf"mem usage={GIB}", "elapsed_s": rf"elapsed={DECIMAL} s"},
    samples=(
        "Init torch distributed ends. mem usage=1.62 GB",
        "Init torch distributed ends. elapsed=2.31 s, mem usage=1.62 GB",
        "Memory baseline taken. mem usage=1.62 GB",
    ),
    source=_SOURCE,
    releases="0.4.3..0.5.23",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class DistributedEnd(Event):
    """A rank is in the process group; `used` is what that took on its GPU."""

    used: Bytes | None
    elapsed_s: float | None
