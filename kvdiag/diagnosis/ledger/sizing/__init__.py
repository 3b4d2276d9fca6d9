"""SGLang's own sizing, redone: one file per pool family, from readings and fraction to tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kvdiag.diagnosis.launches import Launch
from kvdiag.diagnosis.ledger.model import Ledger
from kvdiag.diagnosis.ledger.sizing.gather import inputs_of, lines_of
from kvdiag.diagnosis.ledger.sizing.inputs import DraftModel, Family, FreeWanted, PrintedPools, RankMemory, SizingInputs
from kvdiag.diagnosis.ledger.sizing.limits import Limit, LimitedBy
from kvdiag.diagnosis.ledger.sizing.sizing import Sizing, size_inputs


def size(
    launch: Launch,
    ledgers: Sequence[Ledger],
    config: Mapping[str, object] | None = None,
    wanted: FreeWanted | None = None,
) -> Sizing:
    """The sizing of a launch: its budget redone, what limits its pool, the fractions worth naming.

    config  the model's config.json where one is at hand
    wanted  the free memory wanted at the end, where somebody wants another than kvdiag's own
    """
    inputs = inputs_of(launch, ledgers, config)
    sizing = size_inputs(inputs if wanted is None else replace(inputs, wanted=wanted))
    return replace(sizing, lines=lines_of(launch, ledgers, sizing.budget))


__all__ = [
    "DraftModel",
    "Family",
    "FreeWanted",
    "Limit",
    "LimitedBy",
    "PrintedPools",
    "RankMemory",
    "Sizing",
    "SizingInputs",
    "size",
    "size_inputs",
]
