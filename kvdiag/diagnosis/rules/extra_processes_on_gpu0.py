"""Several processes of the server hold a context on GPU 0.

What it sees
    An overflow's message that lists several processes on one GPU, each with about a context's memory.
Why it matters
    They are the server's own: other ranks, or helpers that prepare images. Each context costs about 2 GiB of the card
    that has the fullest pool.
What to do
    Keep contexts off GPU 0, and leave room there with a lower fraction.
Sources
    PyTorch, CUDACachingAllocator: the list of processes in its message.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import knob, lower_fraction, remedies
from kvdiag.diagnosis.rules.rule import Case, Direction, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import Bytes, format_gib, to_gib


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    for oom in judgements.overflows(case):
        small = judgements.small_processes(case, oom)
        if len(small) < 2 or judgements.is_trainers(case, oom):
            continue
        held = Bytes(sum(small))
        yield Finding(
            summary=f"{len(small)} more processes hold {format_gib(held)} of GPU"
            f" {oom.gpu if oom.gpu is not None else 0}",
            why="They are contexts of the server's own processes, not a foreign job.",
            ranks=(oom.rank,),
            evidence=cite(oom, figure="held_gib", value=to_gib(held, 4)),
            remedies=remedies(
                lower_fraction(case, judgements.shortage(case, oom)),
                knob(
                    case,
                    "--disable-fast-image-processor",
                    Direction.SET,
                    cost="It costs speed: images are prepared on the host.",
                )
                if judgements.sees_images(case)
                else None,
            ),
            stake=to_gib(held) or 0.0,
        )
        return
