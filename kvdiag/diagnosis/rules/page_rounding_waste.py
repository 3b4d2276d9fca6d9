"""Whole pages are given to many small requests, and the rounding is not counted.

What it sees
    A use of the pool near its end with hundreds of requests and a large page.
Why it matters
    Half a page a request is lost on average; with large pages and short prompts it is a good part of the pool.
What to do
    A smaller --page-size, or fewer requests at once.
Sources
    SGLang, mem_cache/allocator.py: PagedTokenToKVPoolAllocator.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.rules._formulas import worked
from kvdiag.diagnosis.rules._pricing import knob
from kvdiag.diagnosis.rules.judgements import fullest
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Evidence, Finding, Severity, rule


@rule(severity=Severity.ADVICE)
def check(case: Case) -> Iterator[Finding]:
    batch, page, tokens = fullest(case), case.launch.number_of("page_size"), case.tokens
    if (
        batch is None
        or not page
        or page < case.thresholds.small_page_tokens
        or (batch.usage or 0) < case.thresholds.usage_high
    ):
        return
    held = max(batch.running or 0, batch.in_flight or 0)
    lost = held * page / 2
    if held < case.thresholds.many_requests or (tokens is not None and lost < case.thresholds.rounding_loss * tokens):
        return
    of = "" if tokens is None else f" of {tokens:,}"
    yield Finding(
        summary=f"About {lost:,.0f}{of} tokens are lost to pages of {page:g} tokens: {held} requests hold"
        " half a page each in vain",
        formula=worked("requests × page / 2", f"{held} × {page:g} / 2 = {lost:,.0f}"),
        evidence=(Evidence(batch.line, "token usage", batch.usage),),
        remedies=(
            knob(case, "--page-size", Direction.LOWER, cost="It costs speed with some attention backends."),
            knob(case, "--max-running-requests", Direction.LOWER, cost="It costs concurrency: others wait."),
        ),
        confidence=Confidence.LIKELY,
    )
