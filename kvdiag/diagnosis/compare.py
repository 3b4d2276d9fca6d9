"""Compare: what moved the pool of one launch to that of another, step by step, adding up to the whole difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kvdiag.diagnosis.ledger.sizing.sizing import Sizing, size_inputs
from kvdiag.diagnosis.ledger.sizing.stored import inputs_of_document
from kvdiag.diagnosis.units import GIB

_PRINT = 0.0151
"""GiB: what two readings and a size of two decimals each may be apart by rounding."""
_SMALL = 0.005
"""GiB: below the last printed digit, a step says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Terms:
    """The terms of a pool's size, each of which a comparison swaps once. GiB, bytes and tokens of one rank.

    usage  what the weights took: as printed, else opening − after_weights
    share  what a draft adds to the bytes of a token, as a factor (0.5.14 and later)
    added  tokens added for a draft (0.4.3–0.5.6)
    """

    opening: float
    usage: float
    fraction: float
    states: float
    cell: float
    share: float
    added: int
    cap: int | None

    @property
    def budget(self) -> float:
        """f × opening − usage, which is after_weights − opening × (1 − f)."""
        return self.fraction * self.opening - self.usage

    @property
    def tokens(self) -> float:
        """Tokens before page rounding; negative where there is no budget, so that steps keep adding up."""
        count = (self.budget - self.states) * GIB / (self.cell * self.share) + self.added
        return count if self.cap is None else min(count, float(self.cap))

    @property
    def pool(self) -> float:
        """GiB of the target's pool for these tokens."""
        return self.tokens * self.cell / GIB


_STEPS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("opening", "free memory before loading", ("opening",)),
    ("weights", "what the weights take", ("usage",)),
    ("fraction", "mem_fraction_static in effect", ("fraction",)),
    ("states", "request states taken first", ("states",)),
    ("cell", "bytes per token", ("cell",)),
    ("draft", "what is counted for the draft", ("share", "added")),
    ("cap", "--max-total-tokens", ("cap",)),
)


def compare(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    """Two launches of report documents: which change moved how many GiB and tokens from the first to the second.

    Steps are taken one after the other in SGLang's own order, so their sum is the difference; what the arithmetic
    does not explain is the last step, "rest". Without both budgets the whole difference is the rest.
    """
    one, two = (size_inputs(inputs_of_document(launch)) for launch in (a, b))
    first, second = _terms(one), _terms(two)
    both = bool(one.inputs.tokens and two.inputs.tokens)
    steps: list[dict[str, Any]] = []
    why = None
    if first is not None and second is not None:
        steps = _steps(first, second, both)
        _name_formats(steps, one, two)
    else:
        why = next(side.limit.sentence for side, terms in ((one, first), (two, second)) if terms is None)
    gib_from, gib_to = _size(one, first, both), _size(two, second, both)
    tokens_from, tokens_to = one.inputs.tokens, two.inputs.tokens
    moved = None if gib_from is None or gib_to is None else gib_to - gib_from
    counted = tokens_to - tokens_from if tokens_from and tokens_to else None
    if moved is not None:
        rest_tokens = None if counted is None else counted - sum(step["tokens"] or 0 for step in steps)
        steps.append(
            {
                "cause": "rest",
                "what": "page rounding, printed digits, and what the arithmetic does not explain",
                "from": None,
                "to": None,
                "gib": moved - sum(step["gib"] for step in steps),
                "tokens": rest_tokens,
            }
        )
    return {
        "of": "pool" if both else "budget",
        "gib": {"from": gib_from, "to": gib_to, "difference": moved},
        "tokens": {"from": tokens_from, "to": tokens_to, "difference": counted},
        "steps": steps,
        "cause": _cause(steps),
        "summary": _summary(one, two, steps, moved, counted, why),
        "free": _free(a, b),
        "arguments": _arguments(a, b),
        "release": {"from": str(one.inputs.release), "to": str(two.inputs.release)},
        "why_not": why,
    }


def _terms(sizing: Sizing) -> _Terms | None:
    budget = sizing.budget
    if budget is None or budget.arithmetic is None or budget.arithmetic.bytes_per_reported_token <= 0:
        return None
    way = budget.arithmetic
    whole = way.bytes_per_reported_token
    plain = whole
    if budget.cell is not None and way.window is None and budget.cell.charged.value > 0:
        plain = budget.cell.charged.value
    return _Terms(
        opening=budget.readings.opening.value,
        usage=_weights(sizing, budget.readings.opening.value - budget.readings.after_weights.value),
        fraction=budget.fraction,
        states=way.state_gib(budget.kv.value) if budget.kv.value > 0 else 0.0,
        cell=plain,
        share=whole / plain,
        added=way.headroom,
        cap=way.cap,
    )


def _size(sizing: Sizing, terms: _Terms | None, both: bool) -> float | None:
    """GiB compared: the pool by its own tokens where both have one, else the budget."""
    if not both:
        return None if terms is None else terms.budget
    if terms is not None and sizing.inputs.tokens:
        return sizing.inputs.tokens * terms.cell / GIB
    return sizing.inputs.pools.gib


def _steps(first: _Terms, second: _Terms, both: bool) -> list[dict[str, Any]]:
    steps = []
    now = first
    for cause, what, fields in _STEPS:
        then = replace(now, **{name: getattr(second, name) for name in fields})
        size_now, size_then = (now.pool, then.pool) if both else (now.budget, then.budget)
        steps.append(
            {
                "cause": cause,
                "what": what,
                "from": _shown(first, fields),
                "to": _shown(second, fields),
                "gib": size_then - size_now,
                "tokens": round(then.tokens) - round(now.tokens) if both else None,
            }
        )
        now = then
    return steps


def _weights(sizing: Sizing, between: float) -> float:
    """What the weights took as their own line has it, as everywhere in a report; else what two readings leave between.

    Two readings of two decimals leave the last digit of their difference open.
    """
    close = [u for rank in sizing.inputs.ranks if (u := rank.usage) is not None and abs(u - between) <= _PRINT]
    return min(close, key=lambda usage: abs(usage - between), default=between)


def _name_formats(steps: list[dict[str, Any]], one: Sizing, two: Sizing) -> None:
    """Say beside the bytes of a token which formats of the KV cache they come from."""
    formats = _formats(one, two)
    for step in steps:
        if step["cause"] == "cell" and formats is not None:
            step["what"] = f"{step['what']}, KV cache {formats}"


def _formats(one: Sizing, two: Sizing) -> str | None:
    """The formats of the two KV caches; None where they are the same or one is not known."""
    before, after = one.inputs.kv_dtype, two.inputs.kv_dtype
    if not before or not after or before == after:
        return None
    return f"{before.removeprefix('torch.')} → {after.removeprefix('torch.')}"


def _shown(terms: _Terms, fields: tuple[str, ...]) -> float | int | None:
    value = getattr(terms, fields[0])
    if fields[0] == "share":
        return round((terms.share - 1) * terms.cell) or terms.added
    if fields[0] in ("opening", "usage", "states", "fraction"):
        return round(float(value), 4)
    return None if value is None else round(value)


def _cause(steps: list[dict[str, Any]]) -> str | None:
    """The step that moved most, tokens before GiB; None when none moved more than printed digits do."""
    notable = [step for step in steps if _moves(step)]
    return str(max(notable, key=_weight)["cause"]) if notable else None


def _weight(step: dict[str, Any]) -> tuple[float, float]:
    return abs(step["tokens"] or 0), abs(step["gib"])


def _moves(step: dict[str, Any]) -> bool:
    """Whether a step moves more than the printed digits leave open."""
    if abs(step["gib"]) >= 2 * _SMALL:
        return True
    return step["cause"] in ("cell", "draft", "cap") and bool(step["tokens"])


def _summary(
    one: Sizing,
    two: Sizing,
    steps: list[dict[str, Any]],
    moved: float | None,
    counted: int | None,
    why: str | None,
) -> str:
    if moved is None:
        return f"The pools cannot be compared step by step: {why}."
    notable = sorted((step for step in steps if _moves(step)), key=_weight, reverse=True)
    what = "pool" if one.inputs.tokens and two.inputs.tokens else "budget"
    head = f"The {what} moves by {_gib(moved)}"
    if counted is not None:
        head += f" and {counted:+,} tokens".replace("-", "−")
    if not notable:
        return f"{head}: nothing that sets its size differs beyond the printed digits."
    parts = []
    for step in notable:
        values = "" if step["from"] == step["to"] else f" ({_number(step['from'])} → {_number(step['to'])})"
        by = _gib(step["gib"]) if abs(step["gib"]) >= _SMALL else f"{step['tokens']:+,} tokens".replace("-", "−")
        formats = _formats(one, two) if step["cause"] == "cell" else None
        parts.append(f"{_NAMES[step['cause']]}{values}{f', KV cache {formats},' if formats else ''} {by}")
    tail = ""
    for side, name in ((one, "first"), (two, "second")):
        if side.budget is not None and side.budget.kv.value <= 0:
            tail += f" The {name} cannot start: its fraction must be above {side.budget.smallest_fraction:.4f}."
    return f"{head}: {', '.join(parts)}.{tail}"


_NAMES = {
    "opening": "free memory before loading",
    "weights": "weights",
    "fraction": "the fraction",
    "states": "request states",
    "cell": "bytes per token",
    "draft": "the draft's share",
    "cap": "--max-total-tokens",
    "rest": "the rest",
}


def _gib(value: float) -> str:
    return f"{value:+.2f} GiB".replace("-", "−")


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:,.10g}"


def _free(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any] | None:
    """Free memory at the end, by the ledgers of the rank with least: what each pool took more or less."""
    one, two = _tightest(a), _tightest(b)
    if one is None or two is None:
        return None
    taken = [_taken(rank) for rank in (one, two)]
    steps = [
        {
            "cause": "opening",
            "model": None,
            "from": one["opening_gib"],
            "to": two["opening_gib"],
            "gib": two["opening_gib"] - one["opening_gib"],
        }
    ]
    for key in sorted(set(taken[0]) | set(taken[1])):
        before, after = taken[0].get(key, 0.0), taken[1].get(key, 0.0)
        steps.append({"cause": key[0], "model": key[1], "from": before, "to": after, "gib": before - after})
    difference = two["free_gib"] - one["free_gib"]
    steps.append(
        {"cause": "rest", "model": None, "from": None, "to": None, "gib": difference - sum(s["gib"] for s in steps)}
    )
    return {
        "ranks": {"from": one.get("id"), "to": two.get("id")},
        "gib": {"from": one["free_gib"], "to": two["free_gib"], "difference": difference},
        "steps": steps,
    }


def _tightest(launch: Mapping[str, Any]) -> Mapping[str, Any] | None:
    ranks = [
        rank
        for rank in launch.get("ranks") or ()
        if rank.get("free_gib") is not None and rank.get("opening_gib") is not None
    ]
    return min(ranks, key=lambda rank: float(rank["free_gib"])) if ranks else None


def _taken(rank: Mapping[str, Any]) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for entry in rank.get("entries") or ():
        if entry.get("gib") is not None:
            key = (str(entry.get("pool")), str(entry.get("model")))
            found[key] = found.get(key, 0.0) + entry["gib"]
    return found


def _arguments(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Arguments that differ between the two; one a side does not show is no difference."""
    one, two = a.get("arguments") or {}, b.get("arguments") or {}
    found = []
    for name in sorted(set(one) & set(two)):
        before, after = (
            side[name].get("value") if isinstance(side[name], Mapping) else side[name] for side in (one, two)
        )
        if before != after:
            found.append({"name": name, "from": before, "to": after})
    return found
