"""A rank's weights are a multiple of what the checkpoint makes expect.

What it sees
    "mem usage" of the target's load against parameters × bytes / ranks, where the model's name tells its parameters
    and its format. Likely where they are a plain multiple of it: twice or four times for a wider data type, as many
    times as there are ranks where nothing was divided. Possible otherwise.
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
from kvdiag.diagnosis.rules._formulas import gib, worked
from kvdiag.diagnosis.rules.judgements import (
    checkpoint_share,
    memory_ran_out,
    ranks_in_tensor_group,
    ranks_of,
    refusals,
    weights_used,
)
from kvdiag.diagnosis.rules.rule import Case, Confidence, Finding, Severity, cite, rule
from kvdiag.diagnosis.units import GIB, format_gib, to_gib

CLOSES = 0.12  # scales, embeddings and layers left in another format come on top of a plain multiple


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
    what = _multiple(case, used / expected)
    yield Finding(
        summary=f"The weights take {format_gib(used)} a rank where the checkpoint makes expect about"
        f" {format_gib(round(expected))}{what}",
        why="The data type was widened, layers are replicated, or an offload is not active. A higher"
        " fraction hides it.",
        formula=worked(
            "weights / (parameters × bytes / (tensor ranks × pipeline stages))",
            f"{gib(used)} / {gib(expected)} = {used / expected:.2f}",
        ),
        ranks=ranks_of(loaded[:64]),
        evidence=cite(first, figure="weights gib", value=to_gib(used, 4)),
        confidence=Confidence.LIKELY if what else Confidence.POSSIBLE,
        severity=Severity.WARNING if memory_ran_out(case) or refusals(case) else Severity.ADVICE,
        stake=to_gib(round(used - expected)) or 0.0,
    )


def _multiple(case: Case, times: float) -> str:
    """Which plain multiple the weights are, in words; "" where they are none."""
    ranks = ranks_in_tensor_group(case)
    known = {
        2: "twice that: as in a data type twice as wide",
        4: "four times that: as in a data type four times as wide",
    }
    if ranks > 1:
        known[ranks] = f"{ranks} times that: as if not divided over the {ranks} ranks"
    near = next((text for whole, text in known.items() if abs(times / whole - 1) <= CLOSES), "")
    return f", {near}" if near else ""
