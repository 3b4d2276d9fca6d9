"""Graphs take 3 GiB or more in all.

What it sees
    "mem usage" at the end of the captures of a rank, summed over decode, prefill and draft graphs.
Why it matters
    They come out of what the fraction leaves, and compete with prefill for it.
What to do
    Fewer or smaller sizes of the kind that takes most; a shorter context.
Sources
    SGLang, cuda_graph_runner.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.cuda_graph import GraphEnd
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import prefill_graph_knobs, smaller_graphs
from kvdiag.diagnosis.rules.rule import Case, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import format_gib, to_gib


@rule(severity=Severity.ADVICE, needs=(GraphEnd,))
def check(case: Case) -> Iterator[Finding]:
    by_rank: dict[str, list[GraphEnd]] = {}
    for end in case.launch.each(GraphEnd):
        if end.used is not None:
            by_rank.setdefault(end.rank, []).append(end)
    if not by_rank:
        return
    rank = max(by_rank, key=lambda r: sum(e.used or 0 for e in by_rank[r]))
    ends = by_rank[rank]
    total = sum(e.used or 0 for e in ends)
    if total < case.thresholds.graphs_large:
        return
    prefill = sum(e.used or 0 for e in ends if judgements.is_prefill_graph(e.kind))
    named = case.thresholds.graphs_share_named
    offers: list[Remedy] = []
    if total - prefill >= named:
        offers.append(smaller_graphs(case))
    if prefill >= named:
        offers += prefill_graph_knobs(case)
    free = case.free_at_end
    tight = free is not None and free.available < case.wanted_range[0]
    yield Finding(
        summary=f"Graphs take {format_gib(total)}"
        + (f", {format_gib(prefill)} of it for prefill" if prefill >= named else ""),
        why="They come out of what --mem-fraction-static leaves.",
        ranks=tuple(r for r in by_rank if sum(e.used or 0 for e in by_rank[r]) >= case.thresholds.graphs_large),
        evidence=cite(*ends[:4], figure="cuda_graphs gib", value=to_gib(total, 4)),
        remedies=tuple(offers),
        severity=Severity.ADVICE if tight or free is None else Severity.INFO,
        stake=to_gib(total) or 0.0,
    )
