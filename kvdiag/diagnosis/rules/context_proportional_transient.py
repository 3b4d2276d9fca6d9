"""A temporary grows with the context, and no budget holds room for it.

What it sees
    An overflow in the sparse attention's index scores: rows × compressed context × 4 bytes.
Why it matters
    It fails at the same length each time. A lower fraction only moves the wall.
What to do
    Smaller prefill chunks, or a build that splits the scores.
Sources
    SGLang, pull request 39095; layers/attention: indexers of sparse attention.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import smaller_chunk
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import format_gib, to_gib


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    sign = judgements.memory_ran_out(case)
    if sign is None or judgements.site(case, sign) != "indexer":
        return
    if judgements.capture_overflow(case) is not None:
        return
    tried = getattr(sign, "tried", None)
    yield Finding(
        summary="The index scores of sparse attention do not fit"
        + ("" if tried is None else f": {format_gib(tried)} were asked for"),
        why="They take rows × compressed context × 4 bytes. A lower fraction only moves the length at which it fails.",
        ranks=judgements.ranks_of(judgements.overflows(case)[:64]),
        evidence=cite(sign, figure="tried_gib", value=to_gib(tried, 4)),
        remedies=(
            smaller_chunk(case, sign),
            Remedy("upgrade", Direction.SET, to="a build that splits the scores", cost="It costs an upgrade."),
        ),
        confidence=Confidence.LIKELY,
        stake=to_gib(tried) or 0.0,
    )
