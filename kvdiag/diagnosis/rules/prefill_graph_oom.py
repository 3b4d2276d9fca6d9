"""The device overflows while prefill graphs are captured.

What it sees
    A capture of prefill sizes ("Capturing num tokens", "prefill CUDA graph begin", piecewise) at work, and an overflow
    before it ends.
Why it matters
    The server does not start. Prefill graphs take memory outside the static budget, and the pool left too little.
What to do
    Lower the fraction, capture fewer sizes, or do without prefill graphs. --cuda-graph-max-bs is for decode.
Sources
    SGLang, piecewise_cuda_graph_runner.py (0.5.3 to 0.5.13) and its successors.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import lower_fraction, prefill_graph_knobs, remedies
from kvdiag.diagnosis.rules.rule import Case, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import format_gib, to_gib


@rule(severity=Severity.CRITICAL, releases="0.5.3..")
def check(case: Case) -> Iterator[Finding]:
    found = judgements.capture_overflow(case)
    if found is None or not found.prefill:
        return
    size = "" if found.size is None else f" at {found.size:,} tokens"
    tried, free = getattr(found.sign, "tried", None), getattr(found.sign, "free", None)
    free = found.free if free is None else free
    left = "" if free is None else f" with {format_gib(free)} free"
    need = judgements.missing(case, free, tried)
    yield Finding(
        summary=f"The device overflows while prefill graphs are captured{size}{left}",
        why="They lie outside the static budget. --cuda-graph-max-bs bounds decode graphs and does not help here.",
        ranks=(found.sign.rank,),
        evidence=cite(found.bar, found.sign, case.after_pool, figure="available_gib", value=to_gib(free, 4)),
        remedies=remedies(lower_fraction(case, need), *prefill_graph_knobs(case)),
        stake=to_gib(need) or 0.0,
    )
