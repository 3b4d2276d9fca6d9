"""Capture of CUDA graphs: decode and verify, prefill (piecewise), of the target and of a draft model."""

from __future__ import annotations

from kvdiag.diagnosis.events.pattern import AMOUNT, DECIMAL, GIB, NUMBER, Event, read_from
from kvdiag.diagnosis.units import Bytes

_SOURCE = "sglang/srt/model_executor/cuda_graph_runner.py, model_runner.py: init_device_graphs()"
_KIND = r"Capture ((?:[\w-]+ ){0,4}?)(?:\w+ [Gg]raph )?"
_STEP = r"\(step (\d+)\)|step=(\d+)"


@read_from(
    r"Capture (?:[\w-]+ ){0,5}?(?:[Gg]raph |extend )begin",
    literals=("raph begin", " extend begin"),
    fields={
        "kind": rf"{_KIND}begin",
        "available": rf"avail mem={AMOUNT}",
        "sizes": r"(?:bs|num_tokens)=\[([\d, ]*)\]",
        "backend": r"backend=(\w+)",
        "tokens_per_request": r"num_tokens_per_(?:bs|req)=(\d+)",
        "step": _STEP,
    },
    samples={
        "0.2.15..0.4.1": "Capture cuda graph begin. This can take up to several minutes.",
        "0.4.3..0.5.13": "Capture cuda graph begin. This can take up to several minutes. avail mem=10.05 GB",
        "0.5.2..0.5.13": (
            "Capture cpu graph begin. This can take up to several minutes. avail mem=10.05 GB",
            "Capture npu graph begin. This can take up to several minutes. avail mem=10.05 GB",
        ),
        "0.5.6..0.5.13": "Capture piecewise CUDA graph begin. avail mem=10.05 GB",
        "0.4.3..0.5.12": "Capture draft cuda graph begin. This can take up to several minutes. avail mem=8.46 GB",
        "0.4.7..0.5.13": "Capture draft extend cuda graph begin. This can take up to several minutes. avail mem=8.46"
        " GB",
        "0.5.10..0.5.13": "Capture draft extend cuda graph begin (step 1). This can take up to several minutes."
        " avail mem=8.46 GB",
        "0.5.14..0.5.15": (
            "Capture target decode CUDA graph begin. backend=full, num_tokens_per_bs=1, bs=[1, 2, 4], avail"
            " mem=10.88 GB",
            "Capture target verify CUDA graph begin. backend=full, num_tokens_per_bs=4, bs=[1, 2, 4], avail"
            " mem=10.88 GB",
            "Capture draft decode CUDA graph begin. backend=full, num_tokens_per_bs=4, bs=[1, 2, 4], avail mem=10.88"
            " GB",
            "Capture draft extend CUDA graph begin. backend=full, num_tokens_per_bs=4, bs=[1, 2, 4], avail mem=10.88"
            " GB",
        ),
        "0.5.14..0.5.23": (
            "Capture target prefill CUDA graph begin. backend=full, num_tokens=[4, 8], avail mem=12.00 GB",
            "Capture draft extend CUDA graph begin. step=1, avail mem=8.46 GB",
        ),
        "0.5.17..0.5.21": "Capture target decode NPU graph begin. backend=full, num_tokens_per_req=1, bs=[1, 2, 4],"
        " avail"
        " mem=10.88 GB",
        "0.5.17..0.5.23": "Capture single-CG draft extend begin. This can take several minutes. avail mem=8.46 GB",
        "0.5.23..0.5.23": "Capture target decode CUDA graph begin. backend=full, num_tokens_per_req=1, avail"
        " mem=10.88 GB",
        "0.5.12..0.5.23": "Capture Frozen-KV MTP draft cuda graph begin.",
        "0.5.21..0.5.23": "Capture UNO tree draft CUDA graph begin. num_tokens_per_req=8, avail mem=8.46 GB",
    },
    source=_SOURCE,
)
class GraphBegin(Event):
    """A capture starts; `available` is free memory just before."""

    kind: str | None
    available: Bytes | None
    sizes: tuple[int, ...] | None
    backend: str | None
    tokens_per_request: int | None = None
    step: int | None = None


@read_from(
    r"Capture (?:[\w-]+ ){0,5}?(?:[Gg]raph |extend )end",
    literals=("raph end", " extend end"),
    fields={
        "kind": rf"{_KIND}end",
        "available": rf"avail mem={AMOUNT}",
        "used": rf"mem usage={GIB}",
        "elapsed_s": rf"(?:elapsed=|elapsed: ){DECIMAL} ?s",
        "sizes": r"(?:bs|num_tokens)=\[([\d, ]*)\]",
        "step": _STEP,
    },
    samples={
        "0.4.0..0.4.1": "Capture cuda graph end. Time elapsed: 12.83 s",
        "0.4.3..0.4.5": "Capture cuda graph end. Time elapsed: 12.83 s. avail mem=0.53 GB. mem usage=0.93 GB.",
        "0.4.6..0.5.13": "Capture cuda graph end. Time elapsed: 12.83 s. mem usage=0.93 GB. avail mem=0.53 GB.",
        "0.5.2..0.5.13": "Capture npu graph end. Time elapsed: 12.83 s. mem usage=0.93 GB. avail mem=0.53 GB.",
        "0.5.6..0.5.13": "Capture piecewise CUDA graph end. Time elapsed: 9.10 s. mem usage=0.41 GB. avail mem=9.10"
        " GB.",
        "0.4.3..0.4.3": "Capture draft cuda graph end. Time elapsed: 3.32 s. avail mem=7.43 GB",
        "0.4.5..0.4.6": "Capture draft cuda graph end. Time elapsed: 3.32 s. avail mem=7.43 GB. mem usage=0.10 GB.",
        "0.4.7..0.5.13": (
            "Capture draft cuda graph end. Time elapsed: 3.32 s. mem usage=0.10 GB. avail mem=7.43 GB.",
            "Capture draft extend cuda graph end. Time elapsed: 3.32 s. mem usage=0.10 GB. avail mem=7.43 GB.",
        ),
        "0.5.10..0.5.13": "Capture draft extend cuda graph end (step 1). Time elapsed: 3.32 s. mem usage=0.10 GB. avail"
        " mem=7.43 GB.",
        "0.5.14..0.5.21": (
            "Capture target decode CUDA graph end. elapsed=12.26 s, mem usage=0.34 GB, avail mem=10.54 GB.",
            "Capture target verify CUDA graph end. elapsed=12.26 s, mem usage=0.34 GB, avail mem=10.54 GB.",
        ),
        "0.5.14..0.5.23": (
            "Capture target prefill CUDA graph end. elapsed=22.96 s, mem usage=1.71 GB, avail mem=10.88 GB.",
            "Capture draft decode CUDA graph end. elapsed=2.96 s, mem usage=0.11 GB, avail mem=10.88 GB.",
            "Capture draft extend CUDA graph end. step=1, elapsed=2.96 s, mem usage=0.11 GB, avail mem=10.88 GB.",
        ),
        "0.5.17..0.5.23": "Capture single-CG draft extend end. elapsed=2.96 s, mem usage=0.11 GB, avail mem=10.88 GB.",
        "0.5.23..0.5.23": "Capture target decode CUDA graph end. bs=[1, 2, 4], elapsed=12.26 s, mem usage=0.34 GB,"
        " avail"
        " mem=10.54 GB.",
        "0.5.12..0.5.23": "Capture Frozen-KV MTP draft cuda graph end.",
        "0.5.21..0.5.23": "Capture UNO tree draft CUDA graph end. elapsed=2.96 s, mem usage=0.11 GB, avail mem=10.88"
        " GB.",
    },
    source=_SOURCE,
)
class GraphEnd(Event):
    """A capture is done: what it took (may be negative) and what is free."""

    kind: str | None
    available: Bytes | None
    used: Bytes | None
    elapsed_s: float | None
    sizes: tuple[int, ...] | None
    step: int | None = None


@read_from(
    r"Capture \w+ graph bs \[|Capture \w+ graph num tokens \[|Capture num tokens: \[",
    literals=("graph bs [", "graph num tokens [", "Capture num tokens: ["),
    fields={"sizes": r"(?:bs|num tokens:?) \[([\d, ]*)\]", "kind": r"(num tokens|bs)"},
    samples={
        "0.4.6..0.5.13": "Capture cuda graph bs [1, 2, 4, 8]",
        "0.5.2..0.5.13": "Capture cpu graph bs [1, 2, 4, 8]",
        "0.5.3..0.5.13": "Capture cuda graph num tokens [4, 8, 12, 16]",
        "0.5.11..0.5.13": "[BCG] Capture num tokens: [4, 8, 12, 16]",
    },
    source=_SOURCE,
)
class GraphSizes(Event):
    """The sizes about to be captured: of decode ("bs") or of prefill ("num tokens")."""

    sizes: tuple[int, ...] | None
    kind: str | None


@read_from(
    r"Compiling a graph for (?:dynamic shape|shape \d+) takes",
    literals=("Compiling a graph for",),
    fields={"elapsed_s": rf"takes {DECIMAL}"},
    samples={
        "0.5.3..0.5.23": (
            "Compiling a graph for dynamic shape takes 3.20 s",
            "Compiling a graph for shape 4096 takes 1.20 s",
        )
    },
    source="sglang/srt/compilation/backend.py",
)
class GraphCompiled(Event):
    """torch.compile is done with one shape; it prints no memory."""

    elapsed_s: float | None


@read_from(
    r"CUDA Graph is DISABLED\.",
    constants={"kind": "decode"},
    samples={"0.4.5..0.4.5": "CUDA Graph is DISABLED."},
    source=_SOURCE,
)
@read_from(
    r"Disable piecewise CUDA graph because|Disable prefill CUDA graph because",
    constants={"kind": "prefill"},
    fields={"reason": r"graph because (.*)"},
    samples={
        "0.5.3..0.5.13": "Disable piecewise CUDA graph because piecewise_cuda_graph does not support PP",
        "0.5.14..0.5.23": "Disable prefill CUDA graph because the model is not supported",
    },
    source=_SOURCE,
)
class GraphsDisabled(Event):
    """No graphs of that kind, and SGLang says so; with --disable-cuda-graph there is no line at all."""

    kind: str
    reason: str | None = None


@read_from(
    r"Built adaptive runtime state steps=",
    fields={"steps": rf"steps={NUMBER}", "elapsed_s": rf"elapsed={DECIMAL}", "used": rf"mem={GIB}"},
    samples={"0.5.11..0.5.23": "Built adaptive runtime state steps=3: elapsed=2.10s, mem=0.31GB"},
    source="sglang/srt/speculative: adaptive speculation",
)
class AdaptiveState(Event):
    """Adaptive speculation keeps one set of draft graphs for each step count."""

    steps: int | None
    elapsed_s: float | None
    used: Bytes | None


@read_from(
    r"Registering \d+ cuda graph addresses",
    literals=("cuda graph addresses",),
    fields={"count": rf"Registering {NUMBER}"},
    samples=("Registering 3492 cuda graph addresses",),
    source="sglang/srt/distributed/device_communicators/custom_all_reduce.py",
)
class GraphAddresses(Event):
    """Captured all-reduce buffers are exchanged: the capture of this rank is over."""

    count: int | None
