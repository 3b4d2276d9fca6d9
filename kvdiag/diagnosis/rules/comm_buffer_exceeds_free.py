"""An expert-parallel or symmetric-memory buffer is larger than what is free when it is created.

What it sees
    An allocation error of DeepEP or NVSHMEM, or an overflow in the frame that creates the dispatch buffer.
Why it matters
    The buffer is made late, often at the end of capture, outside the allocator: what the pool left is too little.
What to do
    Lower the fraction, or the dispatch tokens. A larger heap of the library needs even more.
Sources
    DeepEP, buffer.py; its size follows from tokens × hidden size × experts.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.libraries import CommunicationBufferShort
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import lower_fraction, remedies
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import to_gib


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    said = case.launch.first(CommunicationBufferShort)
    sign = judgements.memory_ran_out(case)
    framed = sign if sign is not None and judgements.site(case, sign) == "dispatch_buffer" else None
    source = said or framed
    if source is None:
        return
    free = judgements.free_at(case, source.line)
    tried = getattr(framed, "tried", None)
    yield Finding(
        summary="The expert-parallel buffer does not fit in what is free when it is created",
        why="It is allocated outside PyTorch, late in the start; a larger heap of the library would need even more.",
        ranks=(source.rank,),
        evidence=cite(source, figure="available_gib", value=to_gib(free, 4)),
        remedies=remedies(
            lower_fraction(case, tried),
            Remedy(
                "SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK",
                Direction.LOWER,
                cost="It costs batch size: a rank may send fewer tokens at once.",
            ),
        ),
        confidence=Confidence.LIKELY,
    )
