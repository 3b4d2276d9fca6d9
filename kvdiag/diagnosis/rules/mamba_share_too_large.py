"""State slots take a large share of the budget that few requests need.

What it sees
    A state cache nearly as large as the KV cache, and far more slots than the wanted requests times slots a request; or
    states of draft tokens alone that are larger than the KV cache; or slots idle while requests wait for tokens.
Why it matters
    By default the states get ratio / (1 + ratio) of the budget, 47 % at 0.9, whatever the concurrency.
What to do
    Lower --mamba-full-memory-ratio, or set --max-mamba-cache-size to wanted requests × slots a request. Deep reuse of
    prefixes needs slots too: do not cut to the bare minimum blindly. States of draft tokens shrink with the requests at
    once, and with the tokens drafted for each.
Sources
    SGLang, model_runner.py and pool configurators of hybrid linear attention (0.5.3 and later).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from kvdiag.diagnosis.events.kv_pool import MambaPool
from kvdiag.diagnosis.ledger.model import Ledger
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._formulas import worked
from kvdiag.diagnosis.rules._pricing import PRINT, cell, knob, remedies
from kvdiag.diagnosis.rules.judgements import fullest
from kvdiag.diagnosis.rules.rule import (
    Case,
    Confidence,
    Direction,
    Effect,
    Evidence,
    Finding,
    Remedy,
    Severity,
    cite,
    rule,
)
from kvdiag.diagnosis.units import Bytes, format_gib, to_gib

SLOTS_PER_REQUEST = 5  # the most a release reserves for one request


@rule(severity=Severity.ADVICE, releases="0.5.3..", unless=(judgements.without_state,))
def check(case: Case) -> Iterator[Finding]:
    pool = case.launch.first(MambaPool)
    ledger = next((x for x in case.ledgers if x.mamba_size and x.kv_size), None)
    if pool is not None and ledger is not None and (ledger.mamba_speculative or 0) > (ledger.kv_size or 0):
        yield _drafts(case, ledger, pool)
        return
    idle = _idle(case)
    if idle is not None:
        yield idle
        return
    wanted = case.launch.number_of("max_running_requests")
    if (
        pool is None
        or ledger is None
        or not ledger.mamba_size
        or not ledger.kv_size
        or not ledger.mamba_slots
        or not wanted
    ):
        return
    needed = int(wanted) * SLOTS_PER_REQUEST
    if ledger.mamba_size < case.thresholds.state_share * ledger.kv_size or ledger.mamba_slots < 2 * needed:
        return
    freed = round(ledger.mamba_size * (1 - needed / ledger.mamba_slots))
    size, tokens = cell(case), case.tokens
    effect = {}
    if size is not None and tokens is not None:
        after, margin = round(tokens + freed / size.target), math.ceil(2 * PRINT / size.target)
        effect = {"kv_tokens": Effect(tokens, after, after - margin, after + margin)}
    cost = "It costs state slots: fewer prefixes can be taken up again."
    yield Finding(
        summary=f"State slots take {format_gib(ledger.mamba_size)} beside {format_gib(ledger.kv_size)} of KV cache:"
        f" {ledger.mamba_slots:,} slots, where {wanted:,.0f} requests need about {needed:,}",
        formula=worked("wanted requests × slots a request", f"{wanted:g} × {SLOTS_PER_REQUEST} = {needed}"),
        evidence=cite(pool, figure="mamba_slots", value=ledger.mamba_slots),
        remedies=remedies(
            Remedy(
                "--max-mamba-cache-size",
                Direction.SET,
                before=str(ledger.mamba_slots),
                to=str(needed),
                effect=effect,
                cost=cost,
            ),
            None
            if case.launch.number_of("max_mamba_cache_size")
            else knob(
                case,
                "--mamba-full-memory-ratio",
                Direction.LOWER,
                to=_ratio(ledger, needed / ledger.mamba_slots),
                cost=cost,
            ),
        ),
        confidence=Confidence.LIKELY,
        stake=to_gib(freed) or 0.0,
    )


def _idle(case: Case) -> Finding | None:
    """The states' slots lie idle while requests wait for tokens; None where no batch line shows both."""
    batch = fullest(case)
    if batch is None or batch.mamba_usage is None or batch.usage is None or not batch.queued:
        return None
    if batch.usage < case.thresholds.usage_high or batch.mamba_usage >= case.thresholds.swa_idle:
        return None
    flag = "--max-mamba-cache-size" if case.launch.number_of("max_mamba_cache_size") else "--mamba-full-memory-ratio"
    return Finding(
        summary=f"The KV pool stands at {100 * batch.usage:.0f} % with {batch.queued} waiting, while the state slots"
        f" stand at {100 * batch.mamba_usage:.0f} %",
        why="States and tokens share one budget: what idle slots hold is missing from the pool that is full.",
        evidence=(Evidence(batch.line, "mamba usage", batch.mamba_usage),),
        remedies=(
            knob(case, flag, Direction.LOWER, cost="It costs state slots: fewer prefixes can be taken up again."),
        ),
        confidence=Confidence.LIKELY,
    )


def _drafts(case: Case, ledger: Ledger, pool: MambaPool) -> Finding:
    """States that are kept for draft tokens take more than all keys and values."""
    size = Bytes(ledger.mamba_speculative or 0)
    return Finding(
        summary=f"States of draft tokens take {format_gib(size)} beside {format_gib(ledger.kv_size or Bytes(0))}"
        " of KV cache",
        why="Every request that may run keeps a state for each draft token, used or not.",
        evidence=cite(pool, figure="mamba_slots", value=ledger.mamba_slots),
        remedies=remedies(
            knob(case, "--max-running-requests", Direction.LOWER, cost="It costs concurrency: others wait."),
            knob(
                case,
                "--speculative-num-draft-tokens",
                Direction.LOWER,
                cost="It costs speed: fewer tokens are proposed at once.",
            ),
        ),
        confidence=Confidence.LIKELY,
        stake=to_gib(size) or 0.0,
    )


def _ratio(ledger: Ledger, share: float) -> str | None:
    """The ratio of states to KV cache that leaves a share of the slots; None where it rounds to nothing."""
    state, whole = (ledger.mamba_size or 0) * share, (ledger.mamba_size or 0) + (ledger.kv_size or 0)
    ratio = math.ceil(100 * state / max(1, whole - state)) / 100
    return f"{ratio:g}" if 0 < ratio < 0.9 else None
