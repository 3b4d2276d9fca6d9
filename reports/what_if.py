"""A what-if scenario of a launch: the engine's answer, its verdict, and its drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from reports import charts, words
from reports.budget import Budget, Card, Part, Share, budget_of
from reports.document import Launch, dig, listed
from reports.pools import POOLS, entry_name, pool_of

_WITHOUT = {"no": "does not start", "no fraction": "no fraction does it"}  # in place of a bar


def answer(launch: Launch, asked: Mapping[str, str], budget: Budget | None = None) -> tuple[dict[str, Any], int]:
    """The scenario as JSON and its status: 200, or 400 with a sentence for a value that cannot be meant.

    budget  the launch's, where it is known already
    """
    from kvdiag.diagnosis.ledger.what_if import Change, scenario

    settings = {name: asked[name] for name in asked if name != "launch"}
    try:
        change = Change.read(settings)
        change.check_length(dig(launch, "limits", "context_len") or dig(launch, "arguments", "context_length", "value"))
    except ValueError as problem:
        return {"error": words.sentence(problem)}, 400
    found = scenario(launch, change).to_document()
    return found | {"verdict": verdict_of(found), "figure": figure_of(launch, found, budget)}, 200


def verdict_of(found: dict[str, Any]) -> dict[str, str]:
    """Whether the scenario starts, how much stays free, and whether a request fits: a tone and a sentence."""
    started, nobody = _start(found), _fits_nobody(found)
    if found.get("refused") or started["tone"] == "critical" or not nobody:
        return started
    if started["tone"] == "good":
        return {"tone": "warning", "text": f"{started['text'].rstrip('.')}, but {nobody}"}
    return {"tone": "warning", "text": f"{started['text']} {words.sentence(nobody)}"}


def _start(found: dict[str, Any]) -> dict[str, str]:
    """Whether the scenario starts and how much stays free."""
    free, wanted = dig(found, "free_gib", "after"), found.get("wanted_free_gib")
    needed = found.get("needed_free_gib") or wanted
    fraction, least = dig(found, "fraction", "after"), found.get("starts_from")
    if found.get("refused"):
        tone = "critical" if found.get("starts") in _WITHOUT else "warning"
        return {"tone": tone, "text": words.sentence(found["refused"])}
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
    if free is not None and needed is not None and free < needed / 2:
        return {
            "tone": "warning",
            "text": f"Starts, but leaves less than half of the {words.gib(needed, 1)} GiB wanted for prefill.",
        }
    if free is not None and needed is not None and free < needed:
        return {"tone": "warning", "text": f"Starts; less than the wanted {words.gib(needed, 1)} GiB stays free."}
    if free is not None and wanted is not None and free < wanted:
        shared = f"{words.gib(wanted, 1)} GiB wanted where host and GPU share one memory"
        before = dig(found, "free_gib", "before")
        if before is not None and free >= before:  # what a launch has is not too little on the host's account
            own = words.gib(needed or 0.0, 1)
            return {"tone": "info", "text": f"Starts, and leaves the {own} GiB a launch needs; less than the {shared}."}
        return {"tone": "warning", "text": f"Starts; leaves less than the {shared}."}
    if free is None:
        return {"tone": "info", "text": "Starts as far as the log tells; it does not say what stays free."}
    return {"tone": "good", "text": "Starts, and leaves enough free."}


def _fits_nobody(found: dict[str, Any]) -> str:
    """That the pool holds not one request of the length asked for; "" where it does, or may."""
    length, tokens = found.get("request_tokens"), dig(found, "tokens", "after")
    is_least = dig(found, "tokens", "bound") == "at least"  # then the highest tells, where it is known
    most = dig(found, "tokens", "high") if is_least else tokens
    if not length or not tokens or most is None or most >= length:
        return ""
    held, each = words.tokens(tokens), words.tokens(length)
    return f"not one request of {each} tokens fits: the pool holds {held}."


def figure_of(launch: Launch, found: dict[str, Any], budget: Budget | None = None) -> charts.Figure | None:
    """The observed card above, the scenario's below, on one scale; None where the log has no card to show.

    budget  the launch's, where it is known already
    """
    budget = budget or budget_of(launch)
    free = dig(found, "free_gib", "after")
    card = _least_free(budget) if free is not None else budget.main
    if card is None:
        return None
    room = (dig(found, "opening_gib", "after") or 0.0) - (dig(found, "opening_gib", "before") or 0.0)
    moves = listed(found, "moves")
    if free is None and card.of("kv") is None:  # the log ends before the pool: all of it is more
        pool = {"pool": "kv_cache", "model": "target", "gib": dig(found, "kv_gib", "after") or 0.0}
        moves = [pool, *(move for move in moves if pool_of(move) != "kv")]
    after = None if found.get("refused") else changed_card(card, moves, room, knows_end=free is not None)
    boundaries = (budget.boundary, dig(found, "boundary_gib", "after"))
    fractions = (budget.fraction, dig(found, "fraction", "after"))
    return charts.scenario(card, after, boundaries, fractions, without=_WITHOUT.get(found["starts"], "not known"))


def _least_free(budget: Budget) -> Card | None:
    """The card that the figures are of: the one with least free at the end."""
    frees = [card for card in budget.every if card.free is not None]
    least = min(frees, key=lambda card: card.free or 0.0, default=None)
    main = budget.main
    return main if least is None or (main is not None and main.free == least.free) else least


def changed_card(card: Card, moves: Sequence[dict[str, Any]], room: float, *, knows_end: bool) -> Card:
    """The card with what each pool takes more; what is left of it is free.

    room       what another card has more
    knows_end  whether the log reaches the end of the start: else nobody knows how much of the rest stays free
    """
    shares = {share.pool: share for share in card.shares if share.pool != "free"}
    for move in moves:
        pool = pool_of(move)
        shares[pool] = _moved(shares.get(pool), pool, move)
    opening = card.opening + room
    free = opening - sum(share.gib for share in shares.values())
    rest = "Free when ready" if knows_end else "Left for the rest of the start"
    placed = [shares[pool] for pool in POOLS if pool in shares]
    return replace(card, opening=opening, shares=(*placed, Share("free", rest, free, "derived", ())), free=free)


def _moved(share: Share | None, pool: str, move: dict[str, Any]) -> Share:
    """A pool with more or less of one entry, which keeps a name of its own beside the pool's others."""
    name, gib = entry_name(move), float(move["gib"])
    if share is None:
        return Share(pool, name if pool == "work" else POOLS[pool], gib, "derived", ())
    parts = share.parts or (Part(share.name, share.gib, share.basis, ()),)
    known = [part.name for part in parts]
    if name in known:
        place = known.index(name)
        parts = (*parts[:place], replace(parts[place], gib=parts[place].gib + gib), *parts[place + 1 :])
    else:
        parts = (*parts, Part(name, gib, "derived", ()))
    title = share.name if len(parts) == 1 else POOLS[pool]
    return replace(share, name=title, gib=share.gib + gib, parts=parts, lines=(), basis="derived")
