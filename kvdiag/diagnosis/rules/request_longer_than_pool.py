"""A prompt exceeds the pool, not the context.

What it sees
    A refusal for length whose limit is the pool less a few tokens, or far below the context length.
Why it matters
    The message reads like a problem of the context. A longer context or cut prompts do not help: the pool is the limit.
What to do
    Enlarge the pool: 8-bit KV, more ranks or stages, a higher fraction where memory is left.
Sources
    SGLang, scheduler.py: max_req_input_len = min(context, pool) less a few tokens.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules._formulas import worked
from kvdiag.diagnosis.rules._pricing import eight_bit_kv, knob, more_ranks, raise_by_room, raise_fraction, remedies
from kvdiag.diagnosis.rules.judgements import (
    cap,
    is_eight_bit,
    is_windows_limit,
    may_raise_fraction,
    refused_by_pool,
)
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Severity, cite, rule


@rule(severity=Severity.WARNING)
def check(case: Case) -> Iterator[Finding]:
    refused = refused_by_pool(case)
    if not refused:
        return
    limit, context = refused[0].limit or 0, case.context_length
    known = case.tokens is not None or context is not None
    free = case.free_at_end
    spare = free is not None and free.available > case.wanted_range[1]
    grow = None
    if cap(case) is None and may_raise_fraction(case):
        if spare:
            grow = raise_by_room(case)
        elif free is None:
            grow = raise_fraction(case, None, "Only as far as memory is left at the end of the start.")
    by_window = is_windows_limit(case, limit)
    yield Finding(
        summary=f"A request of {refused[0].length or 0:,} tokens is refused at {limit:,}: the pool is the limit"
        + (f", not the context of {context:,}" if context else ", not the context"),
        why="A longer context or --allow-auto-truncate does not help: the pool would still be too small.",
        formula=worked(
            "min(context, pool) less a few tokens",
            "" if case.tokens is None else f"min({context or 0:,}, {case.tokens:,}) → {limit:,}" if context else "",
        ),
        evidence=cite(*refused[:3], figure="limit", value=limit)
        + cite(case.limits, figure="kv_tokens", value=case.tokens),
        severity=Severity.INFO if by_window else Severity.WARNING,
        part_of="swa-pool-caps-request-length" if by_window else "",
        remedies=()
        if by_window
        else remedies(
            knob(case, "--max-total-tokens", Direction.RAISE, cost="It costs the memory of the added tokens.")
            if cap(case) is not None
            else None,
            None if is_eight_bit(case) else eight_bit_kv(case),
            grow,
            more_ranks(case),
        ),
        confidence=Confidence.CERTAIN if known else Confidence.LIKELY,
    )
