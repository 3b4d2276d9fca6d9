"""Capture of CUDA graphs: decode and verify, prefill (piecewise), of the target and of a draft model."""

from __future__ import annotations

from dataclasses import dataclass

from kvdiag.diagnosis.events.pattern import DECIMAL, GIB, Event, read_from
from kvdiag.diagnosis.units import Bytes

_SOURCE = "sglang/srt/model_executor/cuda_graph_runner.py, model_runner.py: init_device_graphs()"


@read_from(
    r"Capture (?:(?:piecewise|draft|draft extend|draft decode|target decode|target verify|target prefill|draft prefill"
    r"|draft verify|single-CG draft extend) )?(?:(?:cuda|CUDA|cpu|CPU|npu|NPU|xpu|XPU) [Gg]raph )?begin",
    literals=("graph begin.", "raph begin (step", "extend begin."),
    fields={
        "kind": r"Capture ((?:\S+ ){0,3}?)(?:(?:cuda|CUDA|cpu|CPU|npu|NPU|xpu|XPU) graph )?begin",
        "available": rf"avail mem={GIB}",
        "sizes": r"(?:bs|num_tokens)=\[([\d, ]*)\]",
        "backend": r"backend=(\w+)",
    },
    samples=(
        "Capture cuda graph begin. This can take up to several minutes.",
        "Capture cuda graph begin. This can take up to several minutes. avail mem=10.05 GB",
        "Capture piecewise CUDA graph begin. avail mem=10.05 GB",
        "Capture draft cuda graph begin. This can take up to several minutes. avail mem=8.46 GB",
        "Capture target decode CUDA graph begin. backend=full, num_tokens_per_bs=1, bs=[1, 2, 4], avail mem=10.88 GB",
        "Capture target prefill CUDA graph begin. backend=full, num_tokens=[4, 8], avail mem=12.00 GB",
    ),
    source=_SOURCE,
    releases="0.2.15..0.5.23",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class GraphBegin(Event):
    """A capture starts; `available` is free memory just before."""

    kind: str | None
    available: Bytes | None
    sizes: tuple[int, ...] | None
    backend: str | None


@read_from(
    r"Capture (?:(?:piecewise|draft|draft extend|draft decode|target decode|target verify|target prefill|draft prefill"
    r"|draft verify|single-CG draft extend) )?(?:(?:cuda|CUDA|cpu|CPU|npu|NPU|xpu|XPU) [Gg]raph )?end",
    literals=("graph end.", "raph end (step", "extend end."),
    fields={
        "kind": r"Capture ((?:\S+ ){0,3}?)(?:(?:cuda|CUDA|cpu|CPU|npu|NPU|xpu|XPU) graph )?end",
        "available": rf"avail mem={GIB}",
        "used": rf"mem usage={GIB}",
        "elapsed_s": rf"(?:elapsed=|elapsed: ){DECIMAL} ?s",
        "sizes": r"(?:bs|num_tokens)=\[([\d, ]*)\]",
    },
    samples=(
        "Capture cuda graph end. Time elapsed: 12.83 s",
        "Capture cuda graph end. Time elapsed: 12.83 s. avail mem=0.53 GB. mem usage=0.93 GB.",
        "Capture cuda graph end. Time elapsed: 12.83 s. mem usage=0.93 GB. avail mem=0.53 GB.",
        "Capture piecewise CUDA graph end. Time elapsed: 9.10 s. mem usage=0.41 GB. avail mem=9.10 GB.",
        "Capture draft extend cuda graph end. Time elapsed: 3.32 s. mem usage=0.10 GB. avail mem=7.43 GB.",
        "Capture target decode CUDA graph end. elapsed=12.26 s, mem usage=0.34 GB, avail mem=10.54 GB.",
        "Capture target prefill CUDA graph end. elapsed=22.96 s, mem usage=1.71 GB, avail mem=10.88 GB.",
    ),
    source=_SOURCE,
    releases="0.4.0..0.5.23",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class GraphEnd(Event):
    """A capture is done: what it took (may be negative) and what is free."""

    kind: str | None
    available: Bytes | None
    used: Bytes | None
    elapsed_s: float | None
    sizes: tuple[int, ...] | None
