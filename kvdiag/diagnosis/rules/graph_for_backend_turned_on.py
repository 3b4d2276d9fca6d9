"""A new release captures graphs where the old one did not, and the same command overflows in capture.

What it sees
    Two starts of the upload with the same given arguments: the first got ready without a capture and without being told
    to, the second overflows while graphs are captured.
Why it matters
    The command left no room for graphs, because none were made for this backend.
What to do
    Lower the fraction by what graphs take, or switch them off as they were.
Sources
    SGLang issue 1455: graphs turned on for one attention backend.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.cuda_graph import GraphBegin, GraphEnd
from kvdiag.diagnosis.events.progress import CaptureProgress
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules.rule import Case, Confidence, Finding, Severity, cite, rule


@rule(severity=Severity.WARNING, unless=(judgements.without_earlier_start,))
def check(case: Case) -> Iterator[Finding]:
    found = judgements.capture_overflow(case)
    if found is None:
        return
    for before in reversed(case.earlier):
        given = _given(case)
        if not given or given != _given(before) or not before.is_ready:
            continue
        if before.launch.has(GraphBegin, GraphEnd, CaptureProgress) or any("graph" in name for name in given):
            return
        yield Finding(
            summary="The same command came up without graphs before, and overflows now that they are captured",
            why="Its fraction left no room for graphs, because the other release made none.",
            ranks=(found.sign.rank,),
            evidence=cite(before.limits, case.launch.first(GraphBegin, CaptureProgress), found.sign),
            part_of="prefill-graph-oom" if found.prefill else "decode-graph-oom",
            confidence=Confidence.LIKELY,
        )
        return


def _given(case: Case) -> dict[str, object]:
    return {name: a.value for name, a in case.launch.arguments.items() if a.origin == "given"}
