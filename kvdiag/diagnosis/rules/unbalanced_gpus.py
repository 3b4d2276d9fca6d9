"""The cards start with different free memory.

What it sees
    SGLang's check at the start: a rank has under 0.9 of another's free memory.
Why it matters
    Every rank takes the lowest one's tokens, so SGLang refuses. It is not a question of the fraction.
What to do
    Free the low card, take equal cards, or switch the check off where the cards really differ.
Sources
    SGLang, model_runner.py: init_torch_distributed().
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.distributed import UnbalancedMemory
from kvdiag.diagnosis.rules.judgements import balance_check_is_false, inbalance_switch, ranks_of
from kvdiag.diagnosis.rules.rule import Case, Direction, Finding, Remedy, Severity, cite, rule


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    found = case.launch.each(UnbalancedMemory)
    if not found or balance_check_is_false(case):
        return
    first = found[0]
    figures = ""
    if first.smallest is not None and first.local is not None:
        figures = f": {first.smallest:,.2f} GiB on the lowest card, {first.local:,.2f} GiB on another"
    yield Finding(
        summary=f"The GPUs start with different free memory{figures}",
        why="The rank that says it is the free one; the lowest card is the one to look at. A higher"
        " fraction changes nothing.",
        ranks=ranks_of(found[:64]),
        evidence=cite(*found[:2], figure="smallest_gib", value=first.smallest),
        remedies=(
            Remedy("CUDA_VISIBLE_DEVICES", Direction.SET, cost="It costs the cards that are left out."),
            Remedy(
                inbalance_switch(case)[0],
                Direction.SET,
                to=inbalance_switch(case)[1],
                cost="It costs memory: every rank takes the lowest one's tokens.",
            ),
        ),
        severity=Severity.WARNING if case.is_ready else Severity.CRITICAL,
    )
