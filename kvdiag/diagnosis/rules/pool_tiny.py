"""The pool holds a few thousand tokens.

What it sees
    A token count of the pool, printed or as tokens / usage, of a few thousand.
Why it matters
    One ordinary prompt fills it. Something keeps it this small.
What to do
    Find the cause in the sizing: a cap, a fraction, a rank with little memory, or weights that nearly fill the card.
Sources
    SGLang, model_runner.py: profile_max_num_token(); batch lines.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.kv_pool import DeepSeekV4Pools, KVPoolAllocated, SlidingWindowPool
from kvdiag.diagnosis.rules.judgements import cap, cause_of_room, pool_by_usage
from kvdiag.diagnosis.rules.rule import Case, Confidence, Evidence, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import format_tokens


@rule(severity=Severity.WARNING)
def check(case: Case) -> Iterator[Finding]:
    tokens, evidence = (
        case.tokens,
        cite(
            case.limits,
            *(case.launch.each(KVPoolAllocated)[:1] or case.launch.each(SlidingWindowPool, DeepSeekV4Pools)[:1]),
            figure="kv_tokens",
            value=case.tokens,
        ),
    )
    confidence = Confidence.CERTAIN
    if tokens is None:
        derived = pool_by_usage(case)
        if derived is None:
            return
        tokens, batch = round(derived[0], -1), derived[1]
        evidence, confidence = (Evidence(batch.line, "tokens / usage", tokens),), Confidence.LIKELY
    if not 0 < tokens <= case.thresholds.pool_tiny_tokens:
        return
    capped = cap(case)
    about = "about " if confidence is Confidence.LIKELY else ""  # by a usage of two decimals
    yield Finding(
        summary=f"The KV pool holds only {about}{format_tokens(tokens)} tokens",
        why=f"--max-total-tokens {capped:,} asks for it." if capped is not None else "One ordinary prompt fills it.",
        evidence=evidence,
        severity=Severity.INFO if capped is not None else Severity.WARNING,
        part_of=cause_of_room(case) or ("max-total-tokens-cap" if capped is not None else ""),
        confidence=confidence,
    )
