"""The numbers are healthy.

What it sees
    A pool of at least one full-length request, free memory at the end that is neither thin nor idle, no error and no
    pushed-back request.
Why it matters
    There is nothing to fix, and a change would only trade one thing for another.
What to do
    Nothing.
Sources
    SGLang documentation, "Hyperparameter Tuning".
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules._formulas import wanted_by_size
from kvdiag.diagnosis.rules.judgements import is_healthy
from kvdiag.diagnosis.rules.rule import Case, Confidence, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import format_gib, format_tokens


@rule(severity=Severity.INFO)
def check(case: Case) -> Iterator[Finding]:
    free = case.free_at_end
    if not is_healthy(case) or free is None:
        return
    pool = "" if case.tokens is None else f"{format_tokens(case.tokens)} KV tokens and "
    is_known = case.card is not None
    assumed = "" if is_known else f", where {wanted_by_size(case)}, which the log does not tell"
    early = case.has_graphs_after_end
    when = "at the last reading, before graphs were captured" if early else "at the end"
    if not case.is_ready:
        when = "at the last reading, before the server is ready"
    yield Finding(
        summary=f"{pool}{format_gib(free.available)} free {when}: healthy{assumed}",
        evidence=cite(case.limits, figure="kv_tokens", value=case.tokens) + cite(free),
        confidence=Confidence.CERTAIN if is_known and case.is_ready and not early else Confidence.LIKELY,
    )
