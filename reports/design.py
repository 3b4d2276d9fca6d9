"""The design system's own page: what it shows is drawn by the same parts as every other page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reports import charts
from reports.budget import Budget, Card, Share
from reports.pools import POOLS
from reports.rank_strip import strip_of
from reports.ruler import Mark, Ruler, Scale, Zone
from reports.templatetags.icons import ICONS

_SIZES = {
    "weights": 18.0,
    "kv": 9.0,
    "state": 3.5,
    "draft": 2.4,
    "graphs": 2.0,
    "work": 1.4,
    "unexplained": 0.7,
    "free": 5.0,
}

TYPE = (
    ("--t-figure", "26 px", "159,277"),
    ("--t-title", "22 px", "Page title, verdict"),
    ("--t-lead", "16 px", "Section head"),
    ("--t-body", "14 px", "Text"),
    ("--t-small", "12 px", "Evidence, meta, tables, buttons"),
    ("--t-micro", "11 px", "Basis, line links, column heads, keys"),
)


def design_context() -> dict[str, Any]:
    """Invented figures that add up, so that every pool is seen once."""
    opening = sum(_SIZES.values())
    shares = tuple(Share(pool, name, _SIZES[pool], "printed", ()) for pool, name in POOLS.items())
    card = Card(("TP0",), opening, None, shares, _SIZES["free"])
    budget = Budget(cards=(card,), every=(card,), boundary=30.5, fraction=30.5 / opening, reserve=opening - 30.5)
    ruler = Ruler(
        zones=(Zone("bad", 0, 20), Zone("thin", 70, 30), Zone("ok", 20, 50)),
        ticks=(Scale(0, "0.70", "start"), Scale(50, "0.85", "middle"), Scale(100, "1.00", "end")),
        marks=(
            Mark("to", 62, 50.9, "0.886 advised"),
            Mark("now", 40, 63.0, "now 0.82", words_left=True),
        ),
        wedge=(20, 80),
        arrow=(40, 62),
        low_words="cannot start below 0.76",
        high_words="",
        thin_words="less than 5 GiB free above 0.91",
        caption="the wedge is the KV cache",
        spoken="An invented ruler: now 0.82, advised 0.886, raise.",
        lines=(),
    )
    return {"pools": list(POOLS.items()), "icons": list(ICONS), "type": TYPE, "ruler": ruler,
            "figure": charts.memory_budget(budget), "strip": strip_of(_many(card, budget))}  # fmt: skip


def _many(card: Card, budget: Budget) -> Budget:
    """48 ranks, two of which have less free memory."""
    less = replace(card.shares[-1], gib=card.shares[-1].gib - 2), replace(card.shares[-2], gib=card.shares[-2].gib + 2)
    odd = replace(card, shares=(*card.shares[:-2], less[1], less[0]), free=less[0].gib)
    every = tuple(replace(odd if number in (13, 30) else card, ranks=(f"TP{number}",)) for number in range(48))
    alike = tuple(each.ranks[0] for each in every if each.free == card.free)
    apart = tuple(each.ranks[0] for each in every if each.free != card.free)
    return replace(budget, cards=(replace(card, ranks=alike), replace(odd, ranks=apart)), every=every)
