"""The process holds much memory that the allocator does not know of.

What it sees
    "Including non-PyTorch memory" less what is allocated and reserved: 4 GiB or more.
Why it matters
    A context and communicators alone are 1 to 2 GiB. The rest are buffers of communication libraries, further
    contexts, or a memory saver's pages. expandable_segments cannot free them.
What to do
    Smaller communication buffers, fewer contexts; leave room for them with a lower fraction.
Sources
    PyTorch, CUDACachingAllocator: the sentences of its message.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._formulas import gib, worked
from kvdiag.diagnosis.rules._pricing import lower_fraction, remedies
from kvdiag.diagnosis.rules.rule import Case, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import format_gib, to_gib


@rule(severity=Severity.WARNING)
def check(case: Case) -> Iterator[Finding]:
    for oom in judgements.overflows(case):
        own = judgements.own_memory(oom)
        if own is None or oom.allocated is None or judgements.is_trainers(case, oom):
            continue
        outside = own - oom.allocated - (oom.reserved_unallocated or 0)
        if not case.thresholds.non_torch_large <= outside <= (oom.capacity or own):
            continue
        yield Finding(
            summary=f"The process holds {format_gib(outside)} outside PyTorch's allocator",
            why="A context and communicators alone are 1 to 2 GiB; expandable_segments cannot free the rest.",
            formula=worked(
                "in use − allocated − reserved",
                f"{gib(own)} − {gib(oom.allocated)} − {gib(oom.reserved_unallocated or 0)} = {gib(outside)}",
            ),
            ranks=(oom.rank,),
            evidence=cite(oom, figure="non_torch_gib", value=to_gib(outside, 4)),
            remedies=remedies(lower_fraction(case, judgements.shortage(case, oom))),
            stake=to_gib(outside) or 0.0,
        )
        return
