"""The KV pool holds fewer tokens than one request may use.

What it sees
    A pool with fewer tokens than the context length that the server promises.
Why it matters
    Requests within the promised context are refused, or cut off once they outgrow the pool.
What to do
    Take back what other programs hold of the card, or give the pool more of it: as much as one request needs, or as
    much as what is wanted free allows. Else say how long requests really are, and lower --context-length to it.
Sources
    SGLang, its own warning since 0.5.23; scheduler.py: max_req_len.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from kvdiag.diagnosis.events.kv_pool import PoolBelowContext
from kvdiag.diagnosis.ledger.what_if import Change, scenario_of
from kvdiag.diagnosis.rules._formulas import worked
from kvdiag.diagnosis.rules._pricing import (
    NEWER_LOADER,
    OTHERS,
    cell,
    eight_bit_kv,
    knob,
    raise_fraction,
    raise_to_wanted,
    remedies,
)
from kvdiag.diagnosis.rules.judgements import (
    cap,
    card_line,
    cause_of_room,
    is_eight_bit,
    is_short,
    may_raise_fraction,
    printed_card,
    unified_device,
)
from kvdiag.diagnosis.rules.judgements.arguments import size_of
from kvdiag.diagnosis.rules.judgements.holders import held_by_others
from kvdiag.diagnosis.rules.rule import Case, Direction, Effect, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import GIB, Bytes, format_gib, format_prediction, format_tokens


@rule(severity=Severity.WARNING)
def check(case: Case) -> Iterator[Finding]:
    if not is_short(case):
        return
    said = case.launch.first(PoolBelowContext)
    tokens = case.tokens if case.tokens is not None else said.tokens if said is not None else None
    context = case.context_length or (said.context_len if said is not None else None)
    if tokens is None or context is None:
        return
    size, free = cell(case), case.free_at_end
    missing = context - tokens
    needed = None if size is None else Bytes(round(missing * (size.target + size.draft) / size.share))
    spare = None if free is None else free.available - _least_free(case)
    held = held_by_others(case)
    each = " on each rank" if _has_several_ranks(case) else ""
    short_of = "" if needed is None else f", {format_gib(needed)}{each}"
    card = printed_card(case)
    cause = ""
    if held is not None and card is not None:
        cause = f": {format_gib(held)} of the {format_gib(card)} were in use before the start"
    yield Finding(
        summary=f"The KV pool is {format_tokens(missing)} tokens short of one full-length request"
        f" ({format_tokens(tokens)} of {format_tokens(context)}{short_of}){cause}",
        why="Longer requests are refused although the context allows them.",
        formula=worked("context_len − max_total_num_tokens", f"{context:,} − {tokens:,} = {missing:,} tokens"),
        evidence=cite(case.limits, said, figure="kv_tokens", value=tokens)
        + (cite(*case.launch.commands[:1], figure="context_length", value=context) if case.limits is None else ())
        + (cite(card_line(case), case.opening) if cause else ()),
        remedies=remedies(
            _free_what_others_hold(case, held, needed) if cause else None,
            NEWER_LOADER if _is_kept_small_by_the_loader(case) else None,
            Remedy(
                "--max-total-tokens",
                Direction.RAISE,
                before=str(cap(case)),
                to=str(context),
                effect={"kv_tokens": Effect(tokens, context)},
                cost="It costs the memory of the added tokens.",
            )
            if cap(case) is not None and spare is not None and needed is not None and needed <= spare
            else None,
            _fraction_for(case, context, needed) or _larger_pool(case, context),
            knob(
                case,
                "--context-length",
                Direction.LOWER,
                to=str(tokens),
                cost=f"It costs requests longer than {format_tokens(tokens)} tokens, which cannot run today either.",
            ),
            None if is_eight_bit(case) else eight_bit_kv(case),
        ),
    )


def _has_several_ranks(case: Case) -> bool:
    """Whether the launch has more than one rank, by its arguments or its lines."""
    return len(case.ledgers) > 1 or any(size_of(case, f"{x}_size", x.upper()) > 1 for x in ("tp", "pp", "dp"))


def _least_free(case: Case) -> Bytes:
    """What has to stay free beside a pool of one request: where host and GPU share one memory, what any launch needs.

    More is wanted there for the host's sake; what a remedy takes of that is told as its cost.
    """
    least, most = case.wanted_range
    return least if unified_device(case) is not None else most


def _free_what_others_hold(case: Case, held: Bytes | None, needed: Bytes | None) -> Remedy | None:
    """Take memory back from other programs, and how much of it one request asks for."""
    if held is None:
        return None
    note = ""
    if needed is not None and case.fraction and cap(case) is None and needed / case.fraction <= held:
        more = format_gib(round(needed / case.fraction))
        note = f"The pool gets {case.fraction:g} of what they give back: about {more} hold one full-length request."
    return Remedy(OTHERS, Direction.REMOVE, cost="It costs the other programs what they hold.", note=note)


def _fraction_for(case: Case, context: int, needed: Bytes | None) -> Remedy | None:
    """The fraction that holds one request of full length; None where too little would stay free, or none is known."""
    if cap(case) is not None or not may_raise_fraction(case):
        return None
    free, opening, fraction = case.free_at_end, case.opening_size, case.fraction
    if free is None or not opening or fraction is None or needed is None or needed <= 0:
        return None
    to, left = math.ceil((fraction + needed / opening) * 1000) / 1000, float(free.available - needed)
    answer = None if case.sizing is None else scenario_of(case.sizing, Change(tokens=context))
    if answer is not None and answer.refused is None and answer.fraction is not None and answer.fraction.after:
        to = max(answer.fraction.after, fraction)
        if answer.free_gib is not None and answer.free_gib.after is not None:
            left = answer.free_gib.after * GIB
    if to <= fraction or to >= 1 or left < _least_free(case):
        return None
    remedy, wanted = raise_fraction(case, to), case.wanted_range[1]
    if remedy is None or left >= wanted:
        return remedy
    shared = f" What stays free is under the {format_gib(wanted)} wanted where host and GPU share one memory."
    return dataclasses.replace(remedy, cost=remedy.cost + shared)


def _is_kept_small_by_the_loader(case: Case) -> bool:
    """Whether buffers of the loader were counted as in use, in a release that may do so."""
    return cause_of_room(case) == "loader-memory-still-referenced" and case.launch.releases.may("0.1.0", "0.5.18")


LEAST_GAIN = 0.02
"""The share of the tokens below which a larger fraction is no remedy."""


def _larger_pool(case: Case, context: int) -> Remedy | None:
    """The fraction that leaves what is wanted, where none holds one request; None where it gains little."""
    if cap(case) is not None or not may_raise_fraction(case):
        return None
    remedy = raise_to_wanted(case)
    tokens = None if remedy is None else remedy.effect.get("kv_tokens")
    if remedy is None or tokens is None or not tokens.before or tokens.after is None:
        return None
    if tokens.after < (1 + LEAST_GAIN) * tokens.before:
        return None
    missing = context - round(tokens.after)
    short = f"Still about {format_prediction(missing)} tokens short of one full-length request." if missing > 0 else ""
    return dataclasses.replace(remedy, note=short)
