"""Capture failed for another reason than memory; SGLang's hints list memory flags all the same.

What it sees
    "Capture cuda graph failed:" followed by an assertion or another error with no word of an overflow, and 1 GiB or
    more free at that moment, or no figure that says otherwise.
Why it matters
    The printed "Possible solutions" (a smaller --mem-fraction-static, a smaller --cuda-graph-max-bs, graphs off) do
    not touch the cause.
What to do
    Read the first line of the cause. Where it fell in graphs of prefill sizes, these can be switched off alone.
Sources
    SGLang, cuda_graph_runner.py: the hints are printed for every exception.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import shorten

from kvdiag.diagnosis.rules._pricing import prefill_graph_knobs, remedies
from kvdiag.diagnosis.rules.judgements import capture_errors, capture_reason, free_at
from kvdiag.diagnosis.rules.rule import Case, Confidence, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import format_gib, to_gib


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    failed = capture_errors(case)
    if not failed:
        return
    free = free_at(case, failed[0].line)
    left = "" if free is None else f" with {format_gib(free)} free"
    reason = shorten(capture_reason(case, failed[0]), 200, placeholder=" …")
    piecewise = "Piecewise CUDA Graph failed" in failed[0].line.text
    why = (
        "SGLang prints its memory hints (--mem-fraction-static, --cuda-graph-max-bs, --disable-cuda-graph) for every"
        " exception; here they do not touch the cause."
    )
    yield Finding(
        summary=f"Graph capture failed{left}, and not for want of memory: {reason}",
        why="These releases call graphs of prefill sizes experimental." if piecewise else why,
        ranks=tuple(dict.fromkeys(e.rank for e in failed)),
        evidence=cite(*failed[:2], figure="available_gib", value=to_gib(free, 4)),
        remedies=remedies(*prefill_graph_knobs(case)[1:]) if failed[0].is_prefill else (),
        confidence=Confidence.LIKELY if free is None else Confidence.CERTAIN,
    )
