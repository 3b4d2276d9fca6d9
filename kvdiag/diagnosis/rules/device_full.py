"""Device memory ran out, and the error names no figure.

What it sees
    "CUDA error: out of memory", "HIP error: out of memory", cudaErrorMemoryAllocation, NCCL's "Cuda failure 2 'out of
    memory'" and the like, at a stage that no other rule is about: before the weights, in the warm-up, while serving, or
    at none that the log shows.
Why it matters
    The driver refused memory to a library, a kernel or a context, past PyTorch's allocator, whose flags do not reach
    it; or the log has PyTorch's own error without its sentences.
What to do
    Before the weights load the card was full already: free it. Later the pool left too little: lower the fraction, and
    make the batch at work smaller.
Sources
    CUDA driver API, NCCL: their errors carry no sizes; PyTorch's own overflow does, where its message is whole.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.libraries import DeviceFull
from kvdiag.diagnosis.outcome import Stage
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import OTHERS, lower_fraction, remedies, smaller_chunk
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule
from kvdiag.diagnosis.units import format_gib, to_gib

_WHO = {"communication": "NCCL", "driver": "the driver", "allocator": "PyTorch's allocator", "metal": "Metal"}
_ELSEWHERE = (Stage.WEIGHTS, Stage.KV_CACHE, Stage.CUDA_GRAPH)


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    sign = judgements.memory_ran_out(case)
    if not isinstance(sign, DeviceFull) or judgements.overflows(case) or judgements.is_trainers(case, sign):
        return
    stage = judgements.stage(case, sign)
    if stage in _ELSEWHERE or judgements.site(case, sign) == "dispatch_buffer":
        return
    free = judgements.free_at(case, sign.line)
    early = stage in (Stage.ARGUMENTS, Stage.DISTRIBUTED) and sign.by != "communication"
    who = _WHO.get(sign.by, "a library")
    left = "" if free is None or early else f"; {format_gib(free)} were free when it was last printed"
    kind = judgements.last_batch_kind(case, sign)
    if early:
        told = f"The card is full before anything of this server is on it: {who} was refused memory"
        why = "Nothing of this server is on the card yet, so that another process holds it."
        offers = remedies(Remedy(OTHERS, Direction.REMOVE, cost="It costs the other program its GPU."))
    else:
        past = "" if sign.by == "allocator" else ", past PyTorch's allocator"
        told = f"GPU memory ran out{past}: {who} was refused memory, without a figure{left}"
        why = "What the pool leaves has to hold kernels, communicators and a batch's temporaries."
        offers = remedies(
            lower_fraction(case, judgements.missing(case, free)),
            smaller_chunk(case) if kind == "prefill" else None,
        )
    yield Finding(
        summary=told,
        why=why,
        ranks=(sign.rank,),
        evidence=cite(sign, figure="available_gib", value=to_gib(free, 4)) + cite(case.free_at_end),
        remedies=offers,
        confidence=Confidence.LIKELY if stage not in (None, Stage.ARGUMENTS) else Confidence.POSSIBLE,
        stake=to_gib(case.wanted_range[0]) or 0.0,
    )
