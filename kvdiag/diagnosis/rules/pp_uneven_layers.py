"""One pipeline stage has more layers, and its pool sets everybody's.

What it sees
    Weights that differ between pipeline stages by more than an eighth.
Why it matters
    Every stage takes the token count of the smallest pool: the cards of the other stages stay half empty.
What to do
    Set SGLANG_PP_LAYER_PARTITION so that the stages come out even, or use a newer build. A higher fraction does not
    even them out.
Sources
    SGLang, pull request 13282; layers/utils: make_layers().
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.weights import WeightsLoaded
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules.judgements import stage_weights, uneven_stages
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import format_gib, to_gib


@rule(severity=Severity.ADVICE, needs=(WeightsLoaded,), unless=(judgements.without_pipeline,))
def check(case: Case) -> Iterator[Finding]:
    if not uneven_stages(case):
        return
    sizes = stage_weights(case)
    most, least = max(sizes, key=lambda x: sizes[x]), min(sizes, key=lambda x: sizes[x])
    stake = sizes[most] - sizes[least]
    yield Finding(
        summary=f"Pipeline stage {most} holds {format_gib(sizes[most])} of weights, stage {least}"
        f" {format_gib(sizes[least])}: the fuller one sets the pool of all",
        why="Every stage takes the smallest stage's tokens.",
        ranks=tuple(x.rank for x in case.ledgers if f"PP{most}" in x.rank),
        evidence=cite(
            *[e for e in case.launch.each(WeightsLoaded) if f"PP{most}" in e.rank or f"PP{least}" in e.rank][:4]
        ),
        remedies=(
            Remedy(
                "SGLANG_PP_LAYER_PARTITION",
                Direction.SET,
                cost="It costs a list to look after when the model or the number of stages changes.",
            ),
            Remedy("upgrade", Direction.SET, to="a build after pull request 13282", cost="It costs an upgrade."),
        ),
        confidence=Confidence.LIKELY,
        stake=to_gib(stake) or 0.0,
    )
