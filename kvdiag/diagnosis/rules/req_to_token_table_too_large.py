"""The table that maps requests to token slots is too large.

What it sees
    One huge allocation while the pools are set up that equals rows × (context length + 4 [+ draft tokens]) × 4 bytes;
    rows are the request limit.
Why it matters
    A context of millions of tokens makes the table tens of GiB, outside the static budget. The weights fit and the
    fraction is innocent.
What to do
    Lower --context-length, then --max-running-requests.
Sources
    SGLang, mem_cache/memory_pool.py: ReqToTokenPool.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.ledger.sizing.requests import request_table_bytes
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._formulas import gib, worked
from kvdiag.diagnosis.rules._pricing import knob
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import format_gib, to_gib


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    for oom in judgements.overflows(case)[:1]:
        rows = judgements.table_rows(case, oom)
        framed = judgements.site(case, oom) == "request_table"
        if rows is None and not framed:
            return
        size = format_gib(oom.tried) if oom.tried is not None else "more than is free"
        of = f" = {rows:,} requests × ({case.context_length:,} + 4) × 4 bytes" if rows else ""
        yield Finding(
            summary=f"The table of requests to token slots asks for {size}{of}",
            why="It lies outside the static budget: neither the weights nor the fraction are to blame.",
            formula=worked(
                "rows × (context + 4) × 4 bytes",
                f"{rows:,} × ({case.context_length:,} + 4) × 4 = {gib(request_table_bytes(rows, case.context_length))}"
                if rows and case.context_length
                else "",
            ),
            evidence=cite(oom, figure="tried_gib", value=to_gib(oom.tried, 4)),
            remedies=(
                knob(case, "--context-length", Direction.LOWER, cost="It costs requests longer than the new length."),
                knob(case, "--max-running-requests", Direction.LOWER, cost="It costs concurrency above the new limit."),
            ),
            confidence=Confidence.CERTAIN if rows else Confidence.LIKELY,
            stake=to_gib(oom.tried) or 0.0,
        )
