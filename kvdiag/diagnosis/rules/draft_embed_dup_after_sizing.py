"""The draft head builds its own embedding and output head, freed only after the pool is sized.

What it sees
    Free memory that rises from the target's "Memory pool end" to the draft's, although a pool was built in between;
    in a log without the draft's, to the begin of the first capture.
Why it matters
    The budget was measured with two copies that are thrown away a moment later: what they held stays idle.
What to do
    Use a build that shares the embedding before sizing; until then pin --max-total-tokens, or the state slots of a
    hybrid model. It is no leak, and the draft need not be switched off.
Sources
    SGLang, issue 36452 and pull request 32468; releases from 0.5.14 on.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.kv_pool import MambaPool, PoolEnd
from kvdiag.diagnosis.ledger.model import Moment, Reading
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._formulas import gib, worked
from kvdiag.diagnosis.rules._pricing import cell, knob, remedies
from kvdiag.diagnosis.rules.judgements import draft_memory_returned, readings_around_draft_pool
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Effect, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import Bytes, format_gib, to_gib


@rule(severity=Severity.ADVICE, needs=(PoolEnd,), releases="0.5.14..", unless=(judgements.without_draft,))
def check(case: Case) -> Iterator[Finding]:
    loss = draft_memory_returned(case)
    if loss is None:
        return
    size, tokens = cell(case), case.tokens
    after = None if size is None or tokens is None else round(tokens + loss / (size.target + size.draft))
    pin = Remedy(
        "--max-total-tokens",
        Direction.SET,
        to=None if after is None else str(after),
        effect={} if after is None else {"kv_tokens": Effect(tokens, after)},
        note="SGLang takes no more than it measured: the count tells only beside a fraction that allows it.",
        cost="It costs a value to look after: it must be taken out again with a build that counts right.",
    )
    yield Finding(
        summary=f"{format_gib(loss)} came back after the pool was sized: the draft's own embedding and output head",
        why="They were counted when the budget was measured, and shared with the target's a moment later.",
        formula=worked(f"{_after(case)} − free after the target's pool", _figures(case, loss)),
        evidence=cite(*case.launch.each(PoolEnd)[:4], *_captures(case)),
        remedies=remedies(
            Remedy(
                "upgrade",
                Direction.SET,
                to="a build that shares the embedding before sizing",
                cost="It costs an upgrade.",
            ),
            pin,
            knob(case, "--max-mamba-cache-size", Direction.SET, cost="It costs a value to look after.")
            if case.launch.has(MambaPool)
            else None,
        ),
        confidence=Confidence.LIKELY,
        stake=to_gib(loss) or 0.0,
    )


def _captures(case: Case) -> list[Reading]:
    """The readings at the begin of a capture that stand for the draft's pool."""
    return [after for _, after in readings_around_draft_pool(case)[:1] if after.moment is Moment.CUDA_GRAPH_BEGIN]


def _after(case: Case) -> str:
    return "free before the capture" if _captures(case) else "free after the draft's pool"


def _figures(case: Case, loss: Bytes) -> str:
    """The two readings of the rank on which most came back."""
    for target, draft in readings_around_draft_pool(case):
        if draft.available - target.available == loss:
            return f"{gib(draft.available)} − {gib(target.available)} = {gib(loss)}"
    return ""
