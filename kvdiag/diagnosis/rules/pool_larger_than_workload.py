"""The pool and its slots are far beyond what the request limit allows.

What it sees
    The request limit times the context length, much smaller than the pool.
Why it matters
    The rest can only serve prefix reuse. It is no fault where that is wanted.
What to do
    Cap the tokens and spend the memory elsewhere, or raise the request limit.
Sources
    SGLang, scheduler.py: max_running_requests.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules._formulas import worked
from kvdiag.diagnosis.rules._pricing import cell
from kvdiag.diagnosis.rules.judgements import most_in_use
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Effect, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import format_gib, format_tokens, to_gib


@rule(severity=Severity.INFO)
def check(case: Case) -> Iterator[Finding]:
    tokens, context, most = case.tokens, case.context_length, most_in_use(case)
    if not tokens or not context or most is None:
        return
    limit = most // context
    size = cell(case)
    spare = None if size is None else round((tokens - most) * (size.target + size.draft))
    frees = "" if spare is None else f"; {format_gib(spare)} a GPU can only serve prefix reuse"
    yield Finding(
        summary=f"{limit:,} request{'s' if limit > 1 else ''} of {format_tokens(context)} tokens"
        f" use{'s' if limit == 1 else ''} at most {format_tokens(most)} of"
        f" {format_tokens(tokens)} tokens{frees}",
        formula=worked("max_running_requests × context_len", f"{limit:,} × {context:,} = {most:,} tokens"),
        evidence=cite(case.limits, figure="kv_tokens", value=tokens),
        remedies=(
            Remedy(
                "--max-total-tokens",
                Direction.SET,
                to=str(most),
                effect={"kv_tokens": Effect(tokens, most)},
                cost="It costs kept prefixes beyond the running requests.",
            ),
        ),
        confidence=Confidence.LIKELY,
        stake=to_gib(spare) or 0.0,
    )
