"""The knobs of the what-if panel: settings whose effect on a launch can be worked out, each at its observed value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kvdiag.diagnosis.cards import AMD, NVIDIA
from reports import words
from reports.document import Launch, dig
from reports.fractions import least_that_starts

PREFIX = "wf."  # of a setting in the page's address

_GRAPH_ARGUMENTS = ("cuda_graph_max_bs", "cuda_graph_max_bs_decode")


@dataclass(frozen=True, slots=True)
class Knob:
    """One setting of the panel.

    kind   range | number | choice
    value  the observed value; None where the log does not say, then the knob starts empty
    now    the scenario's value, "" where the knob is empty
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
    now: str = ""

    @property
    def observed(self) -> str:
        """The observed value as it stands in a form."""
        return "" if self.value is None else str(self.value)

    @property
    def field(self) -> str:
        """Its name in the address."""
        return f"{PREFIX}{self.name}"

    @property
    def shown_now(self) -> str:
        """The scenario's fraction in words."""
        try:
            return words.fraction(float(self.now))
        except ValueError:
            return self.shown


def _value(launch: Launch, name: str) -> Any:
    return dig(launch, "arguments", name, "value")


def knobs_of(launch: Launch) -> list[Knob]:
    """The settings whose effect on this launch can be worked out, each at its observed value."""
    redone = dig(launch, "kv_cache", "budget") or {}
    family = str(dig(launch, "kv_cache", "family") or "")
    fraction = redone.get("mem_fraction_static")
    least = least_that_starts(launch)
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
    knobs += _cards(launch)
    if _value(launch, "speculative_algorithm"):
        choices = (("on", "kept"), ("off", "dropped"))
        knobs.append(Knob("draft", "Draft model", "choice", "on", options=choices, is_flag=False))
    knobs.append(
        _ratio(
            "hicache_ratio",
            _value(launch, "hicache_ratio") if _value(launch, "enable_hierarchical_cache") else None,
            "off",
        )
    )
    return knobs


def _cards(launch: Launch) -> list[Knob]:
    """Cards of another size, where the log knows its own."""
    inputs = dig(launch, "kv_cache", "inputs") or {}
    platform = inputs.get("platform")
    knows_own = dig(launch, "gpu", "capacity_gib") is not None
    if inputs.get("unified_memory") or not knows_own or platform not in (None, "cuda", "hip"):
        return []
    names = AMD if platform == "hip" else NVIDIA
    options = (("", "as in the log"), *((name, name) for name in names))
    return [Knob("card", "GPU", "choice", None, options=options, is_flag=False)]


def _ratio(name: str, value: Any, was: str, high: Any = None) -> Knob:
    flag = "--" + name.replace("_", "-")
    return Knob(
        name, flag, "number", value if isinstance(value, (int, float)) else None, low=0, high=high, step="any", was=was
    )


def asked_of(given: Mapping[str, str], knobs: list[Knob]) -> dict[str, str]:
    """The settings of an address that differ from what was observed: `wf.mem_fraction_static=0.9` and the like."""
    asked = {}
    for knob in knobs:
        value = str(given.get(knob.field, "")).strip()[:40]
        if value and not _same(value, knob.observed):
            asked[knob.name] = value
    return asked


def _same(one: str, other: str) -> bool:
    try:
        return float(one) == float(other)
    except ValueError:
        return one == other


def turned(knobs: list[Knob], asked: Mapping[str, str]) -> list[Knob]:
    """The knobs where a scenario puts them; a request may be as long as the scenario's context."""
    context = asked.get("context_length", "")
    longest = int(context) if context.isascii() and context.isdecimal() else None
    return [
        replace(
            knob,
            now=asked.get(knob.name, knob.observed),
            high=longest if longest and knob.name == "request_tokens" else knob.high,
        )
        for knob in knobs
    ]
