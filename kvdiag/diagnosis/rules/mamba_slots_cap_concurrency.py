"""Running requests are limited by state slots, not by tokens.

What it sees
    SGLang says that max_running_requests is capped by the state cache, the limit is exactly slots // slots a request
    (3 to 5), or batch lines show the states in use and requests waiting while tokens are there.
Why it matters
    Requests queue while the KV pool has room. Raising --max-running-requests alone does nothing.
What to do
    Raise --max-mamba-cache-size (which costs tokens), or store the states in a smaller data type.
Sources
    SGLang, model_runner.py: the request limit of hybrid models; printed since 0.5.17.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.kv_pool import MambaPool, RequestsCapped
from kvdiag.diagnosis.events.pattern import Event
from kvdiag.diagnosis.events.ready import ServerLimits
from kvdiag.diagnosis.events.requests import RunningLimit, StateSlotsExhausted
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._formulas import worked
from kvdiag.diagnosis.rules._pricing import knob, remedies, starting_value
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Evidence, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import Bytes, format_gib


def slots_of(case: Case) -> int | None:
    """State slots: as the pool's line has them, else as the command pins them."""
    pool = next((x.mamba_slots for x in case.ledgers if x.mamba_slots), None)
    pinned = case.launch.number_of("max_mamba_cache_size")
    return pool or (int(pinned) if pinned else None)


@rule(severity=Severity.ADVICE, releases="0.5.2..", unless=(judgements.without_state,))
def check(case: Case) -> Iterator[Finding]:
    said = [
        e for e in case.launch.each(RequestsCapped) if e.slots or "mamba" in (e.by or "") or "auxiliary" in (e.by or "")
    ]
    reduced = [e for e in case.launch.each(RequestsCapped) if e.granted is not None]
    slots = slots_of(case)
    limit, source = _limit(case)
    dp = int(case.launch.number_of("dp_size") or 1)
    asked = case.launch.number_of("max_running_requests")
    each: int | None = None
    if slots and limit:
        each = next((k for k in (3, 4, 5) if slots // k == limit), None)
    if said or (reduced and case.launch.has(MambaPool)):
        line: Event = (said or reduced)[0]
        limit = getattr(line, "granted", None) or limit
        slots = getattr(line, "slots", None) or slots
        each = getattr(line, "slots_per_request", None) or each
    elif each is not None and source is not None and not (asked and asked / dp <= (limit or 0)):
        line = source
    else:
        yield from _full_in_traffic(case)
        return
    wanted = asked if asked and limit and asked > limit else None
    per = f" at {each} a request" if each else ""
    queued = (case.launch.series.peak_queue or 0) > 0
    yield Finding(
        summary=f"{slots or 'The'} state slots{per} let {limit or 'few'} requests run at once; tokens are"
        " not the limit",
        why="--max-running-requests has no effect above slots // slots a request, and the fraction is not the lever.",
        formula=worked("slots // slots a request", f"{slots} // {each} = {slots // each}" if slots and each else ""),
        evidence=cite(line, case.launch.first(MambaPool), figure="max_running_requests", value=limit),
        remedies=remedies(
            _more_slots(case, slots, each, wanted or (2 * limit if limit else None), is_asked=bool(wanted)),
            knob(case, "--mamba-ssm-dtype", Direction.SET, to="bfloat16", cost="It costs precision of the states."),
        ),
        severity=Severity.WARNING
        if queued and wanted
        else Severity.ADVICE
        if wanted or queued or said
        else Severity.INFO,
        confidence=Confidence.CERTAIN if said else Confidence.LIKELY,
    )


def _more_slots(
    case: Case, slots: int | None, each: int | None, requests: float | None, *, is_asked: bool
) -> Remedy | None:
    """Slots for so many requests, or as many of them as half of the KV pool's memory holds; None where that is no more
    than there are."""
    goal = int(each * requests) if each and requests else None
    most, to, note = _most_slots(case), goal, ""
    if goal is not None and not is_asked:
        note = starting_value("slots for twice the requests", "#queue-req in the batch lines")
    if each and goal is not None and most is not None and most < goal:
        to, note = most // each * each, _of_a_bound(case, slots, goal)
    if to is not None and slots and to <= slots:
        return None
    return knob(
        case,
        "--max-mamba-cache-size",
        Direction.RAISE,
        to=None if to is None else str(to),
        cost="It costs KV tokens: states and tokens share one budget.",
        note=note,
    )


def _slot_size(case: Case) -> float | None:
    """Bytes that one slot takes, on the rank with the least; None where no line prints the states' size."""
    return min((x.mamba_size / x.mamba_slots for x in case.ledgers if x.mamba_size and x.mamba_slots), default=None)


def _most_slots(case: Case) -> int | None:
    """Slots with half of the KV pool's memory beside their own; None where the log does not tell both sizes."""
    each, slots = _slot_size(case), slots_of(case)
    pools = [x.kv_size for x in case.ledgers if x.kv_size]
    return slots + int(min(pools) / 2 / each) if each and slots and pools else None


def _of_a_bound(case: Case, slots: int | None, goal: int) -> str:
    """Why fewer slots are offered than were wanted."""
    size = format_gib(Bytes(round((goal - (slots or 0)) * (_slot_size(case) or 0))))
    return f"{goal:,} slots would take {size} more; these take half of the KV pool. More need a higher fraction."


def _limit(case: Case) -> tuple[int | None, Event | None]:
    """max_running_requests in force and the line that says so."""
    if case.limits is not None and case.limits.max_running_requests:
        return case.limits.max_running_requests, case.limits
    for kind in (ServerLimits, RunningLimit):
        for event in case.launch.each(kind):
            value = getattr(event, "limit", None) or getattr(event, "max_running_requests", None)
            if value:
                return value, event
    return None, None


def _full_in_traffic(case: Case) -> Iterator[Finding]:
    """Batch lines with requests waiting for state slots while tokens are there."""
    high = case.thresholds.usage_high
    batch = next(
        (
            p
            for p in case.launch.series.points
            if (p.mamba_usage or 0) >= high and (p.queued or 0) > 0 and (p.usage or 0) < high
        ),
        None,
    )
    if batch is None or case.launch.has(StateSlotsExhausted):
        return  # where a request found none, that has a rule of its own
    used = batch.mamba_usage or 0.0
    yield Finding(
        summary=f"{100 * used:.0f} % of the state slots are in use while {batch.queued} requests wait; tokens are not"
        f" the limit ({100 * (batch.usage or 0):.0f} %)",
        why="A request waits until slots are free; --max-running-requests and the fraction are not the lever.",
        evidence=(Evidence(batch.line, "mamba usage", used),),
        remedies=(
            knob(
                case,
                "--max-mamba-cache-size",
                Direction.RAISE,
                cost="It costs KV tokens: states and tokens share one budget.",
            ),
            knob(case, "--mamba-ssm-dtype", Direction.SET, to="bfloat16", cost="It costs precision of the states."),
        ),
        confidence=Confidence.LIKELY,
    )
