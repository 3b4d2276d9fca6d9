"""A batch found no slot in the KV pool although the scheduler had admitted it.

What it sees
    "Prefill out of memory. Try to lower your batch size", or the same of decode: tokens of a pool, not bytes of the
    device. Where more tokens are free than were asked for, whole pages were short.
Why it matters
    The server ends. With a sliding window it is often the window pool that is empty while the full pool is not.
What to do
    Fewer running requests, a higher --schedule-conservativeness; with a window pool at its end a higher
    --swa-full-tokens-ratio: first of all where the full-attention pool had several times what was asked for.
Sources
    SGLang, mem_cache/common.py: alloc_token_slots().
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.requests import RequestSlotsExhausted, TokenSlotsExhausted
from kvdiag.diagnosis.rules._pricing import fewer_requests, knob, more_conservative, remedies
from kvdiag.diagnosis.rules.judgements import ranks_of
from kvdiag.diagnosis.rules.rule import Case, Direction, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import format_tokens


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    found = case.launch.each(TokenSlotsExhausted)
    slots = case.launch.each(RequestSlotsExhausted)
    if not found and not slots:
        return
    window = any(e.in_window for e in found)
    in_pages = not window and any(_is_for_want_of_pages(e) for e in found)
    divided_wrongly = any(_is_idle_beside(e) for e in found)
    wider_window = knob(case, "--swa-full-tokens-ratio", Direction.RAISE, cost="It costs full-attention tokens.")
    yield Finding(
        summary=_what_was_missing(found, window) if found else "A batch found no slot in the request table",
        why="The scheduler's estimate was too high; the GPU has not overflowed.",
        ranks=ranks_of([*found, *slots][:64]),
        evidence=cite(*found[:2], *slots[:2]),
        remedies=remedies(
            wider_window if divided_wrongly else None,
            fewer_requests(case),
            knob(case, "--page-size", Direction.LOWER, cost="It costs speed with some attention backends.")
            if in_pages and case.launch.number_of("page_size") != 1
            else None,
            wider_window if window and not divided_wrongly else None,
            more_conservative(case) if found else None,  # it counts tokens, not requests
        ),
    )


def _what_was_missing(found: list[TokenSlotsExhausted], window: bool) -> str:
    """Tokens asked for against those left, with the figures that the lines print."""
    sign = next((e for e in found if e.in_window == window and e.wanted is not None), found[0])
    full, left = sign.available, sign.window if window else sign.available
    asked = f" of {format_tokens(sign.wanted)} tokens" if sign.wanted is not None else ""
    had = (
        f"the full-attention pool had {format_tokens(full)}" if full is not None else "the full-attention pool had some"
    )
    if left is None or asked == "":
        return f"A batch{asked} found no slot in the " + (f"window pool while {had}" if window else "KV pool")
    if not window and _is_for_want_of_pages(sign):
        return (
            f"A batch{asked} found too few whole pages in the KV pool, though {format_tokens(left)} slots were free:"
            " each request takes whole pages"
        )
    slots = f"{format_tokens(left)} slots" if left else "no slot"
    return f"A batch{asked} found {slots} in the " + (f"window pool while {had}" if window else "KV pool")


def _is_idle_beside(sign: TokenSlotsExhausted) -> bool:
    """Whether the full-attention pool had several times what the window pool lacked: the two are divided wrongly."""
    wanted, full = sign.wanted, sign.available
    return sign.in_window and wanted is not None and full is not None and full >= 4 * wanted


def _is_for_want_of_pages(sign: TokenSlotsExhausted) -> bool:
    """Whether more slots were free than asked for: then whole pages were short, or an estimate was wrong."""
    wanted, available = sign.wanted, sign.available
    return wanted is not None and available is not None and available >= wanted
