"""The end of a start: the summary line, the HTTP server, and the line that says ready."""

from __future__ import annotations

from dataclasses import dataclass

from kvdiag.diagnosis.events.pattern import GIB, NUMBER, Event, read_from
from kvdiag.diagnosis.units import Bytes


@read_from(
    r"(?<!-> )\bmax_total_num_tokens=\d+(?:, (?:chunked_prefill_size|max_prefill_tokens)|\s*$)",
    literals=("max_total_num_tokens=",),
    fields={
        "tokens": rf"max_total_num_tokens={NUMBER}",
        "chunked_prefill_size": rf"chunked_prefill_size={NUMBER}",
        "max_prefill_tokens": rf"max_prefill_tokens={NUMBER}",
        "max_running_requests": rf"max_running_requests={NUMBER}",
        "context_len": rf"context_len={NUMBER}",
        "available": rf"available_[gc]pu_mem={GIB}",
    },
    samples=(
        "max_total_num_tokens=16384, max_prefill_tokens=16384, max_running_requests=2049, context_len=16384",
        "max_total_num_tokens=46611, chunked_prefill_size=2048, max_prefill_tokens=16384, max_running_requests=2049,"
        " context_len=131072",
        "max_total_num_tokens=159277, chunked_prefill_size=2048, max_prefill_tokens=16384, max_running_requests=48,"
        " context_len=131072, available_gpu_mem=7.43 GB",
        "max_total_num_tokens=399740",
    ),
    source="sglang/srt/managers/scheduler.py: __init__()",
    releases="0.2.15..0.5.23",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits(Event):
    """The summary line of a scheduler: its limits after every cap, and what is free at the very end."""

    tokens: int | None
    chunked_prefill_size: int | None
    max_prefill_tokens: int | None
    max_running_requests: int | None
    context_len: int | None
    available: Bytes | None


@read_from(
    r"The server is fired up and ready to roll!",
    samples=("The server is fired up and ready to roll!",),
    source="sglang/srt/entrypoints/http_server.py: _wait_and_warmup()",
    releases="0.2.15..0.5.23",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class FiredUp(Event):
    """The warm-up request was answered: the server is ready."""


@read_from(
    r"Uvicorn running on|Application startup complete",
    literals=("Uvicorn running on", "Application startup complete"),
    samples=(
        "INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)",
        "INFO:     Application startup complete.",
    ),
    source="uvicorn",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class HttpServerUp(Event):
    """The HTTP server listens; the warm-up request still follows."""


@read_from(
    r"Prefill\. latency:|Benchmark \.\.\.",
    literals=("Prefill. latency:", "Benchmark ..."),
    samples=("Prefill. latency: 0.05312 s, throughput:   2409.55 token/s", "Benchmark ..."),
    source="sglang/bench_one_batch.py: latency_test_run_once()",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkResult(Event):
    """A benchmark without an HTTP server got results: its model runs."""
