"""A weight update piles memory up on the first rank.

What it sees
    An overflow on the first rank while weights are updated from tensors.
Why it matters
    Buckets of other ranks are gathered there, outside every budget.
What to do
    Smaller buckets in the trainer; leave room with a lower fraction.
Sources
    SGLang, issue 9387; update_weights_from_tensor.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.weights import OnlineUpdateBegin
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import lower_fraction, remedies
from kvdiag.diagnosis.rules.rule import Case, Confidence, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import to_gib


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    sign = judgements.memory_ran_out(case)
    if sign is None or judgements.is_trainers(case, sign):
        return
    begun = judgements.last_before(case, sign.line, OnlineUpdateBegin)
    last = case.launch.series.last
    if begun is None or (last is not None and not judgements.is_before(last.line, begun.line)):
        return
    gpu = getattr(sign, "gpu", None)
    if gpu not in (None, 0) and "TP0" not in sign.rank:
        return
    tried = getattr(sign, "tried", None)
    yield Finding(
        summary="Updating the weights overflows on the first rank",
        evidence=cite(begun, sign, figure="tried_gib", value=to_gib(tried, 4)),
        remedies=remedies(lower_fraction(case, judgements.shortage(case, sign))),
        confidence=Confidence.LIKELY,
    )
