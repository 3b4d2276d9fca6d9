"""The draft's weights come on top of the budget.

What it sees
    An overflow while the draft model loads, after the target's pool has taken its share (releases up to 0.5.13).
Why it matters
    The target's pool was sized as if there were no draft: the draft's weights must fit into the reserve.
What to do
    Lower the fraction by the draft's size, or cap the tokens. Newer releases count the draft: then use a normal
    fraction again, because the low one would waste memory.
Sources
    SGLang, speculative/eagle_worker.py; counted since 0.5.14.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.outcome import Stage
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import knob, lower_fraction, remedies
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import Bytes, to_gib


@rule(severity=Severity.CRITICAL, releases="..0.5.13", unless=(judgements.without_draft,))
def check(case: Case) -> Iterator[Finding]:
    sign = judgements.memory_ran_out(case)
    if sign is None or not judgements.is_draft_start(case, sign) or judgements.is_draft_pool(case, sign):
        return
    if judgements.stage(case, sign) not in (Stage.WEIGHTS, Stage.KV_CACHE, Stage.CUDA_GRAPH, None):
        return
    tried, free = getattr(sign, "tried", None), getattr(sign, "free", None)
    need = Bytes(tried - free) if tried is not None and free is not None else None
    yield Finding(
        summary="The draft model overflows while it loads: the target's pool has already taken the card",
        why="Up to 0.5.13 the draft's weights come out of what the fraction leaves; no budget holds room for them.",
        ranks=judgements.ranks_of(judgements.overflows(case)[:64]),
        evidence=cite(sign, case.after_pool, figure="tried_gib", value=to_gib(tried, 4)),
        remedies=remedies(
            lower_fraction(case, need, "It takes the draft's size, at least what was missing here."),
            knob(
                case,
                "--max-total-tokens",
                Direction.SET,
                cost="It costs KV tokens, as many as the draft's weights need.",
            ),
        ),
        confidence=Confidence.LIKELY,
        stake=to_gib(tried) or 0.0,
    )
