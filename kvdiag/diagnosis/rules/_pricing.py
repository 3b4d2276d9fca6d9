"""Remedies priced from the launch's own figures: by the what-if arithmetic where the sizing closes, else linearly.

Linear, as SGLang's own sizing is: tokens change by Δfraction × opening / bytes a token; free memory by as much and by
what the draft's pool takes. Exact up to a page and the print.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kvdiag.diagnosis.ledger.what_if import Change, scenario_of
from kvdiag.diagnosis.rules.judgements import (
    flag_is_given,
    is_in_command,
    no_feasible_fraction,
    speaks_of_late_release,
    stated_fraction,
)
from kvdiag.diagnosis.rules.rule import Case, Direction, Effect, Remedy
from kvdiag.diagnosis.units import GIB, Bytes, format_gib, format_tokens, to_gib

FRACTION = "--mem-fraction-static"
PRINT = 0.0056 * GIB  # two readings of two decimals each

ACCURACY = "without calibrated scales accuracy can drop: compare answers before you keep it"
FASTER_STEPS = "more, shorter prefill steps for long prompts"


@dataclass(frozen=True, slots=True)
class Cell:
    """Bytes a token on one rank: the target's pools, the draft's, and the share of a budget the KV pool gets."""

    target: float
    draft: float
    share: float = 1.0


def cell(case: Case) -> Cell | None:
    """From the pools of the rank with the fewest tokens; None where no line prints them."""
    known = [x for x in case.ledgers if x.kv_tokens and x.kv_size]
    if not known:
        return None
    ledger = min(known, key=lambda x: x.kv_tokens or 0)
    tokens, size = ledger.kv_tokens or 1, ledger.kv_size or Bytes(1)
    draft = sum(p.size for p in ledger.draft_pools if p.size is not None)
    state = ledger.mamba_size or 0
    pinned = case.launch.number_of("max_mamba_cache_size") is not None
    share = 1.0 if pinned or not state else size / (size + state)
    return Cell(size / tokens, draft / tokens, share)


def priced(case: Case, change: Change) -> dict[str, Effect] | None:
    """What a change does to tokens, free memory and concurrent requests, by SGLang's own arithmetic.

    None where the sizing does not tell, {} where the launch would not start.
    """
    if case.sizing is None or case.sizing.budget is None:
        return None
    answer = scenario_of(case.sizing, change)
    if answer.refused is not None:
        return {} if answer.refused.startswith("no start") else None
    effect: dict[str, Effect] = {}
    for name, figure, digits in (
        ("kv_tokens", answer.tokens, 0),
        ("free_gib", answer.free_gib, 4),
        ("requests", answer.requests, 0),
    ):
        if figure is None or figure.after is None or figure.before == figure.after:
            continue
        ends = [
            None if x is None else round(x, digits or None)
            for x in (figure.before, figure.after, figure.low, figure.high)
        ]
        effect[name] = Effect(*ends)
    return effect


def fraction_effect(case: Case, change: float) -> dict[str, Effect]:
    """What a change of the fraction does to tokens and to free memory; {} where the launch does not tell."""
    fraction = case.fraction
    if fraction is not None and 0 < fraction + change < 1:
        known = priced(case, Change(mem_fraction_static=round(fraction + change, 4)))
        if known is not None:
            return known
    effect: dict[str, Effect] = {}
    opening, size = case.opening_size, cell(case)
    if opening is None:
        return effect
    tokens, free = case.tokens, case.free_at_end
    draft = size.draft / size.target if size is not None else 0.0
    if size is not None and tokens is not None:
        per_byte = size.share / size.target
        after = tokens + change * opening * per_byte
        if after <= 0:
            return {}
        margin = PRINT * per_byte + 1
        effect["kv_tokens"] = Effect(
            tokens, round(after), max(0, math.floor(after - margin)), math.ceil(after + margin)
        )
    if free is not None:
        left = free.available - change * opening * (1 + draft)
        effect["free_gib"] = Effect(to_gib(free.available, 4), round(left / GIB, 4))
    return effect


def lower_fraction(case: Case, by: Bytes | None, note: str = "") -> Remedy | None:
    """Lower the fraction so that `by` more bytes stay free; None where no fraction is left to go to."""
    if no_feasible_fraction(case) is not None:
        return None
    fraction = stated_fraction(case)
    if fraction is None or not case.opening_size or by is None:
        return Remedy(
            FRACTION,
            Direction.LOWER,
            before=None if fraction is None else f"{fraction:g}",
            to=_step_down(fraction, by, case.card),
            cost="It costs KV tokens: the pool shrinks by what is set free.",
            note=note or (_step_unseen(case, by, up=False) if fraction is None and by is not None else ""),
        )
    size = cell(case)
    draft = 1 + (size.draft / size.target if size is not None else 0.0)
    target = math.floor((fraction - by / (case.opening_size * draft)) * 1000 - 1e-9) / 1000
    if target <= 0:
        return None
    effect = fraction_effect(case, target - fraction)
    tokens = effect.get("kv_tokens")
    if size is not None and case.tokens is not None and tokens is None:
        return None  # no pool would be left
    return Remedy(
        FRACTION,
        Direction.LOWER,
        before=f"{fraction:g}",
        to=f"{target:g}",
        effect=effect,
        cost=_loss(tokens),
        note=note,
    )


def _step_down(fraction: float | None, by: Bytes | None, card: Bytes | None) -> str | None:
    """A fraction to try where the figures do not close: as much lower as the overflow asks, at least two hundredths."""
    if fraction is None:
        return None
    step = max(0.02, by / card if by is not None and card else 0.05)
    return f"{max(0.1, math.floor((fraction - step) * 100) / 100):g}"


def _step_unseen(case: Case, size: Bytes, *, up: bool) -> str:
    """How far to turn a fraction whose value the log does not print; "" where no size of the card is known."""
    whole = case.opening_size or case.card
    if not whole or size <= 0:
        return ""
    step = math.floor(size / whole * 1000) / 1000 if up else ceil_fraction(size / whole)
    if not 0 < step < 1:
        return ""
    return f"By {'about' if up else 'at least'} {step:g}; the log does not print what it is now."


def _loss(tokens: Effect | None) -> str:
    if tokens is None or not tokens.before or tokens.after is None:
        return "It costs KV tokens: the pool shrinks by what is set free."
    lost = tokens.before - tokens.after
    return f"It costs {format_tokens(round(lost))} KV tokens, {100 * lost / tokens.before:.0f} % of the pool."


def raise_fraction(case: Case, to: float | None, note: str = "") -> Remedy | None:
    """Raise the fraction to a value; None where no fraction is feasible."""
    if no_feasible_fraction(case) is not None:
        return None
    fraction = stated_fraction(case)
    if to is None or to <= (fraction or 0) or to >= 1:
        return Remedy(
            FRACTION,
            Direction.RAISE,
            before=None if fraction is None else f"{fraction:g}",
            cost="It costs memory that activations and graphs would have.",
            note=note,
        )
    effect = {} if fraction is None else fraction_effect(case, to - fraction)
    opening = case.opening_size
    taken = "" if opening is None or fraction is None else f"{format_gib(round((to - fraction) * opening))} of "
    return Remedy(
        FRACTION,
        Direction.RAISE,
        before=None if fraction is None else f"{fraction:g}",
        to=f"{to:g}",
        effect=effect,
        cost=f"It costs {taken}the memory that activations and graphs would have.",
        note=note,
    )


def raise_by_room(case: Case) -> Remedy | None:
    """Raise the fraction until only what is wanted stays free at the end."""
    free, fraction, opening = case.free_at_end, case.fraction, case.opening_size
    if free is None:
        return None
    spare = free.available - case.wanted_range[1]
    if fraction is None or opening is None:
        return raise_fraction(case, None, _step_unseen(case, Bytes(spare), up=True) if fraction is None else "")
    size = cell(case)
    draft = 1 + (size.draft / size.target if size is not None else 0.0)
    return raise_fraction(case, math.floor((fraction + spare / (opening * draft)) * 1000) / 1000)


def ceil_fraction(value: float) -> float:
    """To thousandths, upwards: a minimum must be reached."""
    return math.ceil(value * 1000 - 1e-9) / 1000


def eight_bit_kv(case: Case) -> Remedy | None:
    """Store the KV cache in 8 bits, with the caveat that always goes with it; None on devices without the format."""
    if case.launch.value("device") == "npu" or case.launch.value("attention_backend") == "ascend":
        return None
    effect = priced(case, Change(kv_cache_dtype="fp8_e4m3"))
    if not effect:
        tokens = case.tokens
        effect = {} if tokens is None else {"kv_tokens": Effect(tokens, 2 * tokens)}
    return Remedy(
        "--kv-cache-dtype",
        Direction.SET,
        to="fp8_e4m3",
        effect=effect,
        cost=f"It costs precision: {ACCURACY}; not every attention backend takes it.",
    )


def remedies(*offers: Remedy | None) -> tuple[Remedy, ...]:
    """The offers that can be made."""
    return tuple(offer for offer in offers if offer is not None)


def knob(case: Case, flag: str, direction: Direction, to: str | None = None, cost: str = "", note: str = "") -> Remedy:
    """A remedy on any other flag, with its present value where the launch tells."""
    name = flag.lstrip("-").replace("-", "_")
    now = case.launch.value(name) if flag.startswith("--") else None
    before = None if now is None or isinstance(now, list | dict) else str(now)
    effect = _effect_of(case, name, direction, to)
    return Remedy(flag, direction, before=before, to=to, effect=effect or {}, cost=cost, note=note)


_WHOLE = ("tp_size", "context_length", "max_total_tokens", "max_mamba_cache_size", "max_running_requests")


def _effect_of(case: Case, name: str, direction: Direction, to: str | None) -> dict[str, Effect] | None:
    """The effect of a flag that the sizing knows."""
    if name == "max_total_tokens" and direction is Direction.REMOVE:
        return priced(case, Change(max_total_tokens=0))
    if name == "enable_dp_attention" and direction is Direction.SET:
        tp = int(case.launch.number_of("tp_size") or 1)
        return priced(case, Change(dp_attention=tp)) if tp > 1 else None
    if to is None or name not in _WHOLE or not to.isdigit():
        return None
    return priced(case, Change.read({name: int(to)}))


def prefill_graph_knobs(case: Case) -> tuple[Remedy, ...]:
    """Fewer or no prefill graphs, by the flags of this launch's release."""
    fewer = "It costs speed of prefill for the sizes that are left out."
    none = "It costs speed of prefill."
    if speaks_of_late_release(case) and not is_in_command(case, "piecewise_cuda_graph_max_tokens"):
        return (
            knob(case, "--cuda-graph-max-bs-prefill", Direction.LOWER, cost=fewer),
            knob(case, "--disable-prefill-cuda-graph", Direction.SET, cost=none),
        )
    smaller = knob(case, "--piecewise-cuda-graph-max-tokens", Direction.LOWER, cost=fewer)
    if flag_is_given(case, "enable_piecewise_cuda_graph"):
        return smaller, knob(case, "--enable-piecewise-cuda-graph", Direction.REMOVE, cost=none)
    return smaller, knob(case, "--disable-piecewise-cuda-graph", Direction.SET, cost=none)


def host_tier_knobs(case: Case) -> tuple[Remedy, ...]:
    """A smaller host tier, by the flag that sets its size here."""
    cost = "It costs kept prefixes: the host tier holds fewer tokens."
    if (case.launch.number_of("hicache_size") or 0) > 0:
        return (knob(case, "--hicache-size", Direction.LOWER, cost=cost),)
    if is_in_command(case, "hicache_ratio"):
        return (knob(case, "--hicache-ratio", Direction.LOWER, cost=cost),)
    return (
        knob(case, "--hicache-ratio", Direction.LOWER, cost=cost),
        knob(case, "--hicache-size", Direction.LOWER, cost=cost),
    )
