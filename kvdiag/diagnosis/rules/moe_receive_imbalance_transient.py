"""One rank receives far more expert tokens than the others.

What it sees
    An overflow in the expert layers' grouped multiplication or dispatch while serving; or printed counts of received
    tokens by the ten thousand that fall on few of a rank's experts.
Why it matters
    Experts are not chosen evenly: the rank with the popular ones needs the memory of many batches at once.
What to do
    Balance the experts, or use smaller prefill chunks.
Sources
    SGLang, layers/moe/ep_moe; its documentation on expert-parallel load balance.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.libraries import ExpertTokensReceived
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import knob, smaller_chunk
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import format_gib, to_gib


def _crowded(case: Case) -> ExpertTokensReceived | None:
    """A printed count of received tokens that is large and falls on few experts."""
    for event in case.launch.each(ExpertTokensReceived):
        tokens = event.tokens or ()
        if (
            len(tokens) > 1
            and sum(tokens) >= case.thresholds.crowded_tokens
            and max(tokens) * len(tokens) >= case.thresholds.crowded_share * sum(tokens)
        ):
            return event
    return None


def _remedies(case: Case) -> tuple[Remedy, ...]:
    return (
        smaller_chunk(case),
        knob(case, "--enable-eplb", Direction.SET, cost="It costs time now and then, when experts are moved."),
    )


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    counted = _crowded(case)
    sign = judgements.memory_ran_out(case)
    if sign is None and counted is not None and counted.tokens and not case.is_ready:
        yield Finding(
            summary=f"This rank received {sum(counted.tokens):,} expert tokens in one pass, {max(counted.tokens):,} of"
            " them for one expert",
            why="Experts are not chosen evenly: the rank with the popular ones receives most tokens, and its buffers"
            " grow with them.",
            ranks=(counted.rank,) if counted.rank else (),
            evidence=cite(counted, figure="tokens", value=sum(counted.tokens)),
            remedies=_remedies(case),
            severity=Severity.WARNING,
            confidence=Confidence.LIKELY,
        )
        return
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
        remedies=_remedies(case),
        confidence=Confidence.LIKELY,
        stake=to_gib(tried) or 0.0,
    )
