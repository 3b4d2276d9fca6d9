"""This rank only lost its partner.

What it sees
    "Connection closed by peer", a store or a gloo error; or a wait for other ranks beside another rank's own failure.
Why it matters
    It is the echo of a failure elsewhere: nothing about this rank explains it.
What to do
    Read the rank that stopped first.
Sources
    Gloo, torch.distributed, NCCL: what a rank sees when another one ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.libraries import PeerLost
from kvdiag.diagnosis.rules.judgements import failed_first, ranks_of
from kvdiag.diagnosis.rules.rule import Case, Finding, Severity, cite, rule


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    lost = case.launch.each(PeerLost)
    if not lost or case.is_ready:
        return
    first = failed_first(case, lost[0])
    where = "what failed first is not in this log" if first is None else f"line {first.line.number} came first"
    yield Finding(
        summary=f"{lost[0].rank or 'A rank'} only lost its partner; {where}",
        why="Nothing about this rank explains the failure, and no memory flag of its touches it.",
        ranks=ranks_of(lost[:64]),
        evidence=cite(first, *lost[:2]),
        severity=Severity.INFO if first is not None else Severity.CRITICAL,
    )
