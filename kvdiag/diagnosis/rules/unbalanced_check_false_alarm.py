"""The balance check trips on the server's own memory.

What it sees
    The message of the balance check after the target's pool or graphs are done: a draft load, or a trainer's release.
Why it matters
    Nothing foreign holds memory: the ranks simply are not equally far.
What to do
    Switch the check off, or upgrade. There is no process to kill.
Sources
    SGLang, model_runner.py: the check is left out for draft workers in later releases.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.distributed import UnbalancedMemory
from kvdiag.diagnosis.rules.judgements import balance_check_is_false, inbalance_switch, ranks_of
from kvdiag.diagnosis.rules.rule import Case, Direction, Finding, Remedy, Severity, cite, rule


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    found = case.launch.each(UnbalancedMemory)
    if not found or not balance_check_is_false(case):
        return
    flag, value = inbalance_switch(case)
    yield Finding(
        summary="The balance check trips on the server's own memory: the ranks are not equally far,"
        " nothing foreign is there",
        ranks=ranks_of(found[:64]),
        evidence=cite(case.after_pool, *found[:2]),
        remedies=(
            Remedy(flag, Direction.SET, to=value, cost="It costs the check also where cards really differ."),
            Remedy("upgrade", Direction.SET, to="a build that leaves draft workers out", cost="It costs an upgrade."),
        ),
        severity=Severity.WARNING if case.is_ready else Severity.CRITICAL,
    )
