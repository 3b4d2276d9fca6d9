"""The fractions that the parts of a page have in common."""

from __future__ import annotations

from kvdiag.diagnosis.units import ceil_step
from reports.document import Launch, dig


def least_that_starts(launch: Launch) -> float | None:
    """The least --mem-fraction-static that starts, in steps of 0.001; None where the log does not tell.

    The engine's own, which holds a page of tokens; else the next step above that at which the budget is nothing.
    """
    known = dig(launch, "kv_cache", "fractions", "smallest_that_starts")
    if isinstance(known, int | float):
        return ceil_step(known)
    nothing = dig(launch, "kv_cache", "budget", "smallest_fraction")
    return ceil_step(nothing) if isinstance(nothing, int | float) else None
