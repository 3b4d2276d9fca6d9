"""A library reports a shortage of memory in other words.

What it sees
    "invalid argument", or a library's status such as CUBLAS_STATUS_ALLOC_FAILED, with less than 1 GiB free at that
    moment. A status that says itself that an allocation failed also where the log prints no free memory.
Why it matters
    It reads like a fault of the program. With so little free it is a shortage.
What to do
    Check free memory first: lower the fraction, or make the capture smaller.
Sources
    CUDA libraries: a workspace that cannot be allocated is reported by a status of theirs.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.failure import CaptureFailed
from kvdiag.diagnosis.events.libraries import DisguisedError
from kvdiag.diagnosis.events.pattern import Event
from kvdiag.diagnosis.outcome import Stage
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import lower_fraction, remedies, smaller_graphs
from kvdiag.diagnosis.rules.rule import Case, Confidence, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import Bytes, format_gib, to_gib


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    if judgements.memory_ran_out(case) is not None:
        return
    said = [*case.launch.each(DisguisedError)]
    said_in_capture = [e for e in case.launch.each(CaptureFailed) if judgements.is_invalid_argument(e.reason)]
    for sign in [*said, *said_in_capture][:1]:
        free = judgements.free_at(case, sign.line)
        if not _is_short(case, sign, free):
            return
        capture = bool(said_in_capture) or judgements.stage(case, sign) is Stage.CUDA_GRAPH
        yield Finding(
            summary=f"A library fails{_left(free)}: its words stand for a shortage of memory",
            why="Below 1 GiB a workspace cannot be allocated, and the library reports that by a status of its own.",
            ranks=(sign.rank,),
            evidence=cite(sign, figure="available_gib", value=to_gib(free, 4)),
            remedies=remedies(
                lower_fraction(case, judgements.missing(case, free)),
                smaller_graphs(case) if capture else None,
            ),
            confidence=Confidence.LIKELY if free is not None else Confidence.POSSIBLE,
        )


def _is_short(case: Case, sign: Event, free: Bytes | None) -> bool:
    """Whether memory may be what was short: less than 1 GiB free; where a status says that an allocation failed, also
    no reading at all, or a thin one from before the traffic began."""
    if free is not None and free < case.thresholds.memory_is_short:
        return True
    if "ALLOC_FAILED" not in sign.line.text:
        return False
    served = judgements.stage(case, sign) is Stage.SERVING
    return free is None or (served and free < case.thresholds.thin_share * case.wanted_range[1])


def _left(free: Bytes | None) -> str:
    return "" if free is None else f" with {format_gib(free)} free"
