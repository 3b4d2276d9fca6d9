"""The capacity of a card cannot be read, as on a slice of one.

What it sees
    "[Insufficient Permissions]" or "[N/A]" in place of a size, or "No GPU memory values found".
Why it matters
    Automatic values are computed from the card's size. Without it, or with the whole card's, they are wrong.
What to do
    Upgrade, and set --mem-fraction-static by hand. The whole card's size is not the slice's.
Sources
    SGLang, pull request 8167; utils: get_nvgpu_memory_capacity().
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.distributed import CapacityUnreadable
from kvdiag.diagnosis.rules._pricing import FRACTION, FREE_AT_END, starting_value
from kvdiag.diagnosis.rules.rule import Case, Direction, Finding, Remedy, Severity, cite, rule


@rule(severity=Severity.WARNING)
def check(case: Case) -> Iterator[Finding]:
    found = case.launch.each(CapacityUnreadable)
    if not found:
        return
    fraction = case.fraction
    yield Finding(
        summary="The card's capacity cannot be read, as on a slice of a card: automatic values are not for this device",
        why="The device is not short of memory; its size is refused to the query.",
        evidence=cite(*found[:2]),
        remedies=(
            Remedy(
                FRACTION,
                Direction.SET,
                before=None if fraction is None else f"{fraction:g}",
                to="0.85",
                cost="It costs a value to look after; go down by 0.02 if graphs or prefill overflow.",
                note=starting_value("the size of the slice is not in the log", FREE_AT_END),
            ),
            Remedy("upgrade", Direction.SET, to="0.4.10 or later", cost="It costs an upgrade."),
        ),
    )
