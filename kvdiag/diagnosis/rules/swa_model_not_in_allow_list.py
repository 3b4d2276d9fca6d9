"""A model with sliding windows has no pool for them: every layer keeps every token.

What it sees
    A model whose shape is known, from the table of public models or a config.json beside the log, to have window
    layers; no line of a window pool; and a pool whose bytes a token are those of all layers.
Why it matters
    Window layers need the last few thousand tokens of a request only. Kept for every token, they take what would hold
    several times the context.
What to do
    Use a release that has the architecture on its list; or take --disable-hybrid-swa-memory out where it is set.
Sources
    SGLang, model_config.py: is_hybrid_swa_model(); pull request 39310.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.kv_pool import KVPoolAllocated
from kvdiag.diagnosis.ledger.sizing import swa
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._formulas import gib, worked
from kvdiag.diagnosis.rules._pricing import knob
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule

CLOSES = 0.015  # sizes are printed with two decimals

_SWITCH = "disable_hybrid_swa_memory"


@rule(severity=Severity.INFO, releases="0.4.9..", needs=(KVPoolAllocated,))
def check(case: Case) -> Iterator[Finding]:
    geometry = case.sizing.inputs.geometry if case.sizing is not None else None
    ledger = next((x for x in case.ledgers if x.kv_tokens and x.kv_size and not x.draft_pools), None)
    if geometry is None or not geometry.swa_layers or ledger is None or case.sizing is None:
        return
    if judgements.without_window(case) is None or not ledger.kv_tokens or not ledger.kv_size:
        return
    inputs = case.sizing.inputs
    cells = swa.cells(geometry, inputs.kv_dtype, inputs.attention_tp)
    each = ledger.kv_size / ledger.kv_tokens
    layers = geometry.layers + geometry.swa_layers
    whole = cells.full + cells.window
    if abs(each / whole - 1) > CLOSES:
        return
    off = judgements.flag_is_given(case, _SWITCH)
    yield Finding(
        summary=f"{geometry.swa_layers} of {layers} layers have a window of {geometry.swa_window:,} tokens, and yet"
        f" every layer keeps every token ({round(each):,} bytes a token)",
        why="Without a pool of their own, window layers keep what they will never read again: "
        f"{100 * cells.window / whole:.0f} % of the pool.",
        formula=worked(
            "pool / tokens = full layers + window layers, bytes a token",
            f"{gib(ledger.kv_size)} GiB / {ledger.kv_tokens:,} = {each:,.0f}; {cells.full:,.0f} + {cells.window:,.0f} ="
            f" {whole:,.0f}",
        ),
        evidence=cite(*ledger.pools[0].lines[:1], figure="bytes_per_token", value=round(each))
        if ledger.pools
        else cite(case.launch.first(KVPoolAllocated)),
        remedies=(
            knob(
                case,
                f"--{_SWITCH.replace('_', '-')}",
                Direction.REMOVE,
                cost="It costs prefixes of window layers that would be kept longer.",
            )
            if off
            else Remedy(
                "upgrade",
                Direction.SET,
                to="a release that has the architecture on its list",
                cost="It costs an upgrade.",
            ),
        ),
        confidence=Confidence.CERTAIN,
    )
