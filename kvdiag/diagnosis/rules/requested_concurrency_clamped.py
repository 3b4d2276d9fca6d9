"""The engine lowered the concurrency that was asked for.

What it sees
    "max_running_requests was reduced from the requested A to B".
Why it matters
    More requests than B wait in the queue, whatever the command says.
What to do
    Look at the pool that clamps it: tokens, or state slots of a hybrid model.
Sources
    SGLang, model_runner.py (0.5.14 and later).
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.kv_pool import MambaPool, RequestsCapped
from kvdiag.diagnosis.rules.judgements import ranks_of
from kvdiag.diagnosis.rules.rule import Case, Finding, Severity, cite, rule


@rule(severity=Severity.ADVICE, releases="0.5.14..")
def check(case: Case) -> Iterator[Finding]:
    found = [e for e in case.launch.each(RequestsCapped) if e.wanted is not None and e.granted is not None]
    found = [e for e in found if (e.wanted or 0) > (e.granted or 0)]
    if not found:
        return
    by = "state slots" if case.launch.has(MambaPool) else "KV tokens"
    first = found[0]
    yield Finding(
        summary=f"The engine lowered max_running_requests from {first.wanted} to {first.granted}; the pool"
        f" of {by} clamps it",
        ranks=ranks_of(found),
        evidence=cite(*found[:2], figure="max_running_requests", value=first.granted),
        part_of="mamba-slots-cap-concurrency" if case.launch.has(MambaPool) else "",
    )
