"""The KV pool holds fewer tokens than one request may use.

What it sees
    A pool with fewer tokens than the context length that the server promises.
Why it matters
    Requests within the promised context are refused, or cut off once they outgrow the pool.
What to do
    Say how long requests really are, and lower --context-length to it; or give the pool more memory.
Sources
    SGLang, its own warning since 0.5.23; scheduler.py: max_req_len.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from kvdiag.diagnosis.events.kv_pool import PoolBelowContext
from kvdiag.diagnosis.rules._formulas import worked
from kvdiag.diagnosis.rules._pricing import cell, eight_bit_kv, knob, raise_fraction, remedies
from kvdiag.diagnosis.rules.judgements import cap, is_eight_bit, is_short, may_raise_fraction
from kvdiag.diagnosis.rules.rule import Case, Direction, Effect, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import Bytes, format_gib, format_tokens


@rule(severity=Severity.WARNING)
def check(case: Case) -> Iterator[Finding]:
    if not is_short(case):
        return
    said = case.launch.first(PoolBelowContext)
    tokens = case.tokens if case.tokens is not None else said.tokens if said is not None else None
    context = case.context_length or (said.context_len if said is not None else None)
    if tokens is None or context is None:
        return
    size, free = cell(case), case.free_at_end
    missing = context - tokens
    needed = None if size is None else Bytes(round(missing * (size.target + size.draft) / size.share))
    spare = None if free is None else free.available - case.wanted_range[1]
    grow = None
    if (
        needed is not None
        and spare is not None
        and 0 < needed <= spare
        and may_raise_fraction(case)
        and cap(case) is None
    ):
        opening, fraction = case.opening_size, case.fraction
        if opening and fraction is not None:
            grow = raise_fraction(case, math.ceil((fraction + needed / opening) * 1000) / 1000)
    short_of = "" if needed is None else f", {format_gib(needed)} on each rank"
    yield Finding(
        summary=f"The KV pool is {format_tokens(missing)} tokens short of one full-length request"
        f" ({format_tokens(tokens)} of {format_tokens(context)}{short_of})",
        why="Longer requests are refused although the context allows them.",
        formula=worked("context_len − max_total_num_tokens", f"{context:,} − {tokens:,} = {missing:,} tokens"),
        evidence=cite(case.limits, said, figure="kv_tokens", value=tokens)
        + (cite(*case.launch.commands[:1], figure="context_length", value=context) if case.limits is None else ()),
        remedies=remedies(
            Remedy(
                "--max-total-tokens",
                Direction.RAISE,
                before=str(cap(case)),
                to=str(context),
                effect={"kv_tokens": Effect(tokens, context)},
                cost="It costs the memory of the added tokens.",
            )
            if cap(case) is not None and spare is not None and needed is not None and needed <= spare
            else None,
            grow,
            knob(
                case,
                "--context-length",
                Direction.LOWER,
                to=str(tokens),
                cost=f"It costs requests longer than {format_tokens(tokens)} tokens, which cannot run today either.",
            ),
            None if is_eight_bit(case) else eight_bit_kv(case),
        ),
    )
