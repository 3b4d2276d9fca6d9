"""Requests that a pool cannot serve: refused, aborted, clamped; and pools whose books do not close."""

from __future__ import annotations

from kvdiag.diagnosis.events.pattern import NUMBER, Event, read_from

_SCHEDULER = "sglang/srt/managers/scheduler.py"


@read_from(
    r"Input length \(\d+ tokens\) exceeds the maximum allowed length",
    literals=("exceeds the maximum allowed length",),
    fields={"length": rf"Input length \({NUMBER} tokens", "limit": rf"allowed length \({NUMBER} tokens"},
    samples=("Input length (3034 tokens) exceeds the maximum allowed length (1735 tokens). Use a shorter input.",),
    source=f"{_SCHEDULER}: validate_input_length()",
    releases="0.4.1..0.5.23",
)
@read_from(
    r"Request length is longer than the KV cache pool size or the max context length",
    fields={"length": rf"origin_input_ids\)={NUMBER}", "limit": rf"max_req_input_len={NUMBER}"},
    samples=(
        "Request length is longer than the KV cache pool size or the max context length. Truncated."
        " len(req.origin_input_ids)=5000, max_req_input_len=1735.",
    ),
    source=_SCHEDULER,
    releases="0.3.6..0.5.23",
)
class RequestTooLong(Event):
    """A prompt above the smaller of context and pool, less a few tokens."""

    length: int | None
    limit: int | None


@read_from(
    r"No space left for only one request|Out of memory even after retracting all other requests"
    r"|retract_decode: aborted last request",
    literals=(
        "No space left for only one request",
        "even after retracting all other requests",
        "retract_decode: aborted last request",
    ),
    fields={"available": rf"available_size\(\)={NUMBER}"},
    samples=(
        "AssertionError: No space left for only one request, self.token_to_kv_pool_allocator.available_size()=0",
        "ValueError: Failed to retract any request. No space left for only one request.",
        "ValueError: Out of memory even after retracting all other requests in the decode batch.",
        "retract_decode: aborted last request 7f2c due to OOM",
    ),
    source="sglang/srt/managers/schedule_batch.py: retract_decode()",
    releases="0.4.7..0.5.23",
)
class LastRequestDoesNotFit(Event):
    """The only request left cannot grow: it alone is larger than the pool."""

    available: int | None


@read_from(
    r"(?:KV cache|req_pool_indices) is full! ",
    literals=("is full! There is a bug in memory", "is full! Bug in memory estimation"),
    samples=(
        "AssertionError: KV cache is full! There is a bug in memory estimation.",
        "AssertionError: req_pool_indices is full! There is a bug in memory estimation.",
    ),
    source="sglang/srt/disaggregation/decode.py",
    releases="0.4.7..0.5.23",
)
class PreallocationFull(Event):
    """A decode node of a disaggregated pair has no slot for an arriving request."""


@read_from(
    r"(?:[Oo]ut of memory)\. (?:Try to lower your batch size|Please set a smaller number for `--max-running-requests)"
    r"|alloc_req_slots runs out of memory",
    literals=("Try to lower your batch size", "smaller number for `--max-running-requests"),
    fields={"kind": r"(Prefill|Decode) out of memory"},
    samples=(
        "Prefill out of memory. Try to lower your batch size.",
        "RuntimeError: Out of memory. Try to lower your batch size.",
        "Out of memory. Please set a smaller number for `--max-running-requests`.",
        "RuntimeError: alloc_req_slots runs out of memory. Please set a smaller number for `--max-running-requests`."
        " self.req_to_token_pool.available_size()=0, num_reqs=1, ",
    ),
    source="sglang/srt/mem_cache/common.py: alloc_token_slots()",
    releases="0.2.15..0.5.23",
)
class TokenSlotsExhausted(Event):
    """A batch found no token or request slots: tokens of a pool, not bytes of a device."""

    kind: str | None


@read_from(
    r"[Ll]eak [Dd]etected",
    literals=("leak detected", "Leak Detected"),
    samples=(
        "ValueError: token_to_kv_pool_allocator memory leak detected! available_size=100, protected_size=0,"
        " self.max_total_num_tokens=200",
        "Mem Leak Detected! total_tokens=100 vs self.max_total_num_tokens=200",
        "KV cache pool leak detected!available_size=100, self.max_total_num_tokens=200",
    ),
    fields={
        "available": rf"available_size={NUMBER}",
        "evictable": rf"evictable_size={NUMBER}",
        "protected": rf"protected_size={NUMBER}",
        "total": rf"max_total_num_tokens={NUMBER}",
    },
    source=_SCHEDULER,
    releases="0.2.15..0.5.23",
)
class SlotLeak(Event):
    """The books of a pool do not close: slots that belong to no request."""

    available: int | None
    evictable: int | None
    protected: int | None
    total: int | None


@read_from(
    r"Not enough space for mamba",
    samples=(
        "AssertionError: Not enough space for mamba ping pong idx, try to increase --mamba-full-memory-ratio.",
        "AssertionError: Not enough space for mamba cache, try to increase --mamba-full-memory-ratio or"
        " --max-mamba-cache-size.",
    ),
    source="sglang/srt/mem_cache/memory_pool.py: HybridReqToTokenPool.alloc()",
    releases="0.5.7..0.5.23",
)
class StateSlotsExhausted(Event):
    """A request found no state slot at admission; the server ends."""


@read_from(
    r"(?<![\w-])max_running_requests=\d+",
    literals=("max_running_requests=",),
    excludes=("server_args=", "max_total_num_tokens=", "requires max_running", "ServerArgs("),
    fields={"limit": rf"max_running_requests={NUMBER}"},
    samples=("max_running_requests=8",),
    source="a line cut out of a log",
)
class RunningLimit(Event):
    """The request limit alone, as people quote it."""

    limit: int | None
