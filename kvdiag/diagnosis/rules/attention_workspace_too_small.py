"""The attention library's scratch buffer of fixed size is too small.

What it sees
    "Failed to allocate memory for batch_prefill_tmp…" or a buffer overflow of the same allocator.
Why it matters
    The request or the server fails. Device memory is not short: the buffer's size is a setting.
What to do
    Raise SGLANG_FLASHINFER_WORKSPACE_SIZE, or make the batch smaller.
Sources
    FlashInfer, AlignedAllocator; SGLang, layers/attention/flashinfer_backend.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.libraries import AttentionWorkspaceShort
from kvdiag.diagnosis.rules._pricing import smaller_chunk
from kvdiag.diagnosis.rules.judgements import ranks_of
from kvdiag.diagnosis.rules.rule import Case, Direction, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import MIB


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    found = case.launch.each(AttentionWorkspaceShort)
    if not found:
        return
    size = max((e.size or 0 for e in found), default=0)
    wanted = str(2 * size) if size else None
    yield Finding(
        summary=f"The attention library's scratch buffer is too small: {size / MIB:,.0f} MiB were asked for at once",
        why="It is a buffer of fixed size; device memory is not short, and the fraction does not change it.",
        ranks=ranks_of(found[:64]),
        evidence=cite(*found[:2], figure="size", value=size or None),
        remedies=(
            Remedy(
                "SGLANG_FLASHINFER_WORKSPACE_SIZE",
                Direction.RAISE,
                to=wanted,
                cost="It costs that much device memory on every rank.",
            ),
            smaller_chunk(case),
        ),
    )
