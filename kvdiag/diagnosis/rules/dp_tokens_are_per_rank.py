"""With data-parallel attention the printed tokens are those of one rank.

What it sees
    Rank prefixes with DP and TP, and a token count.
Why it matters
    Capacity is the printed count times the ranks. One request still has to fit into one rank's pool.
What to do
    Multiply for capacity; do not multiply for the longest request.
Sources
    SGLang, scheduler.py: one summary line a data-parallel group.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules.judgements import size_of
from kvdiag.diagnosis.rules.rule import Case, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import format_tokens


@rule(severity=Severity.INFO, unless=(judgements.without_data_parallel,))
def check(case: Case) -> Iterator[Finding]:
    ranks = size_of(case, "dp_size", "DP")
    if case.tokens is None:
        return
    pools = [r for x in case.ledgers for p in x.pools[:1] for r in p.lines]
    source = cite(case.limits, figure="kv_tokens", value=case.tokens)
    if not source and not pools:
        return
    yield Finding(
        summary=f"{format_tokens(case.tokens)} tokens are one data-parallel rank's: "
        + (f"{ranks} of them hold {format_tokens(case.tokens * ranks)}, and " if ranks > 1 else "")
        + f"one request has at most {format_tokens(case.tokens)}",
        evidence=source or cite(*pools[:1], figure="kv_tokens", value=case.tokens),
    )
