"""An 8-bit KV cache holds more tokens in the same memory.

What it sees
    The KV cache's data type and its bytes a token.
Why it matters
    Plain heads double their tokens; latent and index parts gain less. Without calibrated scales accuracy can drop.
What to do
    Where tokens are short and the attention backend takes it, --kv-cache-dtype fp8_e4m3; compare answers first.
Sources
    SGLang, model_runner.py: cell sizes; its documentation on quantised KV cache.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.kv_pool import KVCacheDtype, KVPoolAllocated
from kvdiag.diagnosis.rules._pricing import ACCURACY, cell, cell_lines, eight_bit_kv, remedies
from kvdiag.diagnosis.rules.judgements import cap, fullest, is_eight_bit, is_short, kv_dtype, looks_capped
from kvdiag.diagnosis.rules.rule import Case, Confidence, Finding, Severity, cite, rule


@rule(severity=Severity.INFO, needs=(KVPoolAllocated,))
def check(case: Case) -> Iterator[Finding]:
    size, pools = cell(case), cell_lines(case)
    if size is None:
        return
    dtype = kv_dtype(case)
    worked_out = case.sizing.bytes_per_token if case.sizing is not None else None
    held = worked_out if worked_out is not None else round(size.target)
    each = f"{held:,} bytes a token"
    if is_eight_bit(case):
        yield Finding(
            summary=f"The KV cache is stored as {dtype}, {each}; {ACCURACY}",
            evidence=cite(case.launch.first(KVCacheDtype), *pools, figure="bytes_per_token", value=held),
        )
        return
    batch = fullest(case)
    full = batch is not None and (batch.usage or 0) >= case.thresholds.usage_full
    if (not is_short(case) and not full) or cap(case) is not None or looks_capped(case):
        return
    yield Finding(
        summary=f"An 8-bit KV cache would hold up to twice the tokens ({each} now); {ACCURACY}",
        why="Plain heads double; latent and index parts gain less.",
        evidence=cite(*pools, figure="bytes_per_token", value=held),
        remedies=() if is_short(case) else remedies(eight_bit_kv(case)),
        severity=Severity.INFO if is_short(case) else Severity.ADVICE,
        part_of="pool-below-one-request" if is_short(case) else "",
        confidence=Confidence.LIKELY,
    )
