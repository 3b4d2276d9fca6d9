"""No value of the fraction works: a little lower there is no pool, a little higher something overflows.

What it sees
    Two starts of the upload, a few hundredths of --mem-fraction-static apart: one refused for want of a pool, the
    other ended by an overflow.
Why it matters
    The window between the two is empty. Advice in one direction leads straight into the other error.
What to do
    Make something smaller: smaller graphs, no draft model, a smaller weight format, or more GPUs.
Sources
    SGLang, model_runner.py: init_memory_pool(); its documentation on out-of-memory errors.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import knob, more_ranks, remedies, smaller_graphs, smaller_weights
from kvdiag.diagnosis.rules.rule import Case, Direction, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import to_gib


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    pair = judgements.no_feasible_fraction(case)
    if pair is None:
        return
    refused, overflowed = pair
    low, high = judgements.stated_fraction(refused), judgements.stated_fraction(overflowed)
    below, above = (
        ("a low one" if low is None else f"{low:g}"),
        ("a higher one" if high in (None, low) else f"{high:g}"),
    )
    yield Finding(
        summary=f"No fraction fits: {below} leaves no KV pool, {above} overflows",
        why="Between the two refusals nothing is left to choose: something else has to become smaller.",
        evidence=cite(*judgements.refusals(refused)[:1], judgements.memory_ran_out(overflowed)),
        remedies=remedies(
            smaller_graphs(case),
            knob(case, "--speculative-algorithm", Direction.REMOVE, cost="It costs the speed that the draft brings.")
            if judgements.has_draft(case)
            else None,
            more_ranks(case),
            smaller_weights(case),
        ),
        stake=to_gib(case.card) or 1.0,
    )
