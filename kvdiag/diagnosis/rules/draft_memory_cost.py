"""The draft model takes memory that would hold tokens.

What it sees
    Two starts of the upload with the same model, one with speculation and one without, and their token counts.
Why it matters
    Draft weights, its pool and its graphs are paid in KV tokens. It is a trade, not a fault.
What to do
    Choose speed or capacity knowingly.
Sources
    SGLang, model_runner.py: profile_max_num_token(), since 0.5.14 with the draft counted.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import knob
from kvdiag.diagnosis.rules.judgements import has_draft
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import format_tokens


@rule(
    severity=Severity.INFO,
    unless=(
        judgements.without_draft,
        judgements.without_earlier_start,
    ),
)
def check(case: Case) -> Iterator[Finding]:
    for before in reversed(case.earlier):
        if before.launch.value("model_path") != case.launch.value("model_path"):
            continue
        pair = (case, before) if has_draft(case) else (before, case)
        drafted, plain = pair
        if not has_draft(drafted) or has_draft(plain):
            continue
        few, many = drafted.tokens, plain.tokens
        if few is None or many is None or few >= many:
            return
        yield Finding(
            summary=f"The draft model costs {format_tokens(many - few)} KV tokens:"
            f" {format_tokens(few)} with it, {format_tokens(many)} without",
            evidence=cite(drafted.limits, plain.limits, figure="kv_tokens", value=few),
            remedies=(
                knob(
                    drafted,
                    "--speculative-algorithm",
                    Direction.REMOVE,
                    cost="It costs the speed that the draft brings.",
                ),
            ),
            confidence=Confidence.LIKELY,
        )
        return
