"""The end of a start: the summary line, the HTTP server, the warm-up, and the line that says ready."""

from __future__ import annotations

from kvdiag.diagnosis.events.pattern import AMOUNT, COUNT, DECIMAL, NUMBER, Event, read_from
from kvdiag.diagnosis.units import Bytes


@read_from(
    r"(?<!-> )\bmax_total_num_tokens=\d+"
    r"(?:, ?(?:chunked_prefill_size|max_prefill_tokens|max_running_requests|context_len)|\s*$)",
    literals=("max_total_num_tokens=",),
    excludes=("server_args=", "[unified-memory-pool]", "eak detected", "eak Detected", "available_size=", "MLX stub"),
    fields={
        "tokens": rf"max_total_num_tokens={COUNT}",
        "chunked_prefill_size": rf"chunked_prefill_size={NUMBER}",
        "max_prefill_tokens": rf"max_prefill_tokens={COUNT}",
        "max_running_requests": rf"max_running_requests={COUNT}",
        "context_len": rf"context_len={COUNT}",
        "available": rf"available_[gc]pu_mem={AMOUNT}",
    },
    samples={
        "0.2.15..0.4.1": "max_total_num_tokens=16384, max_prefill_tokens=16384, max_running_requests=2049,"
        " context_len=16384",
        "0.4.3..0.4.6": "max_total_num_tokens=46611, chunked_prefill_size=2048, max_prefill_tokens=16384,"
        " max_running_requests=2049, context_len=131072",
        "0.4.7..0.5.23": (
            "max_total_num_tokens=159277, chunked_prefill_size=2048, max_prefill_tokens=16384,"
            " max_running_requests=48, context_len=131072, available_gpu_mem=7.43 GB",
            "max_total_num_tokens=8192, context_len=8192, available_gpu_mem=2.86 GB",  # as people shorten it
        ),
        "0.5.2..0.5.23": (
            "max_total_num_tokens=159277, chunked_prefill_size=-1, max_prefill_tokens=16384, max_running_requests=48,"
            " context_len=131072, available_cpu_mem=97.43 GB",
            "max_total_num_tokens=399740",
        ),
    },
    source="sglang/srt/managers/scheduler.py: __init__()",
)
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
    samples={"0.2.15..0.5.23": "The server is fired up and ready to roll!"},
    source="sglang/srt/entrypoints/http_server.py: _wait_and_warmup()",
)
class FiredUp(Event):
    """The warm-up request was answered: the server is ready."""


@read_from(
    r"Uvicorn running on|Application startup complete|Granian HTTP/2 server on",
    samples={
        "": (
            "INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)",
            "INFO:     Application startup complete.",
        ),
        "0.5.11..0.5.23": "Starting embedded Granian HTTP/2 server on 127.0.0.1:30000",
        "0.5.23..0.5.23": "Uvicorn running on 127.0.0.1:30000 with 4 SO_REUSEPORT workers",
    },
    source="uvicorn, granian",
)
class HttpServerUp(Event):
    """The HTTP server listens; the warm-up request still follows."""


@read_from(
    r"Started server process \[",
    samples=("INFO:     Started server process [4242]",),
    source="uvicorn",
)
class HttpServerStarted(Event):
    """The HTTP server's process starts."""


@read_from(
    r"SSL enabled: certfile=",
    samples={"0.5.10..0.5.23": "SSL enabled: certfile=/etc/tls/tls.crt, keyfile=/etc/tls/tls.key"},
    source="sglang/srt/entrypoints/http_server.py",
)
class EncryptionOn(Event):
    """The HTTP server speaks TLS."""


@read_from(
    r"Dummy health check server started|Starting dummy health check server|Dummy health check server scheduled",
    samples={
        "0.4.6..0.5.3": (
            "Starting dummy health check server at 127.0.0.1:30000",
            "Dummy health check server scheduled on existing loop at 127.0.0.1:30000",
        ),
        "0.5.4..0.5.23": "Dummy health check server started in background thread at 127.0.0.1:30000",
    },
    source="sglang/srt/utils/common.py: launch_dummy_health_check_server()",
)
class FollowerUp(Event):
    """A node other than the first is up: it never prints that the server is ready."""


@read_from(
    r"Weights are ready after",
    fields={"elapsed_s": rf"ready after {DECIMAL}"},
    constants={"ready": True},
    samples={"0.5.4..0.5.23": "Weights are ready after 12.20 seconds"},
    source="sglang/srt/entrypoints: weights check",
)
@read_from(
    r"Weights are not ready after waiting",
    fields={"elapsed_s": rf"after waiting {DECIMAL}"},
    constants={"ready": False},
    samples={"0.5.4..0.5.23": "Weights are not ready after waiting 600 seconds. Check the loader."},
    source="sglang/srt/entrypoints: weights check",
)
class WeightsAwaited(Event):
    """Weights that come from elsewhere are there, or not in time."""

    elapsed_s: float | None
    ready: bool


@read_from(
    r"Warmup ended|Running warmup |Start of prefill warmup|End of prefill warmup|Start of pd disaggregation warmup"
    r"|End of prefill disaggregation mode warmup|End of disaggregation warmup"
    r"|Skipping warmup request in disaggregation mode",
    fields={"status": r"status(?: code)?:? (\d+)"},
    constants={"failed": False},
    samples={
        "0.4.3..0.5.23": ("Running warmup voice_chat", "Warmup ended"),
        "0.4.5..0.4.5": "Skipping warmup request in disaggregation mode",
        "0.4.6..0.4.9": ("Start of prefill warmup ...", "End of prefill warmup with status 200, resp: [{}]"),
        "0.4.10..0.5.23": "Start of pd disaggregation warmup ...",
        "0.4.10..0.5.10": "End of prefill disaggregation mode warmup with status 200, resp: [{}]",
        "0.5.11..0.5.23": "End of disaggregation warmup",
    },
    source="sglang/srt/entrypoints/http_server.py: _execute_server_warmup()",
)
@read_from(
    r"disaggregation mode warm Up Failed|Disaggregation warmup failed",
    literals=("warm Up Failed", "Disaggregation warmup failed"),
    fields={"status": r"status codes?(?:\[s\])?: (\d+)|code\[s\]: (\d+)"},
    constants={"failed": True},
    samples={
        "0.4.10..0.5.12": "Prefill disaggregation mode warm Up Failed, status code: 500",
        "0.5.13..0.5.23": "Disaggregation warmup failed (mode=prefill, status code[s]: 500)",
    },
    source="sglang/srt/entrypoints/http_server.py: _execute_server_warmup()",
)
class Warmup(Event):
    """A warm-up beside the plain first request."""

    status: int | None
    failed: bool


@read_from(
    r"Prefill\. latency:|Decode\.  |Total\. latency:|Benchmark \.\.\.|Offline Throughput Benchmark Result",
    samples=(
        "Prefill. latency: 0.05312 s, throughput:   2409.55 token/s",
        "Decode.  median latency: 0.00522 s, median throughput:    191.66 token/s",
        "Total. latency:  0.221 s, throughput:   1013.55 token/s",
        "Benchmark ...",
        "====== Offline Throughput Benchmark Result =======",
    ),
    source="sglang/bench_one_batch.py: latency_test_run_once(), bench_offline_throughput.py",
)
class BenchmarkResult(Event):
    """A benchmark without an HTTP server got results: its model runs."""


@read_from(
    r"Engine startup timings",
    fields={
        "weights_s": rf"load_weight={DECIMAL}",
        "pool_s": rf"kv_cache_allocation={DECIMAL}",
        "total_s": rf"scheduler_e2e={DECIMAL}",
    },
    samples=(
        "Engine startup timings (s): load_weight=616.34, kv_cache_allocation=6.68, scheduler_e2e=761.30,"
        " cuda_graph={prefill=0.00, decode=0.00}",
    ),
    source="builds between releases: engine.py",
)
class StartupTimings(Event):
    """SGLang's own account of how long its start took, in seconds."""

    weights_s: float | None
    pool_s: float | None
    total_s: float | None


@read_from(
    r"SIGTERM received|Received SIGTERM|Gracefully exiting|Shutting down$|Finished server process \[|"
    r"INFO: +Shutting down",
    literals=(
        "SIGTERM received",
        "Received SIGTERM",
        "Gracefully exiting",
        "Shutting down",
        "Finished server process [",
    ),
    samples=(
        "SIGTERM received. signum=None frame=None. Draining requests and shutting down...",
        "Gracefully exiting... Remaining number of requests 0. Remaining requests remaining_rids=[].",
        "INFO:     Shutting down",
        "INFO:     Finished server process [4242]",
    ),
    source="sglang/srt/managers/tokenizer_manager.py: sigterm_watchdog(), uvicorn",
)
class StopRequested(Event):
    """The server stops because it was asked to."""
