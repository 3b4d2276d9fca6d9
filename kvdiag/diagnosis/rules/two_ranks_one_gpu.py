"""Two ranks of the server share one card.

What it sees
    Overflows of two ranks that name the same device, with a second process of about the same size on it; or lines that
    place two ranks on one GPU: NCCL's "Duplicate GPU detected", or data-parallel workers that start fewer cards apart
    than each of them takes.
Why it matters
    The weights lie twice on that card while another one is empty.
What to do
    Correct the flags that place the ranks, or the visible devices.
Sources
    SGLang, engine.py: base_gpu_id and gpu_id_step.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvdiag.diagnosis.events.distributed import DuplicateDevice
from kvdiag.diagnosis.rules import judgements
from kvdiag.diagnosis.rules._pricing import knob
from kvdiag.diagnosis.rules.rule import Case, Confidence, Direction, Finding, Remedy, Severity, cite, rule


@rule(severity=Severity.CRITICAL)
def check(case: Case) -> Iterator[Finding]:
    placed = judgements.shared_start(case)
    if placed is not None:
        one, other, name, second_name, gpu = placed
        yield Finding(
            summary=f"{name} and {second_name} are both put on GPU {gpu}",
            why="A data-parallel worker takes a card for each tensor rank of each pipeline stage; the next one has to"
            " start after them.",
            evidence=cite(one, other, figure="gpu", value=gpu),
            remedies=(
                Remedy("upgrade", Direction.SET, to="a build that counts the stages", cost="It costs an upgrade."),
                knob(case, "--base-gpu-id", Direction.SET, cost="It costs one server for each worker."),
            ),
            severity=Severity.WARNING if case.is_ready else Severity.CRITICAL,
            confidence=Confidence.LIKELY,
        )
        return
    double = case.launch.first(DuplicateDevice)
    if double is not None:
        yield Finding(
            summary=f"Rank {double.one} and rank {double.other} are both put on one GPU"
            if double.one is not None and double.other is not None
            else "Two ranks are put on one GPU",
            why="NCCL refuses two ranks on one card: fewer cards are visible than ranks, or their numbers are wrong.",
            evidence=cite(double, figure="device", value=double.device),
            remedies=(
                Remedy(
                    "CUDA_VISIBLE_DEVICES", Direction.SET, cost="It costs nothing; each rank gets a card of its own."
                ),
                knob(case, "--tp-size", Direction.LOWER, cost="It costs memory: each rank holds a larger share."),
            ),
        )
        return
    pair = judgements.sharing_ranks(case)
    if pair is None:
        return
    first, second = pair
    yield Finding(
        summary=f"{first.rank or 'One rank'} and {second.rank or 'another'} both use GPU {first.gpu}",
        why="The weights lie twice on that card while another one is empty.",
        ranks=tuple(r for r in (first.rank, second.rank) if r),
        evidence=cite(first, second, figure="gpu", value=first.gpu),
        remedies=(
            knob(case, "--base-gpu-id", Direction.SET, cost="It costs nothing; each rank gets a card of its own."),
            Remedy("CUDA_VISIBLE_DEVICES", Direction.SET, cost="It costs nothing; each rank gets a card of its own."),
        ),
        confidence=Confidence.LIKELY,
    )
