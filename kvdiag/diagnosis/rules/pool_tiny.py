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

from collections.abc import Iterator, Sequence

from kvdiag.diagnosis.events.kv_pool import DeepSeekV4Pools, KVPoolAllocated, SlidingWindowPool
from kvdiag.diagnosis.events.pattern import Event
from kvdiag.diagnosis.rules._pricing import cell_lines, eight_bit_kv, raise_by_room, remedies
from kvdiag.diagnosis.rules._promises import lines_missing
from kvdiag.diagnosis.rules.judgements import (
    cap,
    cause_of_room,
    is_eight_bit,
    is_short,
    looks_capped,
    may_raise_fraction,
    pool_by_usage,
    tells_of_a_cap,
)
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Evidence, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import format_tokens


@rule(severity=Severity.WARNING)
def check(case: Case) -> Iterator[Finding]:
    tokens, evidence = (
        case.tokens,
        cite(
            case.limits,
            *(cell_lines(case)[:1] or _pool_lines(case)),
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
    capped, cause = cap(case), _cause(case)
    offers = () if cause else _offers(case)
    about = "about " if confidence is Confidence.LIKELY else ""  # by a usage of two decimals
    yield Finding(
        summary=f"The KV pool holds only {about}{format_tokens(tokens)} tokens",
        why=f"--max-total-tokens {capped:,} asks for it."
        if capped is not None
        else f"One ordinary prompt fills it.{'' if offers or cause else _missing(case)}",
        evidence=evidence,
        remedies=offers,
        severity=Severity.INFO if cause else Severity.WARNING,
        part_of=cause,
        confidence=confidence,
    )


def _pool_lines(case: Case) -> Sequence[Event]:
    """A line of a pool, where the log has the size of none."""
    return case.launch.each(KVPoolAllocated)[:1] or case.launch.each(SlidingWindowPool, DeepSeekV4Pools)[:1]


def _cause(case: Case) -> str:
    """The rule that says what keeps the pool small and what to change; "" where none does."""
    cause = cause_of_room(case) or ("max-total-tokens-cap" if cap(case) is not None else "")
    if cause:
        return cause
    if is_short(case) and case.tokens is not None and case.context_length is not None:
        return "pool-below-one-request"
    return ""


def _offers(case: Case) -> tuple[Remedy, ...]:
    """More of the card where some is left, and smaller tokens."""
    free = case.free_at_end
    has_spare = free is not None and free.available > case.wanted_range[1] and may_raise_fraction(case)
    # Where nothing tells what is free, as few tokens in a round count are likelier asked for than all that fits.
    is_round = free is None and not tells_of_a_cap(case) and case.tokens is not None and case.tokens % 1024 == 0
    asked_for = is_round or looks_capped(case)
    return remedies(
        raise_by_room(case) if has_spare else None,
        Remedy("--max-total-tokens", Direction.RAISE, cost="It costs the memory of the added tokens.")
        if asked_for
        else None,
        None if is_eight_bit(case) or case.tokens is None or asked_for else eight_bit_kv(case),
    )


def _missing(case: Case) -> str:
    """What the log would need for a remedy."""
    missing = lines_missing(case)
    if case.free_at_end is None:
        missing = [*missing, "free memory at the end of the start"]
    return f" What keeps it small is not in the log: it has no {', no '.join(missing[:3])}." if missing else ""
