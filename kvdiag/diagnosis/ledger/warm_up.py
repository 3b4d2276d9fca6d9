"""DeepGEMM's warm-up: what its lines say of the memory it borrows, and what stayed taken from first line to last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kvdiag.diagnosis.events.weights import DeepGemmWarmup
from kvdiag.diagnosis.ledger.model import Reading
from kvdiag.diagnosis.lines import LogLine
from kvdiag.diagnosis.units import Bytes, format_gib

_PRINT = 0.0051 * 2**30


@dataclass(frozen=True, slots=True)
class WarmUp:
    """One step's warm-up.

    kept   bytes that stayed taken between its first and its last line; None where a single line, or lines of another
           GPU, do not tell
    words  what the lines say, and why nothing is booked where nothing is
    """

    kept: Bytes | None
    words: str
    lines: tuple[LogLine, ...]


def warm_up(events: Sequence[DeepGemmWarmup], before: Reading) -> WarmUp | None:
    """The warm-up between two readings, of which `before` is the first; None without a line of it.

    It runs on the first rank of a node, once for every shape, and gives its tensors back: each line prints what the
    shape needs and what is free before it starts. What it leaves is code that the driver loads.
    Source: layers/deep_gemm_wrapper/compile_utils.py, _compile_deep_gemm_one_type_all().
    """
    if not events:
        return None
    needs = [event.required for event in events if event.required is not None]
    most = f", which borrows up to {format_gib(max(needs))} and gives it back" if needs else ""
    lines = tuple(dict.fromkeys(event.line for event in events))
    free = [event.available for event in events if event.available is not None]
    if len(lines) < 2 or len(free) < 2:
        return WarmUp(None, f"DeepGEMM's warm-up is in it{most}; one line does not tell what it keeps", lines)
    if max(free) > before.available + _PRINT:
        return WarmUp(None, f"DeepGEMM's warm-up is in it{most}; its lines are of another GPU", lines)
    kept = Bytes(free[0] - free[-1])
    words = (
        f"DeepGEMM's warm-up{most}: {format_gib(free[0])} free at its first line, {format_gib(free[-1])} at its last"
    )
    return WarmUp(kept, words, (lines[0], lines[-1]))
