"""The weights take more than the static budget, so no KV pool is left; the card itself is not full.

What it sees
    SGLang refuses to start for want of a pool, or what is free after loading is below the reserve,
    opening × (1 − mem_fraction_static).
Why it matters
    The server does not start. Nothing overflowed: the budget is a share of what was free before loading, and the
    weights are larger than that share, alone or with the states of a hybrid model, which come off it as well.
What to do
    Raise --mem-fraction-static above 1 − (free after loading / free before loading); newer releases print that
    minimum. Where the minimum is close to 1, spread the weights over more GPUs or load a smaller format; where the
    fraction is above it already, pin fewer state slots. The usual advice on overflows, to lower the fraction, makes it
    worse.
Sources
    SGLang, model_runner.py: init_memory_pool(); the refusal is printed by every release, its minimum since 0.5.14.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from kvdiag.diagnosis.events.failure import NoRoomForPool, PoolRefused
from kvdiag.diagnosis.rules._formulas import least_fraction
from kvdiag.diagnosis.rules._pricing import knob, more_ranks, raise_above, remedies
from kvdiag.diagnosis.rules.judgements import (
    below_zero,
    low_automatic_fraction,
    minimum_fraction,
    no_feasible_fraction,
    ranks_of,
    refusals,
    reserve,
    stated_fraction,
    vanished_before_pool,
)
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import Bytes, format_gib, to_gib


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    refused: list[NoRoomForPool | PoolRefused] = [*refusals(case), *below_zero(case)]
    kept, after, opening = reserve(case), case.after_weights, case.opening_size
    short = kept is not None and after is not None and after.available < kept and not case.is_ready
    if not refused and not (short and case.tokens is None):
        return
    if low_automatic_fraction(case) is not None or vanished_before_pool(case) is not None:
        return  # the automatic value, or what took memory meanwhile, is the cause
    minimum, fraction = minimum_fraction(case), stated_fraction(case)
    if minimum is not None and fraction is not None and minimum < fraction - 0.002 and not refused:
        return
    facts = []
    if opening is not None and after is not None:
        facts.append(f"the weights take {format_gib(opening - after.available)} of {format_gib(opening)}")
    if fraction is not None:
        facts.append(f"--mem-fraction-static is {fraction:g}")
    passed = minimum is not None and fraction is not None and fraction > minimum + 0.002
    need = ""
    if passed:
        need = f", above the {minimum:.4f} that the weights need"
    elif minimum is not None and minimum < 1:
        need = f"; it must be above {minimum:.4f}"
    hopeless = minimum is not None and minimum > case.thresholds.fraction_hopeless
    if no_feasible_fraction(case) is not None:
        return
    what = "The weights and what is taken beside them leave" if passed else "The weights leave"
    off = "states of a hybrid model or scratch come off it too" if passed else "the weights alone are larger"
    yield Finding(
        summary=f"{what} no room for the KV pool{': ' + ', '.join(facts) if facts else ''}{need}",
        why=f"The budget is a share of what was free before loading; {off}. The GPU is not full.",
        formula=least_fraction(case),
        ranks=ranks_of(refused),
        evidence=cite(*refused[:2], figure="mem_fraction_static", value=fraction) + cite(case.opening, after),
        remedies=remedies(
            None if hopeless or passed else _raised(case, minimum, fraction),
            _fewer_states(case) if passed else None,
            more_ranks(case),
        ),
        confidence=Confidence.CERTAIN if refused else Confidence.LIKELY,
        stake=to_gib(None if kept is None or after is None else kept - after.available) or 0.0,
    )


def _raised(case: Case, minimum: float | None, fraction: float | None) -> Remedy | None:
    """A higher fraction, with the size of GPU that it takes to make up for a printed lack; None on a smaller one."""
    offer, lack = raise_above(case, minimum), max((-(e.available or 0) for e in below_zero(case)), default=0)
    if offer is None or not lack or minimum is not None:
        return offer
    missing = format_gib(Bytes(lack))
    if fraction is None:
        return dataclasses.replace(offer, note=f"By more than {missing} divided by what was free before loading.")
    most = case.thresholds.fraction_hopeless
    needed = Bytes(round(lack / (most - fraction))) if fraction < most else None
    if needed is None or (case.card is not None and case.card < needed):
        return None
    where = f"where {format_gib(needed)} were free before loading"
    note = f"{missing} are missing: a raise to {most:g} gives them only {where}."
    return dataclasses.replace(offer, note=note)


def _fewer_states(case: Case) -> Remedy:
    return knob(
        case,
        "--max-mamba-cache-size",
        Direction.LOWER,
        cost="It costs state slots: fewer requests run.",
        note="Of a hybrid model alone: only its states come off the budget before the KV pool does.",
    )
