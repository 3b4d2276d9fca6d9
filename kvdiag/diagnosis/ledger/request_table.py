"""The request table: the map from requests to token slots that every rank keeps outside the pool's budget."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kvdiag.diagnosis.events.ready import ServerLimits
from kvdiag.diagnosis.events.weights import WeightsLoaded
from kvdiag.diagnosis.launches import Launch
from kvdiag.diagnosis.ledger.model import Basis
from kvdiag.diagnosis.lines import LogLine
from kvdiag.diagnosis.units import Bytes

# Longest context of public models, by the model's path or class, for runs that print no summary (benchmarks).
_CONTEXTS: tuple[tuple[str, int], ...] = (
    (r"gpt.?oss", 131_072),
    (r"lfm2", 128_000),
    (r"granite.?4", 131_072),
    (r"llama.?3[._-][123]|llama.?3[._]3", 131_072),
    (r"llama.?3", 8_192),
    (r"qwen3[._-]?next", 262_144),
    (r"qwen3", 40_960),
    (r"qwen2[._]5|qwen2", 32_768),
    (r"deepseek.?(v3|r1)", 163_840),
    (r"kimi.?k2[._]5", 262_144),
    (r"kimi.?k2", 131_072),
)
_ROWS = (2048, 4096)  # the bounds of SGLang's own estimate of requests


@dataclass(frozen=True, slots=True)
class RequestTable:
    """Its size, where the figures come from, and the equation."""

    size: Bytes
    basis: Basis
    equation: str
    lines: tuple[LogLine, ...]


def request_tables(launch: Launch, rank: str) -> list[RequestTable]:
    """The sizes it may have, the surest first: rows × (context + 4 [+ draft tokens]) × 4 bytes; [] without inputs.

    Rows are the request limit (one more up to 0.4.6). Where no summary line prints it, they are SGLang's estimate from
    a pool that the log may show only after a cap, so both of its bounds stand as ASSUMED.
    Source: SGLang, mem_cache/memory_pool.py: ReqToTokenPool.__init__().
    """
    limits = launch.last(ServerLimits, rank=rank) or launch.last(ServerLimits)
    draft = int(launch.number_of("speculative_num_draft_tokens") or 0)
    if limits is not None and limits.max_running_requests and limits.context_len:
        rows, context = limits.max_running_requests, limits.context_len
        return [_table(rows, context, 0, Basis.DERIVED, limits.line)]
    loaded = launch.first(WeightsLoaded, rank=rank)
    given = launch.number_of("context_length")
    name = f"{launch.value('model_path') or ''} {loaded.architecture if loaded and loaded.architecture else ''}"
    known = next((length for pattern, length in _CONTEXTS if re.search(pattern, name, re.I)), None)
    context_length = int(given) if given else known
    if context_length is None or loaded is None:
        return []
    wanted = launch.number_of("max_running_requests")
    every = (int(wanted),) if wanted else _ROWS
    return [_table(rows, context_length, draft, Basis.ASSUMED, loaded.line) for rows in every]


def _table(rows: int, context: int, draft: int, basis: Basis, line: LogLine) -> RequestTable:
    more = f" + {draft}" if draft else ""
    return RequestTable(
        Bytes(rows * (context + 4 + draft) * 4), basis, f"{rows:,} × ({context:,} + 4{more}) × 4 bytes", (line,)
    )
