"""A batch found no slot in the KV pool although the scheduler had admitted it.

What it sees
    "Prefill out of memory. Try to lower your batch size", or the same of decode: tokens of a pool, not bytes of the
    device.
Why it matters
    The server ends. With a sliding window it is often the window pool that is empty while the full pool is not.
What to do
    Fewer running requests, a higher --schedule-conservativeness; with a window pool at its end a higher
    --swa-full-tokens-ratio.
Sources
    SGLang, mem_cache/common.py: alloc_token_slots().
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.requests import RequestSlotsExhausted, TokenSlotsExhausted
from kvdiag.diagnosis.rules._pricing import fewer_requests, knob, more_conservative, remedies
from kvdiag.diagnosis.rules.judgements import ranks_of
from kvdiag.diagnosis.rules.rule import Case, Direction, Finding, Severity, cite, rule


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    found = case.launch.each(TokenSlotsExhausted)
    slots = case.launch.each(RequestSlotsExhausted)
    if not found and not slots:
        return
    window = any(e.in_window for e in found)
    yield Finding(
        summary="A batch found no slot in the "
        + ("window pool while the full-attention pool had some" if window else "KV pool" if found else "request table"),
        why="The scheduler's estimate was too high; the GPU has not overflowed.",
        ranks=ranks_of([*found, *slots][:64]),
        evidence=cite(*found[:2], *slots[:2]),
        remedies=remedies(
            fewer_requests(case),
            knob(case, "--swa-full-tokens-ratio", Direction.RAISE, cost="It costs full-attention tokens.")
            if window
            else None,
            more_conservative(case),
        ),
    )
