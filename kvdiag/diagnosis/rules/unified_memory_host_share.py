"""CPU and GPU share one memory.

What it sees
    A device whose memory is the host's: GB10, Thor, Jetson.
Why it matters
    Tables, page cache and other programs of the host lower what counts as free, and an overflow may end in a kill.
What to do
    Do not reserve twice, and read MemAvailable; rules for discrete cards do not apply.
Sources
    SGLang, utils/common.py: available memory of integrated devices is the host's (0.5.4 and later).
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules.judgements import card_line, printed_card, unified_device
from kvdiag.diagnosis.rules.rule import Case, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import Bytes, format_gib


@rule(severity=Severity.INFO)
def check(case: Case) -> Iterator[Finding]:
    found = unified_device(case)
    if found is None:
        return
    card, opening = printed_card(case), case.opening
    told = "what the host uses is missing from the GPU's free memory"
    if card is not None and opening is not None and card > opening.available:
        held = format_gib(Bytes(card - opening.available))
        told = f"{held} of its {format_gib(card)} were in use by the host or others before loading"
    yield Finding(
        summary=f"CPU and GPU share one memory on this device: {told}",
        why="Page cache and tables of the host move the figures from one start to the next.",
        evidence=cite(found, card_line(case) if found.line != card_line(case) else None, opening),
    )
