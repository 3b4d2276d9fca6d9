"""The weights fill most of the card, so small changes move the pool a lot.

What it sees
    Weights above 85 % of what was free before loading.
Why it matters
    The pool is the small difference of large figures: each GiB saved elsewhere is a large part of it. The context
    length does not set the pool.
What to do
    More pipeline stages, more tensor ranks or a smaller weight format.
Sources
    SGLang, model_runner.py: profile_max_num_token().
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.weights import WeightsLoaded
from kvdiag.diagnosis.rules._formulas import gib, worked
from kvdiag.diagnosis.rules._pricing import cell, knob, more_ranks
from kvdiag.diagnosis.rules.judgements import stages_in_pipeline
from kvdiag.diagnosis.rules.rule import Case, Direction, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import GIB, format_gib, to_gib


@rule(severity=Severity.INFO, needs=(WeightsLoaded,))
def check(case: Case) -> Iterator[Finding]:
    opening, after = case.opening_size, case.after_weights
    if not opening or after is None:
        return
    used = opening - after.available
    if used <= case.thresholds.weights_near_limit * opening:
        return
    size = cell(case)
    worth = f"; 1 GiB saved is worth about {round(GIB / size.target):,} tokens" if size is not None else ""
    yield Finding(
        summary=f"The weights take {format_gib(used)} of {format_gib(opening)}, {100 * used / opening:.0f} %{worth}",
        why="The pool is the small rest of large figures, so that small changes move it a lot.",
        formula=worked(
            "(opening − after_weights) / opening",
            f"({gib(opening)} − {gib(after.available)}) / {gib(opening)} = {used / opening:.3f}",
        ),
        evidence=cite(case.opening, after),
        remedies=(
            knob(
                case,
                "--pp-size",
                Direction.RAISE,
                to=str(2 * stages_in_pipeline(case)) if case.launch.value("pp_size") else None,
                cost="It costs as many more GPUs and some latency between the stages.",
            ),
            more_ranks(case),
        ),
        stake=to_gib(used) or 0.0,
    )
