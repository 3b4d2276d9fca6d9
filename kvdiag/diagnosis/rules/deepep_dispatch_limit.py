"""A batch holds more tokens than the expert-parallel dispatch buffer takes from one rank.

What it sees
    The assertion on num_max_dispatch_tokens_per_rank.
Why it matters
    Memory plays no part: the buffer was set up for fewer tokens than the batch has.
What to do
    Raise SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK, or make the batch smaller.
Sources
    DeepEP, csrc/deep_ep.cpp; SGLang, token_dispatcher.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.failure import CaptureFailed
from kvdiag.diagnosis.events.libraries import DispatchLimitExceeded
from kvdiag.diagnosis.rules._pricing import knob
from kvdiag.diagnosis.rules.judgements import decode_graph_flag, ranks_of
from kvdiag.diagnosis.rules.rule import Case, Direction, Finding, Remedy, Severity, cite, rule

DEFAULT_LIMIT = 128


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    found = case.launch.each(DispatchLimitExceeded)
    if not found:
        return
    captured = case.launch.has(CaptureFailed) or not case.launch.has_traffic
    batch = case.launch.number_of("cuda_graph_bs") or case.launch.number_of("cuda_graph_max_bs")
    wanted = None if batch is None else str(int(max(2 * DEFAULT_LIMIT, 2 * batch)))
    yield Finding(
        summary="A batch has more tokens than the dispatch buffer takes from one rank",
        why="The buffer's limit is a setting; neither the fraction nor graphs as such are to blame.",
        ranks=ranks_of(found),
        evidence=cite(*found[:2]),
        remedies=(
            Remedy(
                "SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK",
                Direction.RAISE,
                to=wanted,
                cost="It costs memory: the dispatch buffer grows with it on every rank.",
            ),
            knob(
                case,
                decode_graph_flag(case) if captured else "--max-running-requests",
                Direction.LOWER,
                cost="It costs speed for batches above the largest captured size."
                if captured
                else "It costs concurrency.",
            ),
        ),
    )
