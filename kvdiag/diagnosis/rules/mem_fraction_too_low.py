"""The fraction in force leaves memory idle.

What it sees
    Much more free memory at the end of the start than is wanted, and a pool that is exactly what
    mem_fraction_static allows.
Why it matters
    The same GPUs could hold more tokens: more requests at once, longer ones, or more kept prefixes.
What to do
    Raise --mem-fraction-static by (free at the end − wanted) / free before loading. First rule out a cap, a low rank
    or a fault in sizing: while one of them binds, a higher fraction changes nothing.
Sources
    SGLang, model_runner.py: profile_max_num_token(); its documentation, "Hyperparameter Tuning".
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules._formulas import gib, worked
from kvdiag.diagnosis.rules._formulas import wanted as origin
from kvdiag.diagnosis.rules._pricing import raise_by_room, remedies
from kvdiag.diagnosis.rules.judgements import excess_after_pool, fraction_limits_pool, is_short, may_raise_fraction
from kvdiag.diagnosis.rules.rule import Case, Confidence, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import Bytes, format_gib, to_gib


@rule(severity=Severity.ADVICE)
def check(case: Case) -> Iterator[Finding]:
    free = case.free_at_end
    if free is None or not fraction_limits_pool(case) or not may_raise_fraction(case):
        return
    wanted = case.wanted_range[1]
    yield Finding(
        summary=f"{format_gib(free.available - wanted)} a GPU could hold KV cache: --mem-fraction-static"
        f" {case.fraction:g} leaves {format_gib(free.available)} free, and {format_gib(wanted)} are wanted",
        why="No cap, no low rank and no fault in sizing explains what is left: only the fraction keeps the pool small.",
        formula=worked("fraction + (free at the end − wanted) / opening", _figures(case, free.available, wanted)),
        evidence=cite(free, case.opening, case.after_pool),
        remedies=remedies(raise_by_room(case)),
        severity=Severity.WARNING if is_short(case) else Severity.ADVICE,
        confidence=Confidence.CERTAIN if excess_after_pool(case) is not None else Confidence.LIKELY,
        stake=to_gib(free.available - wanted) or 0.0,
    )


def _figures(case: Case, free: Bytes, wanted: Bytes) -> str:
    if not case.opening_size or case.fraction is None:
        return ""
    to = case.fraction + (free - wanted) / case.opening_size
    return f"{case.fraction:g} + ({gib(free)} − {gib(wanted)}) / {gib(case.opening_size)} = {to:.3f}; {origin(case)}"
