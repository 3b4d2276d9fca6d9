"""The cost of a state slot was computed over the whole model, although each stage holds its part.

What it sees
    A hybrid model under pipeline stages whose state cache is about the number of stages too small against its KV
    cache, in a release before 0.5.17. Certain where the share is the configured ratio over the stages to a twentieth
    and the release is known; likely within three tenths, which uneven stages explain.
Why it matters
    Slots, and with them running requests, are a fraction of what memory allows.
What to do
    Upgrade; until then pin --max-mamba-cache-size. Neither --max-running-requests nor the fraction helps.
Sources
    SGLang, pull request 33666.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.kv_pool import MambaPool
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._formulas import gib, worked
from kvdiag.diagnosis.rules.judgements import stages_in_pipeline
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule

LOOSE = 0.3  # stages differ by a layer or two
CLOSES = 0.05


@rule(
    severity=Severity.ADVICE,
    releases="..0.5.15",
    unless=(
        judgements.without_state,
        judgements.without_pipeline,
    ),
)
def check(case: Case) -> Iterator[Finding]:
    stages = stages_in_pipeline(case)
    ledger = next((x for x in case.ledgers if x.mamba_size and x.kv_size and x.mamba_slots), None)
    if stages < 2 or ledger is None or not ledger.mamba_size or not ledger.kv_size or not ledger.mamba_slots:
        return
    if case.launch.number_of("max_mamba_cache_size") is not None:
        return
    ratio = case.launch.number_of("mamba_full_memory_ratio") or 0.9
    share = ledger.mamba_size / ledger.kv_size
    off = abs(share * stages / ratio - 1)  # how far the share is from the one that the fault gives
    if off > LOOSE:
        return
    known = case.launch.releases.reaches("0.5.16") is False
    yield Finding(
        summary=f"{ledger.mamba_slots} state slots are about {stages} times too few: their cost was taken"
        " over all stages",
        formula=worked(
            "state cache / KV cache against mamba_full_memory_ratio / stages",
            f"{gib(ledger.mamba_size)} / {gib(ledger.kv_size)} = {share:.3f} against {ratio:g} / {stages} ="
            f" {ratio / stages:.3f}",
        ),
        evidence=cite(case.launch.first(MambaPool), figure="mamba_slots", value=ledger.mamba_slots),
        remedies=(
            Remedy("upgrade", Direction.SET, to="0.5.17 or later", cost="It costs an upgrade."),
            Remedy(
                "--max-mamba-cache-size",
                Direction.RAISE,
                before=str(ledger.mamba_slots),
                to=str(ledger.mamba_slots * stages),
                cost="It costs a value to look after.",
            ),
        ),
        confidence=Confidence.CERTAIN if off <= CLOSES and known else Confidence.LIKELY,
    )
