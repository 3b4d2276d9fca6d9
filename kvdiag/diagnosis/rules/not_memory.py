"""The crash has another cause than memory.

What it sees
    An error that ended the start or the server, with enough free memory at that moment and no word of an overflow.
Why it matters
    Turning memory flags would cost capacity and change nothing.
What to do
    Read the error itself. Memory is fine.
Sources
    The error's own text.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import shorten

from kvdiag.diagnosis.events.failure import ProcessFailed, Traceback
from kvdiag.diagnosis.exceptions import exceptions_of
from kvdiag.diagnosis.rules.judgements import free_at, other_cause
from kvdiag.diagnosis.rules.rule import Case, Confidence, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import format_gib, to_gib


@rule(severity=Severity.WARNING)
def check(case: Case) -> Iterator[Finding]:
    sign = other_cause(case)
    if sign is None:
        return
    free = free_at(case, sign.line)
    left = "" if free is None else f" with {format_gib(free)} free"
    message = case.outcome.failure.message if case.outcome.failure is not None else ""
    begun = isinstance(sign, ProcessFailed | Traceback) and (
        message in ("", sign.line.text) or "Traceback" in message or "hit an exception" in message
    )
    told = f": {shorten(message, 200, placeholder=' …')}{_place(case, message)}" if message and not begun else ""
    cut = "; the line that names the error is not in the log" if begun else ""
    yield Finding(
        summary=f"It ended{left}, and not for want of memory{told}{cut}",
        why="No line of the log speaks of an overflow; memory flags would change nothing.",
        ranks=(sign.rank,),
        evidence=cite(sign, figure="available_gib", value=to_gib(free, 4)),
        confidence=Confidence.LIKELY,
    )


def _place(case: Case, message: str) -> str:
    """Where an error fell that has a name and no words: `, in cache_unfinished_req (swa_radix_cache.py, line 565)`."""
    if not message.replace(".", "").isidentifier():
        return ""
    frames = next((e.frames for e in exceptions_of(case.launch) if e.kind == message), ())
    path, _, rest = frames[-1].partition(", line ") if frames else ("", "", "")
    line, _, function = rest.partition(", in ")
    return f", in {function} ({path.replace(chr(92), '/').rpartition('/')[2]}, line {line})" if function else ""
