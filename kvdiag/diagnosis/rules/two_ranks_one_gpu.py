"""Two ranks of the server share one card.

What it sees
    Overflows of two ranks that name the same device, with a second process of about the same size on it.
Why it matters
    The weights lie twice on that card while another one is empty.
What to do
    Correct the flags that place the ranks, or the visible devices.
Sources
    SGLang, engine.py: base_gpu_id and gpu_id_step.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import knob
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    pair = judgements.sharing_ranks(case)
    if pair is None:
        return
    first, second = pair
    yield Finding(
        summary=f"{first.rank or 'One rank'} and {second.rank or 'another'} both use GPU {first.gpu}",
        why="The weights lie twice on that card while another one is empty.",
        ranks=tuple(r for r in (first.rank, second.rank) if r),
        evidence=cite(first, second, figure="gpu", value=first.gpu),
        remedies=(
            knob(case, "--base-gpu-id", Direction.SET, cost="It costs nothing; each rank gets a card of its own."),
            Remedy("CUDA_VISIBLE_DEVICES", Direction.SET, cost="It costs nothing; each rank gets a card of its own."),
        ),
        confidence=Confidence.LIKELY,
    )
