"""SGLang's own sizing, redone: one file per pool family, from readings and fraction to tokens."""

from __future__ import annotations

from collections.abc import Sequence

from kvdiag.diagnosis.launches import Launch
from kvdiag.diagnosis.ledger.model import Ledger
from kvdiag.diagnosis.ledger.sizing.gather import inputs_of
from kvdiag.diagnosis.ledger.sizing.inputs import DraftModel, Family, PrintedPools, RankMemory, SizingInputs
from kvdiag.diagnosis.ledger.sizing.limits import Limit, LimitedBy
from kvdiag.diagnosis.ledger.sizing.sizing import Sizing, size_inputs


def size(launch: Launch, ledgers: Sequence[Ledger]) -> Sizing:
    """The sizing of a launch: its budget redone, what limits its pool, the fractions worth naming."""
    return size_inputs(inputs_of(launch, ledgers))


__all__ = [
    "DraftModel",
    "Family",
    "Limit",
    "LimitedBy",
    "PrintedPools",
    "RankMemory",
    "Sizing",
    "SizingInputs",
    "size",
    "size_inputs",
]
