"""Requests that a pool cannot serve: refused, aborted, clamped; and pools whose books do not close."""

from __future__ import annotations

import re

from kvdiag.diagnosis.events.pattern import NUMBER, Event, read_from

_SCHEDULER = "sglang/srt/managers/scheduler.py"
_RETRACT = "sglang/srt/managers/schedule_batch.py: retract_decode()"
_BATCH = "sglang/srt/managers/schedule_batch.py, mem_cache/common.py"

_STATES = re.compile(
    r"mamba_available_size=(\d+), mamba_evictable_size=(\d+), [\w.]*mamba_pool\.size=(\d+),"
    r" [\w.]*mamba_protected_size\(\)=(\d+)"
)
_TOKENS = {
    "wanted": re.compile(r"Try to allocate (\d+) tokens"),
    "available": re.compile(r"Ava\w+ (?:full )?tokens: ?(\d+)|available[\w ]*[:=] ?(\d+)"),
    "evictable": re.compile(r"evictable[\w ]*[:=] ?(\d+)"),
    "window": re.compile(r"Available swa[\w ]*: ?(\d+)", re.IGNORECASE),
}


@read_from(
    r"(?<![\w-])max_running_requests=\d+",
    literals=("max_running_requests=",),
    excludes=("server_args=", "max_total_num_tokens=", "requires max_running", "ServerArgs(", "Post-capture"),
    fields={"limit": rf"max_running_requests={NUMBER}"},
    samples=("max_running_requests=8",),
    source="a line cut out of a log",
)
class RunningLimit(Event):
    """The request limit alone, as people quote it."""

    limit: int | None


@read_from(
    r"exceeds the maximum allowed length",
    fields={"length": r"Input length \((\d+) tokens", "limit": r"allowed length \((\d+) tokens"},
    constants={"by": "pool or context"},
    samples={
        "0.4.1..0.5.23": "Input length (3034 tokens) exceeds the maximum allowed length (1735 tokens). Use a shorter"
        " input"
        " or enable --allow-auto-truncate."
    },
    source="sglang/srt/managers/utils.py: validate_input_length()",
)
@read_from(
    r"is longer than the model's context length",
    fields={"length": r"input \((\d+) tokens", "limit": r"context length \((\d+) tokens"},
    constants={"by": "context"},
    samples={
        "0.2.15..0.5.23": "ValueError: The input (140000 tokens) is longer than the model's context length (131072"
        " tokens).",
        "0.5.1..0.5.23": "The input (140000 tokens) is longer than the model's context length (131072 tokens)."
        " Truncating"
        " the input.",
    },
    source="sglang/srt/managers/tokenizer_manager.py",
)
@read_from(
    r"Requested token count",
    fields={"length": r"total of (\d+) tokens|\((\d+) input", "limit": r"length (?:of )?\(?(\d+) tokens"},
    constants={"by": "context"},
    samples={
        "0.4.1..0.5.23": "ValueError: Requested token count exceeds the model's maximum context length of 131072"
        " tokens."
        " You requested a total of 140000 tokens: 130000 tokens from the input messages and 10000 tokens for the"
        " completion. Please reduce the number of tokens.",
        "0.5.1..0.5.23": "Requested token count (130000 input + 10000 new) exceeds the model's context length (131072"
        " tokens). Truncating max_new_tokens.",
    },
    source="sglang/srt/managers/tokenizer_manager.py",
)
@read_from(
    r"Request length is longer than the KV cache pool size or the max context length",
    fields={"length": rf"len\(req\.origin_input_ids\)={NUMBER}", "limit": rf"max_req_input_len={NUMBER}"},
    constants={"by": "pool or context"},
    samples={
        "0.3.6..0.4.0": "Request length is longer than the KV cache pool size or the max context length. Truncated!!!",
        "0.4.1..0.5.23": "Request length is longer than the KV cache pool size or the max context length. Truncated."
        " len(req.origin_input_ids)=50000, max_req_input_len=46605.",
    },
    source="sglang/srt/managers/scheduler.py",
)
class RequestTooLong(Event):
    """A request is refused or cut: beyond the pool where `by` says so and the limit is far below the context."""

    length: int | None
    limit: int | None
    by: str


@read_from(
    r"retract_decode: aborted last request",
    constants={"survives": True},
    samples={"0.5.10..0.5.23": "retract_decode: aborted last request 4f2a due to OOM"},
    source=_RETRACT,
)
@read_from(
    r"No space left for only one request|Out of memory even after retracting all other requests",
    fields={"available": r"available_size\(\)=(\d+)"},
    samples={
        "0.2.15..0.4.6": "AssertionError: No space left for only one request,"
        " self.token_to_kv_pool_allocator.available_size()=0",
        "0.4.7..0.5.6": "ValueError: Failed to retract any request. No space left for only one request.",
        "0.5.7..0.5.9": "ValueError: Out of memory even after retracting all other requests in the decode batch.",
    },
    source=_RETRACT,
)
class LastRequestDoesNotFit(Event):
    """The only request left cannot grow: it alone is larger than the pool. Newer servers give it up and go on."""

    available: int | None
    survives: bool = False


@read_from(
    r"KV cache is full! |req_pool_indices is full!",
    fields={
        "available": rf"available={NUMBER}",
        "evictable": rf"evictable={NUMBER}",
        "protected": rf"protected={NUMBER}",
        "wanted": rf"required_alloc={NUMBER}",
    },
    samples={
        "0.4.7..0.5.10": "AssertionError: KV cache is full! There is a bug in memory estimation.",
        "0.5.11..0.5.23": "AssertionError: KV cache is full! Bug in memory estimation. available=0, evictable=12,"
        " protected=4000, required_alloc=64",
        "0.4.7..0.5.23": "AssertionError: req_pool_indices is full! There is a bug in memory estimation.",
    },
    source="sglang/srt/disaggregation/decode.py",
)
class PreallocationFull(Event):
    """A decode server's pool has no room for a request that was promised it."""

    available: int | None
    evictable: int | None
    protected: int | None
    wanted: int | None


@read_from(
    r"[Oo]ut of memory\. Try to lower your batch size",
    literals=("ut of memory. Try to lower your batch",),
    fields={"kind": r"(Prefill|Decode) out of memory", "told": r"batch size\.?(.*)"},
    samples={
        "0.2.15..0.5.2": (
            "Prefill out of memory. Try to lower your batch size.",
            "RuntimeError: Decode out of memory. Try to lower your batch size.",
        ),
        "0.5.3..0.5.23": "RuntimeError: Out of memory. Try to lower your batch size.",
    },
    source=_BATCH,
)
@read_from(
    r"DFLASH draft OOM when allocating",
    fields={"told": r"when (allocating .*)"},
    constants={"kind": "draft"},
    samples={"0.5.11..0.5.13": "RuntimeError: DFLASH draft OOM when allocating 16 block tokens."},
    source="sglang/srt/speculative: DFLASH",
)
class TokenSlotsExhausted(Event):
    """The KV pool has no slot left for a batch that the scheduler had admitted: tokens, not bytes."""

    kind: str | None
    told: str | None

    def _figure(self, name: str) -> int | None:
        for text in (self.told or "", *self.line.following(8)):
            found = _TOKENS[name].search(text)
            if found:
                return int(next(group for group in found.groups() if group)[:18])
        return None

    @property
    def in_window(self) -> bool:
        """Whether the lines after it tell of a window pool beside the full-attention pool."""
        return any(text.lower().startswith("available swa") for text in self.line.following(8))

    @property
    def wanted(self) -> int | None:
        """Tokens asked for, from this line or those after it."""
        return self._figure("wanted")

    @property
    def available(self) -> int | None:
        """Tokens free."""
        return self._figure("available")

    @property
    def window(self) -> int | None:
        """Tokens free in the pool of the sliding window, what could be given up among them."""
        return self._figure("window")

    @property
    def evictable(self) -> int | None:
        """Cached tokens that could have been given up."""
        return self._figure("evictable")


@read_from(
    r"alloc_req_slots runs out of memory",
    fields={"available": r"available_size\(\)=(\d+)", "wanted": rf"num_reqs={NUMBER}"},
    samples={
        "0.4.3..0.5.3": "RuntimeError: alloc_req_slots runs out of memory. Please set a smaller number for"
        " `--max-running-requests`. self.req_to_token_pool.available_size()=0, num_reqs=4, ",
        "0.5.3..0.5.23": "RuntimeError: alloc_req_slots runs out of memory. Please set a smaller number for"
        " `--max-running-requests`. req_to_token_pool.available_size()=0, num_reqs=4, ",
    },
    source=_BATCH,
)
@read_from(
    r"Out of memory\. Please set a smaller number for",
    samples={"0.2.15..0.4.1": "RuntimeError: Out of memory. Please set a smaller number for `--max-running-requests`."},
    source=_BATCH,
)
class RequestSlotsExhausted(Event):
    """No row is left in the request table."""

    wanted: int | None
    available: int | None


@read_from(
    r"Warning: available_size=|Warning: available req slots=|KV cache pool leak detected!|Memory pool leak detected!"
    r"|memory leak detected!|Mem Leak Detected!",
    literals=(
        "Warning: available_size=",
        "Warning: available req slots=",
        "pool leak detected!",
        "memory leak detected!",
        "Mem Leak Detected!",
    ),
    fields={
        "pool": r"((?:KV cache|Memory) pool|\w{1,60}) (?:memory )?leak detected|(\w{1,60} Pool|Mem) (?:Mem )?Leak",
        "available": r"available(?:_size| req slots)?=(\d+)",
        "total": r"(?:max_total_num_tokens?|total_size|total slots|pool_allocator\.size)=(\d+)",
        "evictable": rf"(?:full_)?evictable_size={NUMBER}",
        "protected": rf"protected_size(?:\(\))?={NUMBER}",
        "counted": rf"total_tokens={NUMBER}",
    },
    samples={
        "0.2.15..0.3.0": (
            "Warning: available_size=46600, max_total_num_tokens=46611",
            "KV cache pool leak detected!",
            "Warning: available req slots=2040, total slots=2049",
            "Memory pool leak detected!",
        ),
        "0.3.6..0.4.3": (
            "KV cache pool leak detected!available_size=46600, protected_size=0, self.max_total_num_tokens=46611",
            "Memory pool leak detected!available_size=2040, total_size=2049",
        ),
        "0.4.5..0.5.10": "ValueError: token_to_kv_pool_allocator memory leak detected! available_size=46600,"
        " protected_size=0, self.max_total_num_tokens=46611",
        "0.5.6..0.5.10": "ValueError: token_to_kv_pool_allocator memory leak detected! full_available_size=6016,"
        " full_evictable_size=390685, self.token_to_kv_pool_allocator.size=396701,"
        " self.tree_cache.full_protected_size()=0",
        "0.4.5..0.5.23": "req_to_token_pool memory leak detected!available_size=2040, total_size=2049",
        "0.5.4..0.5.10": "AssertionError: Mem Leak Detected! total_tokens=46600 vs self.max_total_num_tokens=46611",
        "0.5.11..0.5.23": (
            "AssertionError: Full Pool Mem Leak Detected! total_tokens=46600 vs self.max_total_num_tokens=46611",
            "AssertionError: SWA Pool Mem Leak Detected! total_tokens=46600 vs self.max_total_num_tokens=46611",
            "ValueError: pool memory leak detected! available_size=46600, evictable_size=5, max_total_num_tokens=46611",
            "mamba_pool memory leak detected! available=500, total_size=512",
        ),
        "0.5.23..0.5.23": "req_to_token_pool memory leak detected!available_size=2040, total_size=2049, session_held=0",
    },
    source="sglang/srt/managers/scheduler.py: check_memory()",
)
class SlotLeak(Event):
    """Tokens or slots are lost: a fault of accounting, no shortage."""

    pool: str | None
    available: int | None
    total: int | None
    evictable: int | None
    protected: int | None
    counted: int | None

    @property
    def lost(self) -> int | None:
        """Slots that are counted nowhere; below zero where more are counted than there are."""
        if self.total is None or (self.counted is None and self.available is None):
            return None
        if self.counted is not None:
            return self.total - self.counted
        return self.total - (self.available or 0) - (self.evictable or 0) - (self.protected or 0)

    @property
    def lost_states(self) -> tuple[int, int] | None:
        """State slots of a hybrid model that are counted nowhere, and how many there are: on the line after."""
        for text in self.line.following(3):
            found = _STATES.search(text)
            if found:
                free, cached, size, held = (int(group[:18]) for group in found.groups())
                return size - free - cached - held, size
        return None


@read_from(
    r"Not enough space for mamba cache|Not enough space for mamba ping pong idx",
    fields={
        "what": r"mamba (cache|ping pong idx)",
        "slots": r"mamba_pool\.size=(\d+)",
        "requests": r"len\(reqs\)=(\d+)",
    },
    samples={
        "0.5.7..0.5.23": (
            "AssertionError: Not enough space for mamba cache, try to increase --mamba-full-memory-ratio or"
            " --max-mamba-cache-size. mid=None, self.mamba_pool.size=40, self.mamba_pool.available_size()=0,"
            " len(reqs)=1",
            "AssertionError: Not enough space for mamba ping pong idx, try to increase --mamba-full-memory-ratio.",
        )
    },
    source="sglang/srt/mem_cache/memory_pool.py: HybridReqToTokenPool.alloc()",
)
class StateSlotsExhausted(Event):
    """No state slot is left for a request that runs: it ends the server."""

    what: str | None
    slots: int | None
    requests: int | None
