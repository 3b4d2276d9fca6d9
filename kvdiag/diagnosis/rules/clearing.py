"""Suspects an operator is likely to have, and why each is innocent; and the figures that a passed check looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kvdiag.diagnosis.events.cuda_graph import GraphEnd
from kvdiag.diagnosis.events.kv_pool import MambaPool, MaxTotalTokensTooLarge
from kvdiag.diagnosis.events.serving import Retraction
from kvdiag.diagnosis.ledger.model import Moment, Pool
from kvdiag.diagnosis.ledger.sizing.requests import request_table_bytes
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._formulas import host_shares, wanted_by_size
from kvdiag.diagnosis.rules.hints import contradicted
from kvdiag.diagnosis.rules.rule import Case, Cleared, Finding
from kvdiag.diagnosis.traffic import retractions_of
from kvdiag.diagnosis.units import Bytes, format_gib, format_tokens


def cleared_suspects(case: Case, findings: Sequence[Finding]) -> list[Cleared]:
    """The suspicions that the launch's figures refute, the likeliest first."""
    named = {f.rule for f in findings}
    return [found for suspect in _SUSPECTS for found in suspect(case, named)]


def _request_limit(case: Case, named: set[str]) -> Iterator[Cleared]:
    limits = case.limits
    if limits is None or limits.max_running_requests is None or case.tokens is None or case.launch.has(MambaPool):
        return
    booked = [e.size for x in case.ledgers if x.rank == limits.rank for e in x.entries if e.pool is Pool.REQUEST_TABLE]
    table = Bytes(sum(booked)) if booked else None  # as the budget has it
    if table is None and limits.context_len is not None:
        table = Bytes(request_table_bytes(limits.max_running_requests, limits.context_len))
    size = "" if table is None else f"; its table of requests takes {format_gib(table)}"
    yield Cleared(
        f"max_running_requests={limits.max_running_requests} does not limit the KV pool",
        f"Tokens are the budget divided by bytes a token; the request limit does not enter{size}.",
        (limits.line,),
    )


def _own_fraction(case: Case, named: set[str]) -> Iterator[Cleared]:
    check = case.sizing.automatic if case.sizing is not None else None
    if check is None or check.value is None or check.agrees is False:
        return
    sentence = check.sentence[:1].upper() + check.sentence[1:]
    lines = tuple(r.line for r in (case.opening, case.after_weights) if r is not None)
    yield Cleared(f"Nobody set the fraction: {check.value:g} is SGLang's own", f"{sentence}.", lines)


def _nothing_lost(case: Case, named: set[str]) -> Iterator[Cleared]:
    kept, after, pool = judgements.reserve(case), case.after_weights, case.after_pool
    if kept is None or pool is None or case.opening_size is None or case.fraction is None:
        return
    if abs(pool.available - kept) > case.thresholds.reserve_closes or named & {
        "max-total-tokens-cap",
        "loader-memory-still-referenced",
    }:
        return
    yield Cleared(
        "Nothing was lost between the end of loading and the pool",
        f"What stays free after the pool is the reserve: {format_gib(case.opening_size)} × (1 − {case.fraction:g}) ="
        f" {format_gib(kept)}; {format_gib(pool.available)} were printed. The fraction is one of what was free before"
        " loading, not after.",
        tuple(r.line for r in (case.opening, after, pool) if r is not None),
    )


def _no_cap(case: Case, named: set[str]) -> Iterator[Cleared]:
    if case.tokens is None or judgements.cap(case) is not None:
        return
    too_large = case.launch.first(MaxTotalTokensTooLarge)
    if too_large is not None:
        yield Cleared(
            "--max-total-tokens does not bind", "It asks for more than fits, so SGLang ignores it.", (too_large.line,)
        )
    elif judgements.tells_of_a_cap(case) and case.launch.value("max_total_tokens") is None:
        yield Cleared(
            "No cap holds the pool down",
            "--max-total-tokens is not set.",
            tuple(e.line for e in (case.launch.server_args[:1] or case.launch.commands[:1])),
        )


def _even_ranks(case: Case, named: set[str]) -> Iterator[Cleared]:
    ends = [r for x in case.ledgers if (r := x.reading(Moment.WEIGHTS_END)) is not None]
    if len(ends) < 2 or named & {"min-over-ranks", "pp-uneven-layers", "unbalanced-gpus"}:
        return
    low, high = min(ends, key=lambda r: r.available), max(ends, key=lambda r: r.available)
    if high.available - low.available >= case.thresholds.rank_spread:
        return  # no rule fired, and still one rank has less: nothing to say either way
    yield Cleared(
        "No rank holds the others back",
        f"After loading they differ by {format_gib(high.available - low.available)}.",
        (low.line, high.line),
    )


def _free_is_wanted(case: Case, named: set[str]) -> Iterator[Cleared]:
    free = case.free_at_end
    if free is None or not judgements.is_healthy(case):
        return
    most = case.wanted_range[1]
    wanted = case.wanted_free or most
    hosts = (
        f" A change that takes more should leave {format_gib(most)}, as {host_shares(case)}." if most > wanted else ""
    )
    needed = (
        f"About {format_gib(wanted)} are wanted for prefill, logits and the allocator"
        if case.card is not None
        else f"For prefill, logits and the allocator, {wanted_by_size(case)}, which the log does not tell"
    )
    when = "before graphs were captured" if case.has_graphs_after_end else "at the end"
    yield Cleared(
        f"The {format_gib(free.available)} free {when} are not wasted",
        f"{needed}; what is there is within the healthy range.{hosts}",
        (free.line,),
    )


def _pushed_back(case: Case, named: set[str]) -> Iterator[Cleared]:
    found = case.launch.first(Retraction)
    if found is None or "out of memory" not in found.line.text or judgements.memory_ran_out(case) is not None:
        return
    yield Cleared(
        '"Decode out of memory happened" is no overflow of the GPU',
        "Older releases print it when the KV pool is full and requests go back to the queue.",
        (found.line,),
    )


_SUSPECTS: tuple[Callable[[Case, set[str]], Iterator[Cleared]], ...] = (
    _request_limit,
    _own_fraction,
    _nothing_lost,
    _no_cap,
    _even_ranks,
    _free_is_wanted,
    _pushed_back,
    contradicted,
)


# The figures a passed check looked at


def figures_of(rule: str, case: Case) -> str | None:
    """What a passed check compared; None where it only looked for a line."""
    figures = _FIGURES.get(rule)
    return figures(case) if figures is not None else None


def unseen(rule: str, case: Case) -> str | None:
    """Why a check that found nothing proves nothing: the figures it compares are not in the log, or of the launch
    neither a start nor an end is; None where it looked and found nothing."""
    figures = figures_of(rule, case)
    if figures is not None:
        return None
    if rule in _COMPARED:
        return f"the log does not tell {_COMPARED[rule]}"
    if rule in _OF_THE_START and not case.launch.begins and not case.ledgers:
        return "the log does not show the start"
    return None if case.launch.begins or _goes_on(case) else "the log has neither the beginning of a start nor its end"


def _goes_on(case: Case) -> bool:
    """Whether the log shows how the start came out: ready, serving or failed."""
    return case.launch.has_traffic or case.outcome.outcome != "incomplete"


_COMPARED = {
    "pool-below-one-request": "both the size of the KV pool and the context length",
    "thin-slack-after-capture": "what is free at the end of the start",
    "big-free-memory-left": "what is free at the end of the start",
    "mem-fraction-too-low": "what is free at the end of the start",
    "weights-near-limit": "what was free before and after loading",
    "min-over-ranks": "what several ranks have free after loading",
    "retraction-storm": "whether requests were pushed back: it has no batch of the server",
}
"""What checks compare that pass by figures alone; the others also pass where a line is not there."""

_OF_THE_START = frozenset({
    "auto-fraction-too-low", "display-or-desktop-holds-memory", "extra-processes-on-gpu0",
    "loader-memory-still-referenced", "max-prefill-tokens-cap", "max-total-tokens-cap", "mig-capacity-unreadable",
    "non-torch-memory-large", "other-process-on-gpu", "other-process-takes-memory-during-startup",
    "page-rounding-waste", "pool-larger-than-workload", "pool-takes-all-slack", "pool-tiny",
    "req-to-token-table-too-large", "requested-concurrency-clamped", "slow-rank-in-load", "two-ranks-one-gpu",
    "unbalanced-check-false-alarm", "unbalanced-gpus", "unified-memory-host-share", "wsl-hidden-driver-memory",
})  # fmt: skip
"""Checks of lines that only a start prints and that a server may come up with all the same: where it is seen serving
alone, their silence proves nothing. Of a start's failures it proves that there was none."""


def _pool_against_context(case: Case) -> str | None:
    if case.tokens is None or case.context_length is None:
        return None
    return f"{format_tokens(case.tokens)} tokens hold {case.tokens / case.context_length:.1f} requests of full length"


def _free_against_wanted(case: Case) -> str | None:
    free = case.free_at_end
    if free is None:
        return None
    wanted = case.wanted_free or case.wanted_range[1]
    return f"{format_gib(free.available)} are free at the end, {format_gib(wanted)} wanted"


def _weights_against_budget(case: Case) -> str | None:
    least, fraction = judgements.least_that_starts(case), judgements.stated_fraction(case)
    if least is None or fraction is None:
        return None
    return f"the fraction {fraction:g} is {'above' if fraction > least else 'at'} the least that starts, {least:.3f}"


def _weights_against_card(case: Case) -> str | None:
    if not case.opening_size or case.after_weights is None:
        return None
    return f"the weights take {100 * (1 - case.after_weights.available / case.opening_size):.0f} % of the free memory"


def _graphs(case: Case) -> str | None:
    by_rank: dict[str, int] = {}
    for end in case.launch.each(GraphEnd):
        by_rank[end.rank] = by_rank.get(end.rank, 0) + (end.used or 0)
    return f"graphs take {format_gib(max(by_rank.values()))}" if by_rank else None


def _ranks(case: Case) -> str | None:
    ends = [r.available for x in case.ledgers if (r := x.reading(Moment.WEIGHTS_END)) is not None]
    if len(ends) < 2:
        named = any(x.rank for x in case.ledgers)  # one without a name is alone
        return "one rank" if case.launch.number_of("tp_size") == 1 or (case.ledgers and not named) else None
    return f"{len(ends)} ranks differ by {format_gib(max(ends) - min(ends))} after loading"


def _reserve(case: Case) -> str | None:
    excess = judgements.excess_after_pool(case)
    if excess is None:
        return None
    return f"free memory after the pool is within {format_gib(abs(excess))} of the reserve"


def _usage(case: Case) -> str | None:
    peak = case.launch.series.peak_usage
    return None if peak is None else f"the pool's use peaks at {100 * peak:.0f} %"


def _pushed(case: Case) -> str | None:
    count = retractions_of(case.launch).times
    if not count and not _goes_on(case):
        return None
    return f"requests were pushed back {count} times" if count else "no request was pushed back"


_FIGURES: dict[str, Callable[[Case], str | None]] = {
    "pool-below-one-request": _pool_against_context,
    "thin-slack-after-capture": _free_against_wanted,
    "big-free-memory-left": _free_against_wanted,
    "mem-fraction-too-low": _free_against_wanted,
    "weights-exceed-static-budget": _weights_against_budget,
    "weights-near-limit": _weights_against_card,
    "graph-memory-large": _graphs,
    "min-over-ranks": _ranks,
    "loader-memory-still-referenced": _reserve,
    "full-pool-exhausted": _usage,
    "retraction-storm": _pushed,
}
