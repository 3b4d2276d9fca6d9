"""Memory set aside for prefill graphs makes the pool smaller.

What it sees
    Two starts of the upload with the same model, one with prefill graphs and one without, and pools that differ by
    more than a GiB.
Why it matters
    The automatic fraction leaves room for the graphs: the pool shrinks by several GiB.
What to do
    Fewer or smaller prefill sizes, or none. The sizes of decode graphs are another flag.
Sources
    SGLang, server_args.py: _handle_gpu_memory_settings() (0.5.5 and later).
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import cell, prefill_graph_knobs
from kvdiag.diagnosis.rules.judgements import prefill_captures
from kvdiag.diagnosis.rules.rule import Case, Confidence, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import format_gib


@rule(severity=Severity.INFO, unless=(judgements.without_earlier_start,))
def check(case: Case) -> Iterator[Finding]:
    for before in reversed(case.earlier):
        if before.launch.value("model_path") != case.launch.value("model_path"):
            continue
        graphed, plain = (case, before) if prefill_captures(case) else (before, case)
        if not prefill_captures(graphed) or prefill_captures(plain):
            continue
        size = cell(graphed) or cell(plain)
        if size is None or graphed.tokens is None or plain.tokens is None:
            return
        lost = (plain.tokens - graphed.tokens) * size.target
        if lost < case.thresholds.prefill_graph_share:
            return
        yield Finding(
            summary=f"With prefill graphs the pool is {format_gib(round(lost))} smaller: {graphed.tokens:,}"
            " tokens against"
            f" {plain.tokens:,}",
            evidence=cite(graphed.limits, plain.limits, *prefill_captures(graphed)[:1]),
            remedies=prefill_graph_knobs(graphed),
            confidence=Confidence.LIKELY,
        )
        return
