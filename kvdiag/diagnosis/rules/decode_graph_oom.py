"""The device overflows while decode graphs are captured.

What it sees
    An overflow between the start of a decode capture and its end.
Why it matters
    The server does not start. Graphs take memory outside the static budget, and the pool left too little for them.
What to do
    Lower the fraction, or capture smaller batches. The opposite advice, to raise the fraction, is for a refusal before
    the pool.
Sources
    SGLang, cuda_graph_runner.py: capture().
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.cuda_graph import GraphBegin, GraphEnd
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import lower_fraction, remedies, smaller_graphs
from kvdiag.diagnosis.rules.rule import Case, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import Bytes, format_apart, to_gib


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    found = judgements.capture_overflow(case)
    if found is None or found.prefill or judgements.site(case, found.sign) == "dispatch_buffer":
        return
    if judgements.is_draft_start(case, found.sign) and judgements.stage(case, found.sign) != "cuda_graph":
        return
    tried, free = getattr(found.sign, "tried", None), getattr(found.sign, "free", None)
    left = found.free if free is None else free
    if free is None and left is not None and tried is not None and left >= tried:
        left = None  # it was read before the capture took its part
    need = judgements.missing(case, left, tried)
    wanted, there = format_apart(tried or Bytes(0), left or Bytes(0))
    asked = "" if tried is None else f": {wanted} were asked for"
    beside = "" if left is None else f" with {there} free"
    begun = judgements.last_before(case, found.sign.line, GraphBegin, GraphEnd)
    of_draft = isinstance(begun, GraphBegin) and (begun.kind or "").startswith("draft")
    whose = "graphs of the draft model" if of_draft else "decode graphs"
    yield Finding(
        summary=f"The device overflows while {whose} are captured{asked}{beside}",
        why="Graphs lie outside the static budget: what the pool leaves must hold them.",
        ranks=judgements.ranks_of(judgements.overflows(case)[:64]) or (found.sign.rank,),
        evidence=cite(found.bar, found.sign, case.after_pool, figure="tried_gib", value=to_gib(tried, 4)),
        remedies=remedies(
            lower_fraction(case, need),
            smaller_graphs(case),
        ),
        stake=to_gib(need) or 0.0,
    )
