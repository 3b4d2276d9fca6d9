"""One batch's temporaries exceed what was left.

What it sees
    An overflow after the start with more asked for than was free, and little reserved by the allocator, or
    expandable_segments set already.
Why it matters
    The server dies under load. What the pool leaves has to hold the activations of the largest batch.
What to do
    Smaller prefill chunks, a lower fraction; fewer requests where a decode batch overflowed. expandable_segments does
    not help while little is reserved, nor where it is set already.
Sources
    PyTorch, CUDACachingAllocator: the sentences of its message.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._formulas import gib, worked
from kvdiag.diagnosis.rules._pricing import fewer_requests, lower_fraction, remedies, smaller_chunk
from kvdiag.diagnosis.rules.rule import Case, Confidence, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import Bytes, format_gib, to_gib


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    oom = judgements.transient(case)
    if oom is None:
        return
    cause = judgements.cause_of_transient(case, oom)
    tried, free = oom.tried or Bytes(0), oom.free
    beside = "" if free is None else f"; {format_gib(free)} were free"
    unused = judgements.held_unused(oom)
    lay = "nothing" if unused is not None and to_gib(unused, 2) == 0 else f"only {format_gib(unused or 0)}"
    held = "" if unused is None else f", and {lay} lay reserved"
    why = "What the pool leaves has to hold one batch's temporaries; freeing fragments would not have been enough."
    if not judgements.is_small(unused, tried):
        held = f", and {format_gib(unused or 0)} lay reserved"
        why = "What the pool leaves has to hold one batch's temporaries; expandable_segments is set already."
    decode = judgements.last_batch_kind(case, oom) == "decode"
    sure = judgements.stage(case, oom) is not None
    offers = (
        remedies(
            fewer_requests(case) if decode else None,
            None if decode else smaller_chunk(case, oom),
            lower_fraction(case, judgements.room_for(case, tried, free)),
        )
        if not cause
        else ()
    )
    yield Finding(
        summary=f"A batch asked for {format_gib(tried)} at once{beside}{held}",
        why=why,
        formula=worked("asked for − free", "" if free is None else f"{gib(tried)} − {gib(free)} = {gib(tried - free)}"),
        ranks=judgements.ranks_of(judgements.overflows(case)[:64]),
        evidence=cite(oom, figure="tried_gib", value=to_gib(oom.tried, 4)),
        remedies=offers,
        severity=Severity.INFO if cause else Severity.CRITICAL,
        part_of=cause,
        confidence=Confidence.CERTAIN if sure else Confidence.POSSIBLE,
        stake=to_gib(tried) or 0.0,
    )
