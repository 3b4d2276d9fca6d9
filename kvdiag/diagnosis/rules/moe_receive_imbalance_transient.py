"""One rank receives far more expert tokens than the others.

What it sees
    An overflow in the expert layers' grouped multiplication or dispatch while serving.
Why it matters
    Experts are not chosen evenly: the rank with the popular ones needs the memory of many batches at once.
What to do
    Balance the experts, or use smaller prefill chunks.
Sources
    SGLang, layers/moe/ep_moe; its documentation on expert-parallel load balance.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import FASTER_STEPS, knob
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import format_gib, to_gib


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    sign = judgements.memory_ran_out(case)
    if sign is None or judgements.site(case, sign) != "experts" or judgements.is_trainers(case, sign):
        return
    if judgements.stage(case, sign) in ("weights", "kv_cache", "cuda_graph"):
        return
    tried = getattr(sign, "tried", None)
    yield Finding(
        summary="A rank's share of the expert tokens does not fit"
        + ("" if tried is None else f": {format_gib(tried)} were asked for"),
        why="Experts are not chosen evenly: the rank with the popular ones receives most tokens.",
        ranks=judgements.ranks_of(judgements.overflows(case)[:64]),
        evidence=cite(sign, figure="tried_gib", value=to_gib(tried, 4)),
        remedies=(
            knob(case, "--chunked-prefill-size", Direction.LOWER, cost=f"It costs {FASTER_STEPS}."),
            knob(case, "--enable-eplb", Direction.SET, cost="It costs time now and then, when experts are moved."),
        ),
        confidence=Confidence.LIKELY,
        stake=to_gib(tried) or 0.0,
    )
