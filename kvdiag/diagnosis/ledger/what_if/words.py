"""The words of an answer: equations with their numbers, the limits of the model, what speaks against a change."""

from __future__ import annotations

import math

from kvdiag.diagnosis.ledger.sizing.estimate import HALF_DIGIT
from kvdiag.diagnosis.ledger.sizing.inputs import Family
from kvdiag.diagnosis.ledger.sizing.limits import cap_binds
from kvdiag.diagnosis.ledger.sizing.sizing import Sizing
from kvdiag.diagnosis.ledger.what_if.answer import Figure
from kvdiag.diagnosis.ledger.what_if.command import moves_own_fraction
from kvdiag.diagnosis.ledger.what_if.forward import table_gib, tokens_before
from kvdiag.diagnosis.ledger.what_if.outcome import Outcome
from kvdiag.diagnosis.units import GIB


def equations(outcome: Outcome, tokens: Figure, free: Figure | None) -> list[str]:
    """Each step with its numbers."""
    base, then = outcome.base, outcome.then
    lines = [
        f"budget = {then.after_weights:.2f} − {then.opening:.2f} × (1 − {then.fraction:.4g})"
        f" = {_signed(then.budget, 3)} GiB"
    ]
    if then.budget <= 0 or not tokens.after:
        return lines
    state = then.arithmetic.state_gib(then.budget)
    minus = f" − {state:.3f} of request states" if state > 0 else ""
    minus += f" − {then.arithmetic.reserved:.3f} kept for multimodal input" if then.arithmetic.reserved > 0 else ""
    lost = f" {_change(-then.lost, 3)} that this log's pool differs by" if abs(then.lost) >= HALF_DIGIT else ""
    kept = f"({then.budget:.3f}{minus}{lost})" if minus or lost else f"{then.budget:.3f}"
    cell = then.arithmetic.bytes_per_reported_token
    capped = then.arithmetic.cap is not None and tokens.after >= then.arithmetic.cap - then.arithmetic.page
    lines.append(
        f"tokens = --max-total-tokens = {int(tokens.after):,}"
        if capped
        else f"tokens = {kept} GiB × 2^30 / {cell:,.0f} B = {tokens.word} {int(tokens.after):,}"
    )
    if free is not None and free.after is not None and free.before is not None and then != base:
        before = tokens_before(outcome.sizing, base)
        more = then.pools_gib(tokens.after) - base.pools_gib(before)
        table = table_gib(outcome.sizing, then, tokens.after) - table_gib(outcome.sizing, base, before)
        rows = f" {_change(-table)} for the request table" if abs(table) >= HALF_DIGIT else ""
        fixed = f" {_change(-then.fixed)} outside the pools" if abs(then.fixed) >= HALF_DIGIT else ""
        room = f" {_change(then.room)} of the other card" if then.room else ""
        lines.append(
            f"free = {_gib(free.before)} {_change(-more)} for the pools{rows}{fixed}{room} = {_gib(free.after)} GiB"
        )
        if then.draft_cell and tokens.before is not None and tokens.after != tokens.before:
            draft = tokens.after * then.draft_cell / GIB - tokens.before * base.draft_cell / GIB
            lines.append(f"of the pools, {_change(draft)} GiB are the draft's, at {then.draft_cell:,.0f} B a token")
    host = outcome.host(tokens)
    if host is not None and host.after is not None and outcome.change.hicache_ratio is not None:
        lines.append(
            f"host = {outcome.change.hicache_ratio:g} × {int(tokens.after):,} × {then.target_cell:,.0f} B "
            f"= {host.after:.1f} × 10^9 B a rank"
        )
    return lines


def validity(outcome: Outcome, free: Figure | None) -> list[str]:
    """Where the answer holds."""
    inputs = outcome.sizing.inputs
    said = list(outcome.then.notes)
    if free is None:
        said.append("the log does not reach the end of the start, so the free memory there is not known")
    elif outcome.then != outcome.base:
        said.append("graphs, workspaces and activations are taken to need what they need in this log")
    if moves_own_fraction(outcome.change, inputs) and outcome.printed is None:
        said.append(
            f"SGLang chose the fraction itself and would choose another then: the command pins {inputs.fraction:g}"
        )
    if len([rank for rank in inputs.ranks if rank.after_weights is not None]) < inputs.world:
        said.append("the log does not show every rank; a smaller one elsewhere would lower every figure")
    if inputs.release.exact is None and outcome.sizing.budget and len(outcome.sizing.budget.candidates) > 1:
        said.append("the release is not known; the way of counting that fits the log is used")
    if outcome.change.hicache_ratio is not None or outcome.change.hicache_size_gb is not None:
        said.append("a host tier keeps evicted prefixes; it does not let more requests run at once")
        if inputs.draft is not None or inputs.family in (Family.DSA, Family.LINEAR, Family.SWA):
            said.append("pools of a draft, an index, a window or request states add host memory of their own")
    return said


def cautions(outcome: Outcome, free: Figure | None, trained_for: int | None = None) -> list[str]:
    """What speaks against the change.

    trained_for  the model's own context length, where the log tells it
    """
    said = []
    if free is not None and free.after is not None and free.after >= 0:
        said += [caution for caution in [short_of(free, outcome.sizing)] if caution]
    name = outcome.change.kv_cache_dtype or ""
    if "fp8" in name or "fp4" in name:
        said.append(
            f"{name} needs an attention backend that takes it, and without calibrated scales answers may get worse"
        )
    if outcome.change.hicache_ratio is not None or outcome.change.hicache_size_gb is not None:
        said.append("each rank takes this much host memory, and 10 GiB of it must stay free")
    context, observed = outcome.change.context_length or 0, outcome.sizing.inputs.context_length
    if trained_for is not None and context > trained_for:
        said.append("a longer context than the model was trained for needs settings of its own")
    elif trained_for is None and observed is not None and context > observed:
        said.append(
            f"longer than the observed context of {observed:,}; whether the model was trained for it is not in the log"
        )
    if cap_binds(outcome.sizing.inputs) and outcome.printed is not None and outcome.then.arithmetic.cap is not None:
        said.append("--max-total-tokens sets the pool in this launch, whatever the fraction")
    return said


def short_of(free: Figure, sizing: Sizing) -> str:
    """How far what stays free is from what is wanted; "" where it is enough.

    Half of what is wanted is enough for a launch as it is; less than all of it speaks against taking more, and so does
    what the host may want of a memory that it shares with the GPU.
    """
    after, needed, wanted = free.after, sizing.needed_free, sizing.wanted_free
    if after is None or needed is None or wanted is None:
        return ""
    at_end = f"{_gib(after)} GiB free at the end is"
    before = math.inf if free.before is None else free.before

    def as_now(bar: float) -> str:
        """A start that is under the same bar is named with the change."""
        if before >= bar - 0.005:
            return ""
        return ", as now" if _gib(before) == _gib(after) else f", as the {_gib(before)} GiB of this start are"

    if after < needed / 2:
        return f"{at_end} less than half of the {needed:.2f} GiB wanted{as_now(needed / 2)}"
    if free.before is not None and after >= free.before - 0.005:
        return ""  # the change is not what takes it
    if after < needed - 0.005:
        return f"{at_end} under the {needed:.2f} GiB wanted{as_now(needed)}"
    if after < wanted - 0.005:
        shared = "wanted where host and GPU share one memory"
        return f"{at_end} under the {wanted:.2f} GiB {shared}{as_now(wanted)}"
    return ""


def _gib(value: float) -> str:
    """A size from as many digits as the document has, so that note, equation and figure round alike."""
    return _signed(round(value, 4), 2)


def _signed(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


def _change(value: float, digits: int = 2) -> str:
    """+ 0.25 or − 0.25, as a term of a sum."""
    return ("+ " if value >= 0 else "− ") + f"{abs(value):.{digits}f}"
