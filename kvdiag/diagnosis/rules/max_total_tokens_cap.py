"""An explicit cap holds the pool down.

What it sees
    max_total_tokens in the arguments equal to max_total_num_tokens, to the page.
Why it matters
    The pool is as large as was asked for, not as large as memory allows. A higher fraction changes nothing while the
    cap binds.
What to do
    Raise --max-total-tokens, or remove it.
Sources
    SGLang, model_runner.py: init_memory_pool().
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.kv_pool import MaxTotalTokensTooLarge
from kvdiag.diagnosis.ledger.what_if import Change
from kvdiag.diagnosis.rules._pricing import cell, knob, priced
from kvdiag.diagnosis.rules.judgements import cap, has_room, is_short, is_thin, memory_ran_out
from kvdiag.diagnosis.rules.rule import Case, Direction, Effect, Evidence, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import format_tokens, to_gib


@rule(severity=Severity.ADVICE)
def check(case: Case) -> Iterator[Finding]:
    value = cap(case)
    if value is None or case.tokens is None:
        return
    size, after = cell(case), case.free_at_end or case.after_pool
    spare = 0 if after is None else max(0, after.available - case.wanted_range[1])
    gain = None if size is None or not spare else round(spare / (size.target + size.draft))
    uncapped = _uncapped(case)
    reached = min((x for x in (uncapped, None if gain is None else case.tokens + gain) if x is not None), default=None)
    could = ""
    if reached is not None and reached <= case.tokens or not spare:
        reached = None
    elif reached is not None and reached == uncapped:
        could = f", which would hold about {format_tokens(reached)} tokens"
    elif reached is not None:
        could = f", which could hold about {format_tokens(reached)} tokens and leave what is wanted free"
    idle = has_room(case) or is_short(case)
    nothing_spare = after is not None and not spare
    if memory_ran_out(case) is not None or is_thin(case) or (nothing_spare and not idle):
        offers: tuple[Remedy, ...] = ()
    else:
        effect = {} if reached is None else {"kv_tokens": Effect(case.tokens, reached, reached, reached)}
        cost = "It costs the memory of the added tokens."
        offers = (
            Remedy(
                "--max-total-tokens",
                Direction.RAISE,
                before=str(value),
                to=None if reached is None else str(reached),
                effect=effect,
                cost=cost,
            ),
            knob(case, "--max-total-tokens", Direction.REMOVE, cost=f"{cost} The fraction then sets the pool."),
        )
    argument = case.launch.arguments.get("max_total_tokens")
    repeated = case.launch.first(MaxTotalTokensTooLarge)
    lines = [
        e
        for e in (*case.launch.commands, *case.launch.server_args)
        if argument and (e.line.file, e.line.number) in argument.lines
    ]
    yield Finding(
        summary=f"--max-total-tokens {value:,} sets the pool{_to_the_page(value, case.tokens)}, not the memory{could}",
        why="A higher --mem-fraction-static changes nothing while the cap binds.",
        evidence=tuple(Evidence(e.line, "max_total_tokens", value) for e in lines[:2])
        + ((Evidence(repeated.line, "max_total_tokens", value),) if repeated is not None and not argument else ())
        + cite(case.limits, figure="kv_tokens", value=case.tokens),
        remedies=offers,
        severity=Severity.WARNING if has_room(case) and is_short(case) else Severity.ADVICE if idle else Severity.INFO,
        stake=to_gib(round(spare)) or 0.0,
    )


def _to_the_page(value: int, tokens: int) -> str:
    """The count where it is not the cap's own."""
    return "" if tokens == value else f" of {format_tokens(tokens)} tokens"


def _uncapped(case: Case) -> int | None:
    """Tokens that the fraction would give without the cap: a higher cap gives no more. None where it cannot be told."""
    tokens = (priced(case, Change(max_total_tokens=0)) or {}).get("kv_tokens")
    return None if tokens is None or tokens.after is None else int(tokens.after)
