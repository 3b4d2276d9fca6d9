"""Traffic: batch lines and retractions."""

from __future__ import annotations

from dataclasses import dataclass

from kvdiag.diagnosis.events.pattern import DECIMAL, NUMBER, Event, read_from

_SOURCE = "sglang/srt/managers/scheduler.py (scheduler_metrics_mixin.py)"
_USAGE = rf"(?<!swa )(?<!pre-allocated )(?:full )?token usage: {DECIMAL}"


@read_from(
    r"Prefill batch",
    literals=("Prefill batch",),
    fields={
        "new_tokens": rf"#new-token: {NUMBER}",
        "cached_tokens": rf"#cached-token: {NUMBER}",
        "running": rf"#running-req: {NUMBER}",
        "queued": rf"#queue-req: {NUMBER}",
        "usage": _USAGE,
        "swa_usage": rf"swa token usage: {DECIMAL}",
        "mamba_usage": rf"mamba usage: {DECIMAL}",
    },
    samples=(
        "Prefill batch. #new-seq: 1, #new-token: 7, #cached-token: 0, token usage: 0.00, #running-req: 0, #queue-req: 0, ",
        "Prefill batch, #new-seq: 1, #new-token: 7, #cached-token: 0, full token usage: 0.00, swa token usage: 0.01,"
        " #running-req: 0, #queue-req: 0, ",
    ),
    source=_SOURCE,
    releases="0.2.15..0.5.23",
    dense=True,
)
@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillBatch(Event):
    """One prefill batch. Usages are shares of a pool, 0 to 1."""

    new_tokens: int | None
    cached_tokens: int | None
    running: int | None
    queued: int | None
    usage: float | None
    swa_usage: float | None
    mamba_usage: float | None


@read_from(
    r"Decode batch",
    literals=("Decode batch",),
    fields={
        "running": rf"#running-req: {NUMBER}",
        "queued": rf"#queue-req: {NUMBER}",
        "tokens": rf"#(?:full )?token: {NUMBER}",
        "usage": _USAGE,
        "swa_usage": rf"swa token usage: {DECIMAL}",
        "mamba_usage": rf"mamba usage: {DECIMAL}",
        "throughput": rf"gen throughput \(token/s\): {DECIMAL}",
        "accept_length": rf"accept len: {DECIMAL}",
    },
    samples=(
        "Decode batch. #running-req: 1, #token: 40, token usage: 0.00, gen throughput (token/s): 4.40, #queue-req: 0, ",
        "Decode batch, #running-req: 9, #full token: 4000, full token usage: 0.31, mamba num: 18, mamba usage: 0.90,"
        " accept len: 2.61, cuda graph: True, gen throughput (token/s): 402.40, #queue-req: 0",
    ),
    source=_SOURCE,
    releases="0.2.15..0.5.23",
    dense=True,
)
@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeBatch(Event):
    """The decode batches since the last such line. Usages are shares of a pool, 0 to 1; throughput in tokens/s."""

    running: int | None
    queued: int | None
    tokens: int | None
    usage: float | None
    swa_usage: float | None
    mamba_usage: float | None
    throughput: float | None
    accept_length: float | None


@read_from(
    r"Retract requests\.|Decode out of memory happened",
    literals=("Retract requests.", "Decode out of memory happened"),
    fields={"requests": rf"#retracted_reqs: {NUMBER}"},
    samples=(
        "KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_token_ratio: 0.5100 -> 0.9122",
        "Decode out of memory happened. #retracted_reqs: 1, #new_token_ratio: 0.0975 -> 1.0000",
    ),
    source="sglang/srt/managers/scheduler.py: update_running_batch()",
    releases="0.2.15..0.5.23",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class Retraction(Event):
    """The pool was full: requests went back to the queue. Not a CUDA overflow."""

    requests: int | None
