"""Key numbers: five at most, each with its basis, its lines and its change against the launch before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reports import words
from reports.budget import Budget
from reports.document import Launch, LineRef, dig, line_refs, listed
from reports.fractions import least_that_starts


@dataclass(frozen=True, slots=True)
class Key:
    """One figure of the row. An empty figure is told in words by `none`."""

    name: str
    figure: str
    unit: str = ""
    basis: str | None = None
    lines: tuple[LineRef, ...] = ()
    note: str = ""
    delta: str = ""
    tone: str = ""
    gib: float | None = None


def _first_rank(launch: Launch) -> dict[str, Any]:
    """The rank with the fewest KV tokens: it sets what the launch can hold."""
    ranks = listed(launch, "ranks")
    with_pool = [rank for rank in ranks if rank.get("kv_tokens") is not None]
    return min(with_pool, key=lambda rank: rank["kv_tokens"]) if with_pool else (ranks[0] if ranks else {})


def _entry_lines(rank: dict[str, Any], pool: str, model: str = "target") -> tuple[str | None, tuple[LineRef, ...]]:
    for entry in listed(rank, "entries"):
        if entry.get("pool") == pool and entry.get("model", "target") == model:
            return entry.get("basis"), tuple(line_refs(entry.get("lines")))
    return None, ()


def _change(now: Any, before: Any, spell: Any, *, more_is_better: bool | None = True) -> tuple[str, str]:
    if not isinstance(now, (int, float)) or not isinstance(before, (int, float)) or now == before:
        return "", ""
    tone = "" if more_is_better is None else "good" if (now > before) == more_is_better else "bad"
    sign = "+" if now > before else "−"
    return f"{sign}{spell(abs(now - before))} on the launch before", tone


def key_numbers(launch: Launch, budget: Budget, before: Launch | None) -> list[Key]:
    """The figures an operator looks for first; a start that failed shows what it failed on."""
    rank, earlier = _first_rank(launch), _first_rank(before or {})
    tokens = dig(launch, "kv_cache", "tokens")
    if tokens is None:
        tokens = rank.get("kv_tokens")
    pool_made = tokens is not None or rank.get("kv_gib") is not None
    keys = [] if pool_made else _refusal(launch, rank, budget)
    basis, lines = _entry_lines(rank, "kv_cache")
    if tokens is not None:
        earlier_tokens = dig(before or {}, "kv_cache", "tokens")
        delta, tone = _change(tokens, earlier_tokens, words.tokens)
        limited = words.LIMITED_BY.get(str(dig(launch, "kv_cache", "limited_by")), "")
        counted = lines or tuple(line_refs(dig(launch, "limits", "line")))
        keys.append(Key("KV cache tokens", words.tokens(tokens), "", basis or "printed", counted, limited, delta, tone))
    elif listed(launch, "ranks"):
        budget_gib = dig(launch, "kv_cache", "budget", "kv_gib")
        note = f"the budget is {words.gib(budget_gib)} GiB" if budget_gib is not None else ""
        # A log that breaks off does not tell that there is none.
        figure, why = (
            ("none", "no pool was made") if launch.get("outcome") == "failed" else ("unknown", "not in the log")
        )
        keys.append(Key("KV cache tokens", figure, "", None, (), note or why))
    kv_gib = rank.get("kv_gib") if rank.get("kv_gib") is not None else dig(launch, "kv_cache", "gib_per_rank")
    if kv_gib is not None:
        per_token = dig(launch, "kv_cache", "bytes_per_token")
        note = f"{words.tokens(per_token)} bytes a token" if per_token else ""
        delta, tone = _change(kv_gib, earlier.get("kv_gib"), words.gib)
        keys.append(
            Key("KV cache per GPU", words.gib(kv_gib), "GiB", basis or "printed", lines, note, delta, tone, kv_gib)
        )
    if pool_made or not keys:
        keys += _free(launch, budget, before)
    keys += _requests(launch, tokens)
    keys += _start_up(launch, before)
    return keys[:5]


def _refusal(launch: Launch, rank: dict[str, Any], budget: Budget) -> list[Key]:
    keys = []
    weights = budget.main.of("weights") if budget.main else None
    basis, lines = _entry_lines(rank, "weights")
    if weights is not None:
        keys.append(Key("Weights per GPU", words.gib(weights), "GiB", basis, lines, gib=weights))
    if budget.boundary is not None and budget.fraction is not None:
        name = f"Allowed at {words.fraction(budget.fraction)}"
        keys.append(Key(name, words.gib(budget.boundary), "GiB", "derived", budget.boundary_lines, gib=budget.boundary))
    least = least_that_starts(launch)
    if least is not None:
        refs = tuple(line_refs(dig(launch, "kv_cache", "budget", "lines")))
        keys.append(
            Key("Least fraction", words.fraction(least), "", "derived", refs or (*budget.boundary_lines, *lines))
        )
    return keys


def _free(launch: Launch, budget: Budget, before: Launch | None) -> list[Key]:
    ranks = [rank for rank in listed(launch, "ranks") if rank.get("free_gib") is not None]
    if not ranks:
        return []
    least = min(ranks, key=lambda rank: rank["free_gib"])
    free = least["free_gib"]
    at = [reading.get("line") for reading in listed(least, "readings") if reading.get("available_gib") == free]
    earlier = min(
        (rank["free_gib"] for rank in listed(before or {}, "ranks") if rank.get("free_gib") is not None), default=None
    )
    delta, tone = _change(free, earlier, words.gib, more_is_better=None)
    name = "Free when ready" if launch.get("outcome") == "ready" else "Free at the last reading"
    note = f"least of {len(ranks)} ranks" if len(ranks) > 1 and budget.spread > 0.015 else ""
    return [Key(name, words.gib(free), "GiB", "printed", tuple(line_refs(at[-1:])), note, delta, tone, free)]


def _requests(launch: Launch, tokens: Any) -> list[Key]:
    context = dig(launch, "limits", "context_len")
    if not isinstance(tokens, int) or not isinstance(context, int) or context <= 0:
        return []
    slots = dig(launch, "limits", "max_running_requests")
    note = f"{words.tokens(slots)} may run at once" if slots else ""
    held = tokens / context
    figure = f"{held:,.1f}" if held >= 0.1 else f"{held:.2f}"
    refs = tuple(line_refs(dig(launch, "limits", "line")))
    return [Key(f"Requests of {words.tokens(context)} tokens", figure, "fit", "derived", refs, note)]


def _start_up(launch: Launch, before: Launch | None) -> list[Key]:
    seconds = launch.get("ready_after_s")
    if seconds is None:
        return []
    delta, tone = _change(seconds, (before or {}).get("ready_after_s"), words.duration, more_is_better=False)
    minutes, rest = divmod(round(seconds), 60)
    figure, unit = (f"{minutes}:{rest:02d}", "min") if seconds >= 60 else (f"{seconds:.1f}", "s")
    refs = tuple(line_refs(dig(launch, "ready_lines"))) or tuple(line_refs(launch.get("first_line")))
    return [Key("Start-up", figure, unit, "derived", refs, "", delta, tone)]
