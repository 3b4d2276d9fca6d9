"""The latent KV cache is the same on each tensor rank.

What it sees
    A pool of latent attention (one buffer, "KV size") on more than one tensor rank, without data-parallel attention.
Why it matters
    Every rank holds a full copy: tokens do not grow with the number of ranks, except through smaller weights.
What to do
    Data-parallel attention, context-parallel decode, or pipeline stages.
Sources
    SGLang, mem_cache/memory_pool.py: MLATokenToKVPool.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.kv_pool import KVPoolAllocated
from kvdiag.diagnosis.rules._pricing import knob, remedies
from kvdiag.diagnosis.rules.judgements import attends_in_data_parallel, is_latent, ranks_in_tensor_group
from kvdiag.diagnosis.rules.rule import Case, Direction, Finding, Severity, cite, rule


@rule(severity=Severity.INFO, needs=(KVPoolAllocated,))
def check(case: Case) -> Iterator[Finding]:
    ranks = ranks_in_tensor_group(case)
    if (
        not is_latent(case)
        or ranks < 2
        or attends_in_data_parallel(case)
        or (case.launch.number_of("dcp_size") or 1) > 1
    ):
        return
    pool = case.launch.first(KVPoolAllocated)
    # Of a fragment the highest rank may not be the last.
    is_whole = case.launch.number_of("tp_size") is not None or ranks & (ranks - 1) == 0
    times = f"{ranks} times" if is_whole else f"at least {ranks} times"
    yield Finding(
        summary=f"The latent KV cache is held {times}, once on each tensor rank",
        why="Its size does not depend on the number of tensor ranks.",
        evidence=cite(pool, figure="kv_tokens", value=pool.tokens if pool else None),
        remedies=remedies(
            knob(
                case,
                "--enable-dp-attention",
                Direction.SET,
                cost="It costs memory for attention weights on each rank, and one request no longer uses all ranks.",
            ),
            knob(
                case,
                "--dcp-size",
                Direction.RAISE,
                to=str(ranks) if is_whole else None,
                cost="It costs a build that has it and some latency.",
            ),
            knob(case, "--pp-size", Direction.RAISE, cost="It costs latency between the stages."),
        ),
    )
