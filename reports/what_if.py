"""The what-if panel: knobs that start at a launch's own values, and the engine's answer arranged for the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from reports import charts, words
from reports.budget import Card, Share, budget_of
from reports.document import Launch, dig

_GRAPH_ARGUMENTS = ("cuda_graph_max_bs", "cuda_graph_max_bs_decode")


@dataclass(frozen=True, slots=True)
class Knob:
    """One setting of the panel.

    kind   range | number | choice | switch
    value  the observed value; None where the log does not say, then the knob starts empty
    was    "observed", "default" or why it is empty
    more   True for the ones that start folded
    """

    name: str
    flag: str
    kind: str
    value: Any
    shown: str = ""
    low: Any = None
    high: Any = None
    step: Any = 1
    was: str = "observed"
    options: tuple[tuple[str, str], ...] = ()
    is_flag: bool = True
    more: bool = True


def _value(launch: Launch, name: str) -> Any:
    return dig(launch, "arguments", name, "value")


def knobs_of(launch: Launch) -> list[Knob]:
    """The settings whose effect on this launch can be worked out, each at its observed value."""
    redone = dig(launch, "kv_cache", "budget") or {}
    family = str(dig(launch, "kv_cache", "family") or "")
    fraction = redone.get("mem_fraction_static")
    least = redone.get("smallest_fraction") or dig(launch, "kv_cache", "fractions", "smallest_that_starts")
    knobs = []
    if isinstance(fraction, (int, float)):
        low = round(max(0.05, min(fraction, least or 1.0, 0.75) - 0.05), 2)
        knobs.append(
            Knob(
                "mem_fraction_static",
                "--mem-fraction-static",
                "range",
                round(fraction, 4),
                words.fraction(fraction),
                f"{low:.2f}",
                "0.98",
                "0.001",
                more=False,
            )
        )
    dtype = str(_value(launch, "kv_cache_dtype") or "auto")
    known = str(dig(launch, "model", "kv_cache_dtype") or "").replace("torch.", "")
    as_is = f"{dtype} ({known})" if known and known != dtype else dtype
    options = [(dtype, as_is)] + [
        (name, name) for name in ("auto", "bfloat16", "fp8_e4m3", "fp8_e5m2") if name != dtype and name != known
    ]
    knobs.append(Knob("kv_cache_dtype", "--kv-cache-dtype", "choice", dtype, options=tuple(options), more=False))
    context = dig(launch, "limits", "context_len")
    knobs.append(
        Knob(
            "request_tokens",
            "Tokens in one request",
            "number",
            context if isinstance(context, int) else None,
            low=1,
            high=context if isinstance(context, int) else None,
            was="the context length",
            is_flag=False,
            more=False,
        )
    )
    graphs = next((value for name in _GRAPH_ARGUMENTS if isinstance(value := _value(launch, name), int)), None)
    if graphs is not None:
        knobs.append(Knob("cuda_graph_max_bs", "--cuda-graph-max-bs", "number", graphs, low=1, high=4096))
    tp = dig(launch, "parallel", "tp")
    if isinstance(tp, int) and tp > 0:
        sizes = sorted({1, 2, 4, 8, 16, 32, tp})
        choices = tuple((str(size), str(size)) for size in sizes)
        knobs.append(Knob("tp_size", "--tp-size", "choice", str(tp), options=choices))
        if tp > 1 and family == "mla":
            dp = _value(launch, "dp_size") if _value(launch, "enable_dp_attention") else None
            flag = "--enable-dp-attention --dp-size"
            knobs.append(
                Knob("dp_attention", flag, "number", dp if isinstance(dp, int) else None, low=1, high=tp, was="off")
            )
    if isinstance(context, int):
        knobs.append(Knob("context_length", "--context-length", "number", context, low=1))
    running = dig(launch, "limits", "max_running_requests")
    knobs.append(
        Knob(
            "max_running_requests",
            "--max-running-requests",
            "number",
            running if isinstance(running, int) else None,
            low=1,
            was="SGLang’s choice",
        )
    )
    cap = _value(launch, "max_total_tokens")
    knobs.append(
        Knob(
            "max_total_tokens",
            "--max-total-tokens",
            "number",
            cap if isinstance(cap, int) else None,
            low=0,
            was="no cap",
        )
    )
    if family == "swa":
        ratio = _value(launch, "swa_full_tokens_ratio")
        knobs.append(_ratio("swa_full_tokens_ratio", ratio, "0.8", high=1))
    if family == "mamba":
        knobs.append(_ratio("mamba_full_memory_ratio", _value(launch, "mamba_full_memory_ratio"), "0.9"))
        slots = _value(launch, "max_mamba_cache_size")
        knobs.append(
            Knob(
                "max_mamba_cache_size",
                "--max-mamba-cache-size",
                "number",
                slots if isinstance(slots, int) else None,
                low=1,
                was="SGLang’s choice",
            )
        )
    if _value(launch, "speculative_algorithm"):
        knobs.append(Knob("draft", "Draft model", "switch", True, is_flag=False))
    knobs.append(
        _ratio(
            "hicache_ratio",
            _value(launch, "hicache_ratio") if _value(launch, "enable_hierarchical_cache") else None,
            "off",
        )
    )
    return knobs


def _ratio(name: str, value: Any, was: str, high: Any = None) -> Knob:
    flag = "--" + name.replace("_", "-")
    return Knob(
        name, flag, "number", value if isinstance(value, (int, float)) else None, low=0, high=high, step="any", was=was
    )


def answer(launch: Launch, asked: Mapping[str, str]) -> tuple[dict[str, Any], int]:
    """The scenario as JSON and its status: 200, or 400 with a sentence for a value that cannot be meant."""
    from kvdiag.diagnosis.ledger.what_if import Change, scenario

    settings = {name: asked[name] for name in asked if name != "launch"}
    try:
        change = Change.read(settings)
    except ValueError as problem:
        return {"error": f"{str(problem)[:1].upper()}{str(problem)[1:]}."}, 400
    found = scenario(launch, change).to_document()
    return found | {"verdict": verdict_of(found), "figure": figure_of(launch, found)}, 200


def verdict_of(found: dict[str, Any]) -> dict[str, str]:
    """Whether the scenario starts and how much stays free: a tone and a sentence."""
    free, wanted = dig(found, "free_gib", "after"), found.get("wanted_free_gib")
    fraction, least = dig(found, "fraction", "after"), found.get("starts_from")
    if found.get("refused"):
        sentence = str(found["refused"])
        return {"tone": "critical", "text": sentence[:1].upper() + sentence[1:].rstrip(".") + "."}
    if fraction is not None and least is not None and fraction < least:
        return {
            "tone": "critical",
            "text": f"Cannot start: {words.fraction(fraction)} is below {words.fraction(least)}. Raise it.",
        }
    if free is not None and free < 0:
        return {
            "tone": "critical",
            "text": "Does not fit: what comes after the pool runs out of memory. Lower the fraction.",
        }
    if free is not None and wanted is not None and free < wanted / 2:
        return {
            "tone": "warning",
            "text": f"Starts, but leaves less than half of the {words.gib(wanted, 1)} GiB wanted for prefill.",
        }
    if free is not None and wanted is not None and free < wanted:
        return {"tone": "warning", "text": f"Starts; less than the wanted {words.gib(wanted, 1)} GiB stays free."}
    if free is None:
        return {"tone": "info", "text": "Starts as far as the log tells; it does not say what stays free."}
    return {"tone": "good", "text": "Starts, and leaves enough free."}


def figure_of(launch: Launch, found: dict[str, Any]) -> charts.Figure | None:
    """The observed card above, the scenario's below, on one scale; None where the log has no card to show."""
    budget = budget_of(launch)
    card = budget.main
    if card is None:
        return None
    fraction = dig(found, "fraction", "after")
    boundary = fraction * card.opening if fraction is not None else None
    after = (
        None
        if found.get("refused")
        else changed_card(card, dig(found, "kv_gib", "after"), dig(found, "free_gib", "after"))
    )
    return charts.scenario(card, after, (budget.boundary, boundary), (budget.fraction, fraction))


def changed_card(card: Card, kv_gib: float | None, free_gib: float | None) -> Card | None:
    """The card with another pool and another rest. What else moved is the draft's pool, or else the workspaces'."""
    if kv_gib is None or free_gib is None or free_gib < 0:
        return None
    sizes = {share.pool: share.gib for share in card.shares} | {"kv": kv_gib, "free": free_gib}
    moved = card.opening - sum(sizes.values())
    elastic = next((pool for pool in ("draft", "graphs", "work") if pool in sizes), "work")
    sizes[elastic] = max(0.0, sizes.get(elastic, 0.0) + moved)
    by_pool = {share.pool: share for share in card.shares}
    shares = tuple(
        replace(by_pool[pool], gib=gib, parts=(), lines=(), basis="derived")
        if pool in by_pool
        else Share(pool, pool, gib, "derived", ())
        for pool, gib in sizes.items()
    )
    return replace(card, shares=shares, free=free_gib)
