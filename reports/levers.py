"""What else could be turned on a launch: the engine's levers, each with what it would bring and what it costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from kvdiag.diagnosis.units import times_or_percent
from reports import words
from reports.commands import command_diff
from reports.document import Launch, dig, listed

# The panel's setting for a flag, so that a lever can be tried there.
_SETTINGS = {
    "--mem-fraction-static": "mem_fraction_static",
    "--kv-cache-dtype": "kv_cache_dtype",
    "--dp-size": "dp_attention",
    "--hicache-ratio": "hicache_ratio",
    "--tp-size": "tp_size",
    "--max-total-tokens": "max_total_tokens",
    "--cuda-graph-max-bs": "cuda_graph_max_bs",
    "--swa-full-tokens-ratio": "swa_full_tokens_ratio",
    "--mamba-full-memory-ratio": "mamba_full_memory_ratio",
    "--max-mamba-cache-size": "max_mamba_cache_size",
}


@dataclass(frozen=True, slots=True)
class ShownLever:
    """One lever as a row.

    tokens  after the change, of one rank; whole, of all ranks together where they hold different ones
    query   the scenario for the what-if panel, empty where the panel has no such setting
    """

    what: str
    flags: tuple[str, ...]
    tokens: str
    change: str
    whole: str
    free: str
    requests: str
    host: str
    costs: tuple[str, ...]
    query: str


def levers_of(launch: Launch) -> list[ShownLever]:
    """The levers of a launch, as the engine orders them."""
    return [_shown(lever) for lever in listed(launch, "levers") if isinstance(lever, dict)]


def _shown(lever: dict[str, Any]) -> ShownLever:
    before, after = dig(lever, "tokens", "before"), dig(lever, "tokens", "after")
    same = before == after
    free = dig(lever, "free_gib", "after")
    host = dig(lever, "host_gb", "after")
    return ShownLever(
        what=str(lever.get("what") or lever.get("lever") or ""),
        flags=_flags(listed(lever, "flags")),
        tokens=_guess(words.tokens(after) if same else words.about(after), same, dig(lever, "tokens", "bound")),
        change=times_or_percent(before, after) if before and after else "",
        whole=_bounded(words.about(dig(lever, "total_tokens", "after")), dig(lever, "total_tokens", "bound")),
        free=_guess(words.gib(free), free == dig(lever, "free_gib", "before")),
        requests=_bounded(words.tokens(dig(lever, "requests", "after")), dig(lever, "requests", "bound")),
        host=f"{host:,.1f}" if isinstance(host, (int, float)) else "",
        costs=tuple(words.sentence(cost) for cost in listed(lever, "costs")),
        query=_query(lever),
    )


def _guess(text: str, same: bool, bound: object = None) -> str:
    return text if same or not text else f"{bound or '≈'} {text}"


def _bounded(text: str, bound: object) -> str:
    return f"{bound} {text}" if bound and text else text


def _flags(flags: list[dict[str, Any]]) -> tuple[str, ...]:
    """The flags with their new values, quoted for the shell; in words where they are taken out."""
    given, gone = [], []
    for flag in flags:
        if flag.get("to") is None:
            gone.append(str(flag.get("flag")))
            continue
        lines = command_diff({"flag": flag.get("flag"), "direction": "set", "to": flag["to"]})
        given += [line.text for line in lines if line.kind == "add"]
    more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
    return (*given, f"without {gone[0]}{more}") if gone else tuple(given)


def _query(lever: dict[str, Any]) -> str:
    asked = {
        f"wf.{_SETTINGS[flag['flag']]}": flag["to"]
        for flag in listed(lever, "flags")
        if flag.get("flag") in _SETTINGS and flag.get("to") not in (None, "")
    }
    return urlencode(asked)
