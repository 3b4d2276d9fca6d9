"""Loading weights, of the target and of a draft model."""

from __future__ import annotations

from dataclasses import dataclass

from kvdiag.diagnosis.events.pattern import DECIMAL, GIB, Event, read_from
from kvdiag.diagnosis.units import Bytes

_SOURCE = "sglang/srt/model_executor/model_runner.py: load_model()"


@read_from(
    r"Load weight begin\.",
    fields={"available": rf"avail mem={GIB}"},
    samples=("Load weight begin. avail mem=94.04 GB",),
    source=_SOURCE,
    releases="0.2.15..0.5.23",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsBegin(Event):
    """Free memory of a rank's GPU before a model loads."""

    available: Bytes | None


@read_from(
    r"Load weight end\.",
    excludes=("Committed real weights",),
    fields={
        "architecture": r"type=(\w+)",
        "dtype": r"dtype=([\w.]+)",
        "quantization": r"quant=([\w.-]+)",
        "available": rf"avail mem={GIB}",
        "used": rf"mem usage={GIB}",
        "elapsed_s": rf"elapsed={DECIMAL} s",
    },
    samples=(
        "Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=63.27 GB",
        "Load weight end. type=Qwen2ForCausalLM, dtype=torch.bfloat16, avail mem=6.09 GB, mem usage=15.54 GB.",
        "Load weight end. elapsed=252.37 s, type=KimiK25ForConditionalGeneration, dtype=torch.bfloat16,"
        " avail mem=21.71 GB, mem usage=72.33 GB.",
        "Load weight end. elapsed=12.02 s, type=Qwen3MoeForCausalLM, quant=fp8, fmt=e4m3, avail mem=49.33 GB,"
        " mem usage=29.15 GB.",
    ),
    source=_SOURCE,
    releases="0.2.15..0.5.23",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsLoaded(Event):
    """A model's weights are on the GPU. A draft model makes a second event."""

    architecture: str | None
    dtype: str | None
    quantization: str | None
    available: Bytes | None
    used: Bytes | None  # absent up to 0.4.1; may be negative
    elapsed_s: float | None
