"""Traffic: batch lines, retractions, refused requests, leaks, health."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from kvdiag.diagnosis.events.pattern import DECIMAL, NUMBER, Event, Every, read_from

_SOURCE = "sglang/srt/managers/scheduler.py (scheduler_metrics_mixin.py)"

# A batch line is a list of `key: value` parts; unknown keys are passed over. Key to field, and how its value reads.
_PART = re.compile(r"([#A-Za-z][^:,\[\]]*?): (-?[\d.]+|True|False)")
_KEYS: dict[str, tuple[str, type]] = {
    "#new-seq": ("new_seqs", int),
    "#new-token": ("new_tokens", int),
    "#cached-token": ("cached_tokens", int),
    "cache hit rate": ("hit_percent", float),
    "#running-req": ("running", int),
    "Prefill batch(mixed #running-req": ("running", int),
    "#queue-req": ("queued", int),
    "#pending-token": ("pending_tokens", int),
    "#token": ("tokens", int),
    "#full token": ("tokens", int),
    "#swa token": ("swa_tokens", int),
    "#gpu token": ("tokens", int),
    "#cpu token": ("host_tokens", int),
    "token usage": ("usage", float),
    "full token usage": ("usage", float),
    "gpu token usage": ("usage", float),
    "cpu token usage": ("host_usage", float),
    "swa token usage": ("swa_usage", float),
    "mamba usage": ("mamba_usage", float),
    "mamba num": ("mamba_slots", int),
    "pre-allocated usage": ("preallocated_usage", float),
    "gen throughput (token/s)": ("throughput", float),
    "input throughput (token/s)": ("input_throughput", float),
    "accept len": ("accept_length", float),
    "accept rate": ("accept_rate", float),
    "cap len": ("cap_length", float),
    "block accept len": ("block_accept_length", float),
    "largest-len": ("largest_length", int),
    "#retracted-req": ("retracted", int),
    "#prealloc-req": ("preallocating", int),
    "#bootstrap-req": ("preallocating", int),
    "#unbootstrapped-req": ("preallocating", int),
    "#inflight-req": ("in_flight", int),
    "#transferring-req": ("in_flight", int),
    "#transfer-req": ("in_flight", int),
    "#host-receive-req": ("host_receiving", int),
    "#optimistic-req": ("optimistic", int),
    "#replay-token": ("replayed_tokens", int),
    "waiting-image-req": ("waiting_images", int),
    "cuda graph": ("graph", bool),
    "cpu graph": ("graph", bool),
    "npu graph": ("graph", bool),
    "musa graph": ("graph", bool),
    "xpu graph": ("graph", bool),
    "fwd occupancy": ("occupancy_percent", float),
}


class _BatchReader:
    """Reads the fields of batch lines, a log's bulk: by one expression where a line is worded like earlier ones."""

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()
        self._empty: dict[str, Any] = {}
        self._wordings: list[tuple[re.Pattern[str], list[str], list[Callable[[str], Any]]]] = []
        self._apart = 0  # lines that were read part by part

    def of(self, event: type[Event]) -> None:
        """Sets the event whose fields are read."""
        self._names = frozenset(event.FIELDS[1:])
        self._empty = dict.fromkeys(event.FIELDS[1:])

    def __call__(self, text: str) -> dict[str, Any]:
        for worded, names, readers in self._wordings:
            match = worded.fullmatch(text)
            if match is not None:
                found = self._empty.copy()
                for name, read, value in zip(names, readers, match.groups(), strict=True):
                    found[name] = read(value)
                return found
        self._apart += 1
        if self._apart % _OFTEN == 0 and len(self._wordings) < _WORDINGS and (learned := self._wording(text)):
            self._wordings.append(learned)
        return self._part_by_part(text)

    def _part_by_part(self, text: str) -> dict[str, Any]:
        found = self._empty.copy()
        if "(mixed" in text:
            parts = ((key, value) for key, value in _PART.findall(text))
        else:
            parts = ((key, value) for key, _, value in (x.rpartition(": ") for x in text.rstrip(", ").split(", ")))
        for key, value in parts:
            known = _known(key)
            if known is None:
                continue
            name, kind = known
            if name in self._names and len(value) < 20:
                try:
                    found[name] = value == "True" if kind is bool else _figure(value) if kind is float else kind(value)
                except ValueError:
                    found[name] = _percent(value) if kind is float else None
        return found

    def _wording(self, text: str) -> tuple[re.Pattern[str], list[str], list[Callable[[str], Any]]] | None:
        """The expression for all lines with this one's keys, and what its groups are; None for an odd line."""
        if "(mixed" in text:
            return None
        expressions: list[str] = []
        names: list[str] = []
        readers: list[Callable[[str], Any]] = []
        for part in text.rstrip(", ").split(", "):
            key, colon, value = part.rpartition(": ")
            known = _known(key)
            if not colon or known is None or known[0] not in self._names:
                # "Decode batch" itself, and what no field is read from.
                expressions.append(re.escape(key + colon) + ("[\\w.%/-]{0,40}" if colon else re.escape(value)))
                continue
            name, kind = known
            form, read = _FORMS[kind]
            percent = "%" if kind is float and value.endswith("%") else ""
            if not re.fullmatch(form + percent, value):
                return None
            expressions.append(re.escape(f"{key}: ") + form + percent)
            names.append(name)
            readers.append(read)
        return re.compile(", ".join(expressions) + "[, ]{0,4}"), names, readers


_OFTEN = 32  # lines read part by part, after which the wording at hand is taken for a frequent one
_WORDINGS = 8
_FORMS: dict[type, tuple[str, Callable[[str], Any]]] = {
    int: (r"(-?\d{1,15})", int),
    float: (r"(-?\d{1,12}(?:\.\d{1,6})?)", float),
    bool: ("(True|False)", "True".__eq__),
}


def _known(key: str) -> tuple[str, type] | None:
    """The field of a key, and how its value reads; up to 0.5.3 the first key has "Decode batch. " before it."""
    return _KEYS.get(key) or _KEYS.get(key.rpartition(". ")[2])


def _figure(value: str) -> float | None:
    """A number; None for one that is none, or beyond every measure. Raises ValueError for other text."""
    number = float(value)
    return number if math.isfinite(number) else None


def _percent(value: str) -> float | None:
    try:
        return _figure(value.rstrip("% "))
    except ValueError:
        return None


read_prefill = _BatchReader()
read_decode = _BatchReader()


_P = "Prefill batch. #new-seq: 1, #new-token: 7, #cached-token: 0, "
_PC = "Prefill batch, #new-seq: 1, #new-token: 7, #cached-token: 0, "


@read_from(
    r"Prefill batch",
    samples={
        "0.2.15..0.3.0": (
            f"{_P}cache hit rate: 0.00%, #running-req: 0, #queue-req: 0",
            "Prefill batch(mixed #running-req: 4). #new-seq: 1, #new-token: 7, #cached-token: 0, cache hit rate: 0.00%,"
            " #queue-req: 0",
        ),
        "0.3.6..0.4.1": f"{_P}cache hit rate: 0.00%, token usage: 0.00, #running-req: 0, #queue-req: 0",
        "0.4.3..0.4.5": f"{_P}token usage: 0.00, #running-req: 0, #queue-req: 0, ",
        "0.4.6..0.4.6": (
            f"{_P}token usage: 0.00, #running-req: 0, #queue-req: 0",
            f"{_P}token usage: 0.00, #unbootstrapped-req: 2, #queue-req: 0, #transferring-req: 1",
        ),
        "0.4.7..0.4.8": f"{_P}token usage: 0.92, #unbootstrapped-req: 0, #queue-req: 105, #transferring-req: 990, input"
        " throughput (token/s): 96875.08",
        "0.4.9..0.5.2": f"{_P}full token usage: 0.00, swa token usage: 0.01, #running-req: 0, #queue-req: 0, ",
        "0.5.3..0.5.3": f"{_P}full token usage: 0.00, mamba usage: 0.01, #running-req: 0, #queue-req: 0,"
        f" #prealloc-req: 1,"
        " #inflight-req: 2, ",
        "0.5.4..0.5.8": f"{_PC}token usage: 0.00, #running-req: 0, #queue-req: 0, #prealloc-req: 1, #inflight-req:"
        f" 2, input"
        " throughput (token/s): 91.20, ",
        "0.5.9..0.5.9": f"{_PC}token usage: 0.00, #running-req: 0, #queue-req: 0, waiting-image-req: 0, cuda graph:"
        f" False,"
        " input throughput (token/s): 91.20, ",
        "0.5.10..0.5.10": f"{_PC}token usage: 0.00, #running-req: 0, #queue-req: 0, cuda graph: False, input throughput"
        " (token/s): 91.20, est. prefill TFLOPS/s (per GPU): 12.00",
        "0.5.11..0.5.11": f"{_PC}token usage: 0.00, #running-req: 0, #queue-req: 0, #pending-token: 8192, cuda graph:"
        " False, input throughput (token/s): 91.20, fwd occupancy: 91.00%",
        "0.5.12..0.5.15": f"{_PC}token usage: 0.00, #running-req: 0, #queue-req: 0, #pending-token: 8192,"
        f" #bootstrap-req: 0,"
        " #inflight-req: 0, cuda graph: True, input throughput (token/s): 91.20",
        "0.5.17..0.5.19": f"{_PC}token usage: 0.00, #running-req: 0, #queue-req: 0, #pending-token: 8192,"
        f" #optimistic-req:"
        " 0, cuda graph: True, input throughput (token/s): 91.20",
        "0.5.21..0.5.23": f"{_PC}#replay-token: 0, full token usage: 0.10, swa token usage: 0.20, mamba usage: 0.30,"
        " #running-req: 0, #queue-req: 0, #pending-token: 8192, cuda graph: True, input throughput (token/s): 91.20",
    },
    source=_SOURCE,
    dense=True,
    parse=read_prefill,
)
class PrefillBatch(Event):
    """One prefill batch. Usages are shares of a pool, 0 to 1; throughput in tokens/s."""

    new_tokens: int | None
    cached_tokens: int | None
    running: int | None
    queued: int | None
    usage: float | None
    swa_usage: float | None
    mamba_usage: float | None
    new_seqs: int | None = None
    pending_tokens: int | None = None
    input_throughput: float | None = None
    preallocating: int | None = None
    in_flight: int | None = None
    waiting_images: int | None = None
    replayed_tokens: int | None = None
    graph: bool | None = None
    hit_percent: float | None = None
    occupancy_percent: float | None = None


_D = "Decode batch. #running-req: 1, #token: 40, token usage: 0.01, "
_DC = "Decode batch, #running-req: 1, #token: 40, token usage: 0.01, "
_G = "gen throughput (token/s): 4.40, #queue-req: 0"


@read_from(
    r"Decode batch",
    samples={
        "0.2.15..0.4.0": f"{_D}{_G}",
        "0.4.1..0.4.1": f"{_D}accept len: 2.61, {_G}",
        "0.4.3..0.4.3": f"{_D}accept len: 2.61, gen throughput (token/s): 4.40, largest-len: 512, #queue-req: 0, ",
        "0.4.5..0.4.5": f"{_D}{_G}, ",
        "0.4.6..0.4.6": f"{_D}pre-allocated usage: 0.10, cuda graph: True, {_G}, ",
        "0.4.7..0.4.8": f"{_D}pre-allocated usage: 0.10, #retracted-req: 0, cuda graph: True, {_G}, ",
        "0.4.9..0.5.2": "Decode batch. #running-req: 4, #full token: 2642688, full token usage: 1.00, #swa token:"
        " 14592, swa"
        f" token usage: 0.06, cuda graph: True, {_G}, ",
        "0.5.2..0.5.2": f"{_D}cpu graph: True, {_G}, ",
        "0.5.3..0.5.3": f"{_D}accept len: 2.61, accept rate: 0.65, #prealloc-req: 0, #transfer-req: 1,"
        f" #retracted-req: 0,"
        f" cuda graph: True, {_G}, ",
        "0.5.4..0.5.8": (
            f"{_DC}npu graph: True, {_G}, ",
            "Decode batch [412], #running-req: 9, #full token: 4000, full token usage: 0.31, mamba num: 18, mamba"
            " usage:"
            f" 0.90, cuda graph: True, {_G}, ",
        ),
        "0.5.9..0.5.9": f"{_DC}waiting-image-req: 0, cuda graph: True, {_G}",
        "0.5.10..0.5.10": f"{_DC}cuda graph: True, {_G}, est. decode TFLOPS/s (per GPU): 1.00, est. read BW (GB/s"
        f" per GPU):"
        " 900.00, est. write BW (GB/s per GPU): 1.00",
        "0.5.11..0.5.15": f"{_DC}cuda graph: True, {_G}, fwd occupancy: 91.00%",
        "0.5.12..0.5.23": "Decode batch, #running-req: 9, #gpu token: 4000, gpu token usage: 0.31, #cpu token:"
        " 18000, cpu"
        f" token usage: 0.90, cuda graph: True, {_G}",
        "0.5.17..0.5.19": f"{_DC}accept len: 2.61, accept rate: 0.65, cap len: 4.00, block accept len: 2.10, cuda"
        f" graph:"
        f" True, {_G}",
        "0.5.21..0.5.23": f"{_DC}#host-receive-req: 0, cuda graph: True, {_G}",
    },
    source=_SOURCE,
    dense=True,
    parse=read_decode,
)
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
    accept_rate: float | None = None
    swa_tokens: int | None = None
    host_tokens: int | None = None
    host_usage: float | None = None
    mamba_slots: int | None = None
    preallocated_usage: float | None = None
    retracted: int | None = None
    preallocating: int | None = None
    in_flight: int | None = None
    host_receiving: int | None = None
    waiting_images: int | None = None
    largest_length: int | None = None
    graph: bool | None = None
    occupancy_percent: float | None = None


read_prefill.of(PrefillBatch)
read_decode.of(DecodeBatch)


@read_from(
    r"Retract requests\.|Decode out of memory happened",
    literals=("Retract requests.", "Decode out of memory happened"),
    fields={
        "requests": rf"#retracted_reqs: {NUMBER}",
        "aborted": rf"#aborted_retracted_reqs: {NUMBER}",
        "tokens_gained": rf"#new_tokens_gained: {NUMBER}",
        "mamba_gained": rf"#mamba_num_gained: {NUMBER}",
        "ratio_before": rf"#new_token_ratio: {DECIMAL}",
        "ratio_after": r"-> ([\d.]+\d)",
    },
    samples={
        "0.2.15..0.4.6": "Decode out of memory happened. #retracted_reqs: 1, #new_token_ratio: 0.0975 -> 1.0000",
        "0.4.7..0.5.6": "KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_token_ratio: 0.5100 ->"
        " 0.9122",
        "0.5.3..0.5.3": "KV cache pool is full. Retract requests. #retracted_reqs: 3, #aborted_retracted_reqs: 0,"
        " #new_token_ratio: 0.5100 -> 0.9122",
        "0.5.7..0.5.23": "KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_tokens_gained: 812,"
        " #new_token_ratio: 0.5100 -> 0.9122",
        "0.5.12..0.5.23": "KV cache pool is full. Retract requests. #retracted_reqs: 3, #new_tokens_gained: 812,"
        " #mamba_num_gained: 3, #new_token_ratio: 0.5100 -> 0.9122",
    },
    source="sglang/srt/managers/scheduler.py: update_running_batch()",
)
class Retraction(Event):
    """The pool was full: requests went back to the queue. Not a CUDA overflow."""

    requests: int | None
    aborted: int | None = None
    tokens_gained: int | None = None
    mamba_gained: int | None = None
    ratio_before: float | None = None
    ratio_after: float | None = None


@read_from(
    r"retract_decode: aborted",
    fields={"reason": r"aborted request \S+[,:] (.*)"},
    excludes=("aborted last request",),
    samples={
        "0.5.19..0.5.19": "retract_decode: aborted request 4f2a, retraction host pool exhausted",
        "0.5.21..0.5.23": "retract_decode: aborted request 4f2a: no room",
    },
    source="sglang/srt/managers/schedule_batch.py: retract_decode()",
)
@read_from(
    r"Retraction host KV pool exhausted|Retracted under decode memory pressure without a KV backup",
    fields={"reason": r"(Retract\w+ [\w -]+)"},
    excludes=("retract_decode: aborted",),
    samples={
        "0.5.21..0.5.23": (
            "Retraction host KV pool exhausted. Aborting the request.",
            "Retracted under decode memory pressure without a KV backup. Retry later.",
        )
    },
    source="sglang/srt/disaggregation/decode.py",
)
class RetractionAborted(Event):
    """A request was given up under pressure; the server goes on."""

    reason: str | None


@read_from(
    r"Testing retraction\.",
    samples={"": "Testing retraction. #retracted_reqs: 1, #new_token_ratio: 0.5 -> 0.6"},
    source="sglang/srt/managers/scheduler.py",
)
class RetractionTest(Event):
    """Retraction on purpose, in a test mode: no pressure."""


@read_from(
    r"Decode status not found for request",
    samples={
        "0.4.1..0.5.23": "Decode status not found for request 4f2a. It may be due to the request being evicted from the"
        " decode status due to memory pressure. Please increase the maximum number of requests by setting the"
        " SGLANG_DETOKENIZER_MAX_STATES environment variable."
    },
    source="sglang/srt/managers/detokenizer_manager.py",
)
class DetokenizerEvicted(Event):
    """The detokenizer's table is too small: not GPU memory."""


@read_from(
    r"EmbeddingPool: requested \d+MB exceeds pool capacity",
    literals=("exceeds pool capacity",),
    fields={"wanted": rf"requested {NUMBER}", "capacity": rf"capacity {NUMBER}"},
    samples={
        "0.5.13..0.5.17": "MooncakeEmbeddingPool: requested 900MB exceeds pool capacity 512MB. Raise"
        " SGLANG_EMBEDDING_POOL_SIZE_MB.",
        "0.5.19..0.5.23": "EmbeddingPool: requested 900MB exceeds pool capacity 512MB. Raise"
        " SGLANG_EMBEDDING_POOL_SIZE_MB.",
    },
    source="sglang/srt/disaggregation",
)
@read_from(
    r"\[Staging\] Chunk staging allocation permanently failed|\[STAGING_REQ\] alloc failed",
    fields={"wanted": rf"need {NUMBER}", "capacity": rf"buffer total={NUMBER}"},
    samples={
        "0.5.10..0.5.23": (
            "[Staging] Chunk staging allocation permanently failed: chunk exceeds ring buffer total size (room=12)."
            " Increase SGLANG_DISAGG_STAGING_POOL_SIZE_MB.",
            "[STAGING_REQ] alloc failed room=12 (need 734003200 bytes, buffer total=536870912 bytes). Falling back.",
        )
    },
    source="sglang/srt/disaggregation",
)
class TransferBufferFull(Event):
    """A transfer buffer of fixed size is too small. Figures as printed: MB or bytes."""

    wanted: int | None
    capacity: int | None


@read_from(
    r"LoRA adapter .* is incompatible with the current LoRA memory pool|not allowed to pin all slots in the LoRA"
    r" memory pool"
    r"|more LoRA adapters than the memory pool can hold",
    literals=("incompatible with the current LoRA", "pin all slots in the LoRA", "more LoRA adapters than"),
    samples={
        "0.4.9..0.4.10": "LoRA adapter a with rank 64 is incompatible with the current LoRA memory pool configuration."
        " Please ensure that the LoRA adapter's rank is within the configured `--max_lora_rank` and that the target"
        " modules"
        " are included in `--enable_lora_modules`.",
        "0.5.1..0.5.23": (
            "LoRA adapter a with rank 64 is incompatible with the current LoRA memory pool configuration. Please ensure"
            " that the LoRA adapter's rank is within the configured `--max-lora-rank` and that the target modules are"
            " included in `--lora-target-modules`.",
            "Failed to load LoRA adapter a as a pinned adapter. It is not allowed to pin all slots in the LoRA"
            " memory pool"
            " to avoid starvation for unpinned adapters.",
        ),
        "0.5.21..0.5.23": "The global DP-attention batch contains more LoRA adapters than the memory pool can hold",
    },
    source="sglang/srt/lora/lora_manager.py",
)
class LoraRefused(Event):
    """An adapter does not fit the LoRA pool's configuration."""


@read_from(
    r"\[Mem Check \(BUSY\)\]",
    fields={"figures": Every(r"(\w+=\d+)")},
    samples={"": "[Mem Check (BUSY)] available_size=46600, evictable_size=11"},
    source="sglang/srt/managers/scheduler.py: strict memory check",
)
class MemoryCheck(Event):
    """A strict check while requests run: information only."""

    figures: tuple[str, ...] | None


@read_from(
    r"Health check failed\.|Health check request received during shutdown",
    fields={"seconds": r"for last (\d+) seconds"},
    samples={
        "0.4.3..0.5.23": "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. tic"
        " start time: 10:00:00. last_heartbeat time: 09:59:40",
        "0.4.10..0.5.23": "Health check request received during shutdown. Returning 503.",
    },
    source="sglang/srt/entrypoints/http_server.py: health_generate()",
)
class HealthCheckFailed(Event):
    """The server did not answer a health check in time."""

    seconds: int | None
