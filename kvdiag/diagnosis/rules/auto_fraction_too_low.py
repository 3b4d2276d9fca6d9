"""The automatic mem_fraction_static came out unusually low.

What it sees
    A fraction in force of about 0.5 or less that the launch command does not set.
Why it matters
    SGLang computes the fraction from the card's size and its reserves. Where the size is unknown or wrong, or the
    reserves are larger than the card, the value is far too small and the pool with it.
What to do
    Set --mem-fraction-static. There is no fixed default to go back to: the value is always computed.
Sources
    SGLang, server_args.py: _handle_gpu_memory_settings().
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules._pricing import FRACTION, FREE_AT_END, starting_value
from kvdiag.diagnosis.rules.judgements import low_automatic_fraction, refusals
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule

START = (
    0.85  # where to begin on a card of unknown size: under it, every automatic value of a known card lies or nearly so
)


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    fraction = low_automatic_fraction(case)
    if fraction is None:
        return
    refused = refusals(case)
    keeps = case.sizing.fractions.keeps_wanted if case.sizing is not None and case.sizing.fractions else None
    to = START if keeps is None or keeps <= fraction else min(START, keeps)
    yield Finding(
        summary=f"mem_fraction_static is {fraction:g}, and the command does not set it: the automatic value is too low",
        why="It is computed from the card's size and the reserves; an unknown device or a wrong size makes"
        " it this small.",
        evidence=cite(
            *refused[:1],
            *case.launch.server_args[:1],
            *case.launch.commands[:1],
            figure="mem_fraction_static",
            value=fraction,
        ),
        remedies=(
            Remedy(
                FRACTION,
                Direction.SET,
                before=f"{fraction:g}",
                to=f"{to:g}",
                cost="It costs nothing that was in use; go down by 0.02 if graphs or prefill then overflow.",
                note=""
                if keeps is not None
                else starting_value("the log does not reach the end of a start", FREE_AT_END),
            ),
        ),
        severity=Severity.CRITICAL if refused or not case.is_ready else Severity.WARNING,
        confidence=Confidence.CERTAIN if case.launch.commands else Confidence.LIKELY,
    )
