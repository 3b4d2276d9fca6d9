"""Memory is left idle after the start, beyond what activations need.

What it sees
    More than 2.4 times the wanted free memory at the end: over 12 GiB on cards of 60 GiB and more, in proportion
    below.
Why it matters
    It is a symptom. A cap, a low rank, a fault in sizing or a low fraction keeps the pool smaller than the cards allow.
What to do
    Look at the cause that is named with it. Idle memory is also the slack for prefill: leave what is wanted.
Sources
    SGLang, model_runner.py: profile_max_num_token().
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules._formulas import gib, wanted, worked
from kvdiag.diagnosis.rules._pricing import cell, raise_by_room, remedies
from kvdiag.diagnosis.rules.judgements import (
    cause_of_room,
    fraction_limits_pool,
    has_room,
    is_short,
    looks_capped,
    may_raise_fraction,
    most_in_use,
    was_killed,
)
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import format_gib, format_prediction, to_gib

_UNCAPPED = (Remedy("--max-total-tokens", Direction.RAISE, cost="It costs the memory of the added tokens."),)


@rule(severity=Severity.ADVICE)
def check(case: Case) -> Iterator[Finding]:
    free = case.free_at_end
    if free is None or not has_room(case) or was_killed(case):
        return
    cause = cause_of_room(case) or ""
    if not cause and most_in_use(case) is not None:
        cause = "pool-larger-than-workload"
    elif not cause and fraction_limits_pool(case):
        cause = "mem-fraction-too-low"
    spare = free.available - case.wanted_range[1]
    size = cell(case)
    # Beside a cause its own finding says how many tokens are to be had.
    room = spare * size.share / size.target if size and not size.guessed and not cause else None
    worth = f", room for about {format_prediction(room)} more KV tokens" if room is not None else ""
    beside = cause == "mem-fraction-too-low"  # its finding has the same figures
    capped = not cause and looks_capped(case)
    seems = "; --max-total-tokens may set the pool" if capped else ""
    summary = (
        f"{format_gib(free.available)} stay free on each GPU, {format_gib(spare)} more than is wanted{worth}{seems}"
    )
    why = ""
    offers: tuple[Remedy, ...] = ()
    if capped:
        why = "The log has no arguments, and the count of tokens is one that may have been asked for."
        offers = _UNCAPPED
    elif not cause:
        why = "What is wanted stays as slack for prefill, graphs and the allocator."
        offers = remedies(raise_by_room(case)) if may_raise_fraction(case) else ()
    yield Finding(
        summary="The memory left free is what the low fraction leaves" if beside else summary,
        why=why,
        formula=""
        if beside
        else worked(
            "free at the end − wanted",
            f"{gib(free.available)} − {gib(case.wanted_range[1])} = {gib(spare)}; {wanted(case)}",
        ),
        evidence=cite(free) if beside else cite(free, case.opening),
        remedies=offers,
        severity=Severity.INFO if cause else Severity.WARNING if is_short(case) else Severity.ADVICE,
        part_of=cause,
        confidence=Confidence.LIKELY if capped else Confidence.CERTAIN,
        stake=to_gib(spare) or 0.0,
    )
