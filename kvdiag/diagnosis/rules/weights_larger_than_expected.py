"""A rank's weights are a multiple of what the checkpoint makes expect.

What it sees
    "mem usage" of the target's load against parameters × bytes / ranks, where the model's name tells its parameters
    and its format.
Why it matters
    The data type was widened, experts or attention are replicated, or an offload is not active. The pool pays for it.
What to do
    Fix the data type, the expert layout or the loader first; tune the fraction afterwards. Raising the fraction hides
    the fault.
Sources
    SGLang, model_runner.py: load_model(); model_loader/loader.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.weights import WeightsLoaded
from kvdiag.diagnosis.rules.judgements import checkpoint_share, memory_ran_out, ranks_of, refusals, weights_used
from kvdiag.diagnosis.rules.rule import Case, Confidence, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import GIB, format_gib, to_gib


@rule(severity=Severity.WARNING, needs=(WeightsLoaded,))
def check(case: Case) -> Iterator[Finding]:
    loaded = [e for e in case.launch.each(WeightsLoaded) if e.used is not None]
    expected = checkpoint_share(case)
    if not loaded or expected is None:
        return
    first = loaded[0]
    used = weights_used(case)
    if used is None or used < case.thresholds.weights_multiple * expected + GIB:
        return
    yield Finding(
        summary=f"The weights take {format_gib(used)} a rank where the checkpoint makes expect about"
        f" {format_gib(round(expected))}",
        why="The data type was widened, layers are replicated, or an offload is not active. A higher"
        " fraction hides it.",
        formula="parameters × bytes / (tensor ranks × pipeline stages)",
        ranks=ranks_of(loaded[:64]),
        evidence=cite(first, figure="weights gib", value=to_gib(used, 4)),
        confidence=Confidence.LIKELY,
        severity=Severity.WARNING if memory_ran_out(case) or refusals(case) else Severity.ADVICE,
        stake=to_gib(round(used - expected)) or 0.0,
    )
