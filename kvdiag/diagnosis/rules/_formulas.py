"""Formulas with this launch's figures in them, so that a reader can check them by hand. Sizes in GiB."""

from __future__ import annotations

from kvdiag.diagnosis.ledger.sizing.inputs import SMALL_CARD_SHARE
from kvdiag.diagnosis.rules.judgements import reserve, unified_device
from kvdiag.diagnosis.rules.rule import Case
from kvdiag.diagnosis.units import GIB, Bytes


def gib(size: float) -> str:
    """A size in GiB with two decimals and no unit, as a term of a formula."""
    return f"{size / GIB:.2f}".replace("-", "−")


def worked(symbols: str, figures: str) -> str:
    """A formula in words, and with the figures in it; "" where the log lacks one: nobody can check words alone."""
    return f"{symbols}: {figures}" if figures else ""


def wanted_by_size(case: Case) -> str:
    """What is wanted free where the card's size is not known: "2.00 to 5.00 GiB are wanted by the card's size"."""
    least, most = (gib(size) for size in case.wanted_range)
    return f"{most if least == most else f'{least} to {most}'} GiB are wanted by the card's size"


def host_shares(case: Case) -> str:
    """Why more is wanted free than a launch needs: "the host lives in the same memory"."""
    if unified_device(case) is not None:
        return "the host lives in the same memory"
    return "no line names the card, and as much is free on one whose memory the host shares (GB10, Thor)"


def wanted(case: Case) -> str:
    """Where the wanted free memory comes from."""
    most, limits = case.wanted_range[1], case.thresholds
    full, card, least = gib(limits.free_wanted), limits.free_wanted_card, gib(limits.free_wanted_least)
    if case.card is None and gib(case.wanted_range[0]) == gib(most):
        return f"wanted = {full} on cards from {gib(card)}; the log does not print the card's size"
    if case.card is None:
        return f"wanted = {gib(case.wanted_range[0])} to {gib(most)} by the card's size, which the log does not print"
    if most > case.wanted_range[0]:
        return f"wanted = {limits.free_wanted_shared:g} × {gib(case.card)}, as {host_shares(case)}"
    if case.card >= card:
        return f"wanted = {full} on cards from {gib(card)}"
    if most < limits.free_wanted_least:
        return f"wanted = {SMALL_CARD_SHARE:g} × {gib(case.card)}, as the card is small"
    if most <= limits.free_wanted_least:
        return f"wanted = {least}, the least on any card"
    return f"wanted = {full} × {gib(case.card)} / {gib(card)}"


def beyond_reserve(case: Case, free: Bytes | None, name: str = "free after the pool") -> str:
    """What is free beyond what the fraction leaves outside the budget: name − opening × (1 − fraction)."""
    symbols = f"{name} − opening × (1 − mem_fraction_static)"
    kept = reserve(case)
    if free is None or kept is None or case.opening_size is None or case.fraction is None:
        return worked(symbols, "")
    outside = f"{gib(case.opening_size)} × (1 − {case.fraction:g})"
    return worked(symbols, f"{gib(free)} − {outside} = {gib(free - kept)}")


def least_fraction(case: Case) -> str:
    """The fraction below which no pool is left."""
    after, opening = case.after_weights, case.opening_size
    known = after is not None and bool(opening)
    figures = (
        f"1 − {gib(after.available)} / {gib(opening)} = {1 - after.available / opening:.4f}"
        if known and after is not None and opening
        else ""
    )
    return worked("minimum fraction = 1 − after_weights / opening", figures)
