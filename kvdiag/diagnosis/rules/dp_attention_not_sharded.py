"""Under data-parallel attention each rank keeps all heads and all attention weights.

What it sees
    Data-parallel attention, and either an overflow while a pool is built or weights larger than the checkpoint
    divided by the ranks.
Why it matters
    Sizes divided by the tensor size come out too small: the KV cache and the attention weights are not split.
What to do
    Budget with the attention's own tensor size, tp / dp; cap --max-total-tokens.
Sources
    SGLang, layers/dp_attention.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.overflow import DeviceOutOfMemory
from kvdiag.diagnosis.events.weights import WeightsLoaded
from kvdiag.diagnosis.outcome import Stage
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import knob, lower_fraction, remedies
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import GIB


@rule(severity=Severity.WARNING, unless=(judgements.without_data_parallel,))
def check(case: Case) -> Iterator[Finding]:
    if not judgements.attends_in_data_parallel(case):
        return
    sign = judgements.memory_ran_out(case)
    in_pool = sign is not None and (
        judgements.is_draft_pool(case, sign)
        or (judgements.stage(case, sign) is Stage.KV_CACHE and not judgements.is_draft_start(case, sign))
    )
    loaded = next((e for e in case.launch.each(WeightsLoaded) if e.used), None)
    expected = judgements.checkpoint_share(case, sharded=True)
    heavy = (
        loaded is not None
        and expected is not None
        and (loaded.used or 0) > case.thresholds.weights_multiple * expected + GIB
    )
    if not in_pool and not heavy:
        return
    tried = sign.tried if isinstance(sign, DeviceOutOfMemory) else None
    yield Finding(
        summary="Data-parallel attention keeps all heads and attention weights on each rank; sizes divided by"
        " --tp-size are too small" + (", and a pool overflowed" if in_pool else ""),
        evidence=cite(sign if in_pool else loaded),
        remedies=remedies(
            knob(case, "--max-total-tokens", Direction.SET, cost="It costs KV tokens above the cap."),
            lower_fraction(case, tried),
        )
        if in_pool
        else (),
        severity=Severity.CRITICAL if in_pool else Severity.INFO,
        confidence=Confidence.LIKELY,
    )
