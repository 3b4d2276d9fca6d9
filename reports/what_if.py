"""A what-if scenario of a launch: the engine's answer, its verdict, and its drawing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from reports import charts, words
from reports.budget import Budget, Card, Share, budget_of
from reports.document import Launch, dig


def answer(launch: Launch, asked: Mapping[str, str], budget: Budget | None = None) -> tuple[dict[str, Any], int]:
    """The scenario as JSON and its status: 200, or 400 with a sentence for a value that cannot be meant.

    budget  the launch's, where it is known already
    """
    from kvdiag.diagnosis.ledger.what_if import Change, scenario

    settings = {name: asked[name] for name in asked if name != "launch"}
    try:
        change = Change.read(settings)
    except ValueError as problem:
        return {"error": f"{str(problem)[:1].upper()}{str(problem)[1:]}."}, 400
    found = scenario(launch, change).to_document()
    return found | {"verdict": verdict_of(found), "figure": figure_of(launch, found, budget)}, 200


def verdict_of(found: dict[str, Any]) -> dict[str, str]:
    """Whether the scenario starts and how much stays free: a tone and a sentence."""
    free, wanted = dig(found, "free_gib", "after"), found.get("wanted_free_gib")
    needed = found.get("needed_free_gib") or wanted
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


def figure_of(launch: Launch, found: dict[str, Any], budget: Budget | None = None) -> charts.Figure | None:
    """The observed card above, the scenario's below, on one scale; None where the log has no card to show.

    budget  the launch's, where it is known already
    """
    budget = budget or budget_of(launch)
    card = budget.main
    if card is None:
        return None
    fraction = dig(found, "fraction", "after")
    opening = dig(found, "opening_gib", "after")
    opening = card.opening if opening is None else opening
    boundary = fraction * opening if fraction is not None else None
    after = (
        None
        if found.get("refused")
        else changed_card(card, dig(found, "kv_gib", "after"), dig(found, "free_gib", "after"), opening)
    )
    return charts.scenario(card, after, (budget.boundary, boundary), (budget.fraction, fraction))


def changed_card(card: Card, kv_gib: float | None, free_gib: float | None, opening: float) -> Card | None:
    """The card with another pool and another rest. What else moved is the draft's pool, or else the workspaces'.

    opening  free before the weights, which is another where the card is
    """
    if kv_gib is None or free_gib is None or free_gib < 0:
        return None
    sizes = {share.pool: share.gib for share in card.shares} | {"kv": kv_gib, "free": free_gib}
    moved = opening - sum(sizes.values())
    elastic = next((pool for pool in ("draft", "graphs", "work") if pool in sizes), "work")
    sizes[elastic] = max(0.0, sizes.get(elastic, 0.0) + moved)
    by_pool = {share.pool: share for share in card.shares}
    shares = tuple(
        replace(by_pool[pool], gib=gib, parts=(), lines=(), basis="derived")
        if pool in by_pool
        else Share(pool, pool, gib, "derived", ())
        for pool, gib in sizes.items()
    )
    return replace(card, opening=opening, shares=shares, free=free_gib)
