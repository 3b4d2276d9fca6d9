"""An assertion of the allocator stands for an overflow.

What it sees
    The allocator's "num_active_captures_" assertion with next to nothing free, or the NVML assertion with which it
    fails to report an overflow.
Why it matters
    It looks like a bug of the framework. It is a shortage while graphs are captured.
What to do
    Treat it as an overflow: lower the fraction, or capture smaller batches.
Sources
    PyTorch, c10/cuda/CUDACachingAllocator.cpp; issues 112377, 185240 and 197312.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.libraries import AllocatorAssertion
from kvdiag.diagnosis.outcome import Stage
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import knob, lower_fraction, remedies, smaller_chunk, smaller_graphs
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import Bytes, format_gib, to_gib


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    for assertion in case.launch.each(AllocatorAssertion)[:1]:
        free = judgements.free_at(case, assertion.line)
        sure = assertion.what == "NVML_SUCCESS"  # it stands in the code that reports an overflow, and nowhere else
        if not sure and (free is None or free >= case.thresholds.memory_is_short):
            return
        left = "" if free is None else f" with {format_gib(free)} free"
        yield Finding(
            summary=f"An assertion of the allocator{left} stands for an overflow",
            why="The allocator fails while it reports that memory ran out; it is no bug of the framework.",
            ranks=(assertion.rank,),
            evidence=cite(assertion, figure="available_gib", value=to_gib(free, 4)),
            remedies=_offers(case, assertion, free),
            confidence=Confidence.LIKELY,
        )


def _offers(case: Case, assertion: AllocatorAssertion, free: Bytes | None) -> tuple[Remedy, ...]:
    """What helps at the stage where it fell: a capture, where the log does not show another."""
    match judgements.stage(case, assertion):
        case Stage.WEIGHTS:
            more = judgements.twice_the_ranks(case)
            return (knob(case, "--tp-size", Direction.RAISE, to=more, cost="It costs as many more GPUs."),)
        case Stage.SERVING | Stage.WARMUP:
            last = smaller_chunk(case)
        case _:
            last = smaller_graphs(case)
    return remedies(lower_fraction(case, judgements.missing(case, free)), last)
