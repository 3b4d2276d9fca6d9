"""Too little is left free after capture.

What it sees
    Free memory at the end of the start of less than half of what is wanted: under 2.5 GiB on cards of 60 GiB and
    more, in proportion below.
Why it matters
    Prefill activations, logits and images have to fit in it: the first large batch may overflow.
What to do
    Lower the fraction by (wanted − free at the end) / free before loading. Do not raise it to use the rest. Where the
    table of requests takes a good part of what is missing and nobody set its length, fewer requests at once.
Sources
    SGLang documentation, "Hyperparameter Tuning": what to leave for activations.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules._formulas import gib, worked
from kvdiag.diagnosis.rules._formulas import wanted as free_wanted
from kvdiag.diagnosis.rules._pricing import fewer_rows, knob, lower_fraction, remedies
from kvdiag.diagnosis.rules.judgements import cap, capture_overflow, is_thin
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import Bytes, format_gib, to_gib


@rule(severity=Severity.WARNING)
def check(case: Case) -> Iterator[Finding]:
    overflow = capture_overflow(case)
    if overflow is not None and overflow.left is not None:
        if overflow.left < case.thresholds.thin_share * case.wanted_range[0]:
            yield Finding(
                summary=f"Only {format_gib(overflow.left)} were free when the capture failed",
                ranks=(overflow.sign.rank,),
                evidence=cite(overflow.bar, overflow.sign, figure="available_gib", value=to_gib(overflow.left, 4)),
                severity=Severity.INFO,
                part_of="prefill-graph-oom" if overflow.prefill else "decode-graph-oom",
            )
        return
    free = case.free_at_end
    if free is None or not is_thin(case):
        return
    wanted = case.wanted_range[0]
    need = Bytes(wanted - free.available)
    ranks = tuple(
        x.rank
        for x in case.ledgers
        if x.closing is not None and x.closing.available < case.thresholds.thin_share * wanted
    )
    yield Finding(
        summary=f"Only {format_gib(free.available)} are left free after the start; {format_gib(wanted)} are"
        " wanted on this card",
        why="Prefill activations, logits and images have to fit in it.",
        formula=worked("(wanted − free at the end) / opening", _figures(case, free.available, wanted)),
        ranks=ranks,
        evidence=cite(free, case.opening, case.after_pool),
        remedies=remedies(
            lower_fraction(case, need),
            fewer_rows(case, need),
            knob(case, "--max-total-tokens", Direction.LOWER, cost="It costs KV tokens.")
            if cap(case) is not None
            else None,
        ),
        confidence=Confidence.CERTAIN if case.card is not None else Confidence.LIKELY,
        stake=to_gib(need) or 0.0,
    )


def _figures(case: Case, free: Bytes, wanted: Bytes) -> str:
    missing = f"{gib(wanted)} − {gib(free)}"
    if not case.opening_size:
        return f"{missing} = {gib(wanted - free)}; {free_wanted(case)}"
    return f"({missing}) / {gib(case.opening_size)} = {(wanted - free) / case.opening_size:.3f}; {free_wanted(case)}"
