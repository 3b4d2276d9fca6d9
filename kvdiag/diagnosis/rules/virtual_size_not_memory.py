"""A size in the log is address space, not memory.

What it sees
    A "total_mem_size" of terabytes, or a pool's "VA upper bound".
Why it matters
    It looks like an absurd request. Only what is mapped later takes memory.
What to do
    Ignore it; read the lines that follow.
Sources
    kvcached, page_allocator.py; SGLang, post-capture sizing (0.5.19 and later).
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.pattern import Event
from kvdiag.diagnosis.events.platform import VirtualSize
from kvdiag.diagnosis.rules.judgements import virtual_sizes
from kvdiag.diagnosis.rules.rule import Case, Finding, Severity, cite, rule


@rule(severity=Severity.INFO)
def check(case: Case) -> Iterator[Finding]:
    found: list[Event] = virtual_sizes(case)
    if not found:
        return
    first = found[0]
    size = getattr(first, "size_mb", None) if isinstance(first, VirtualSize) else None
    told = "" if not size else f" ({size / 1024:,.0f} GiB)"
    yield Finding(
        summary=f"The size printed here{told} is address space, not memory",
        why="Pages are mapped when they are needed; nothing of that size is requested.",
        evidence=cite(first, figure="size_mib", value=size),
    )
