"""A fraction that no line prints: what SGLang would have taken itself, and whether the log's own pools say so too."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kvdiag.diagnosis.ledger.sizing.budget import implied_fraction
from kvdiag.diagnosis.ledger.sizing.estimate import Estimate
from kvdiag.diagnosis.ledger.sizing.inputs import AutomaticFraction, FractionCandidate, SizingInputs

_ROUNDING = 0.00051
"""SGLang rounds an automatic fraction to three decimals."""
_FEW = 2
_NARROW = 0.012
"""Where the log shows no command, the pools may pick one of two values, or one of more as long as what they leave open,
times the values, stays under this: of many values one would fit by chance."""


@dataclass(frozen=True, slots=True)
class FractionCheck:
    """What became of the automatic fraction.

    value    the one used; None where none is
    basis    "derived" where every input is printed, "assumed" where the card is known by its name or its size only
    agrees   whether the fraction that the pools imply is the same within rounding; None without that
    """

    value: float | None
    basis: str | None
    agrees: bool | None
    implied: Estimate | None
    candidates: tuple[FractionCandidate, ...]
    sentence: str

    def to_document(self) -> dict[str, object]:
        """For the report; fractions to three decimals."""
        return {
            "value": self.value,
            "basis": self.basis,
            "agrees": self.agrees,
            "implied": None if self.implied is None else self.implied.rounded(3),
            "candidates": [
                {"value": one.value, "releases": one.releases, "rests_on": one.rests_on} for one in self.candidates
            ],
            "sentence": self.sentence,
        }


def with_automatic(inputs: SizingInputs) -> tuple[SizingInputs, FractionCheck | None]:
    """The launch with the automatic fraction where it may be used, and the check; unchanged where one is printed.

    It is used where the pools imply the same, or where the launch command is in the log, gives none, and leaves one
    value. A printed fraction always stands.
    """
    found = inputs.automatic
    if inputs.fraction is not None or found is None:
        return inputs, None
    implied = implied_fraction(inputs)
    fitting = [one for one in found.candidates if _fits(one.value, implied)]
    values = {one.value for one in found.candidates}
    basis = "assumed" if found.card in ("name", "free") else "derived"
    if fitting and implied is not None and (found.sure or _is_telling(implied, len(values))):
        value = min((one.value for one in fitting), key=lambda value: abs(value - implied.value))
        named = tuple(one for one in fitting if one.value == value)
        sentence = (
            f"no line prints the fraction; {value:g} is what SGLang takes itself ({_rests(named)}), and the pools imply"
            f" {implied.value:.3f}"
        )
        return (
            replace(inputs, fraction=value, fraction_basis=basis),
            FractionCheck(value, basis, True, implied, found.candidates, sentence),
        )
    if found.sure and len(values) == 1 and found.card != "free":
        value = values.pop()
        said = f"the command gives no fraction; SGLang takes {value:g} itself ({_rests(found.candidates)})"
        if implied is None:
            check = FractionCheck(value, basis, None, None, found.candidates, said)
            return replace(inputs, fraction=value, fraction_basis=basis), check
        said += f", but the pools imply {implied.value:.3f}: one of its inputs is not what the log suggests"
        check = FractionCheck(value, "assumed", False, implied, found.candidates, said)
        return replace(inputs, fraction=value, fraction_basis="assumed", fraction_doubt=said), check
    return inputs, FractionCheck(
        None, None, None if implied is None else bool(fitting), implied, found.candidates, _unused(found, implied)
    )


def _is_telling(implied: Estimate, values: int) -> bool:
    return values <= _FEW or values * (implied.high - implied.low + 2 * _ROUNDING) <= _NARROW


def _fits(value: float, implied: Estimate | None) -> bool:
    return implied is not None and implied.low - _ROUNDING <= value <= implied.high + _ROUNDING


def _rests(candidates: tuple[FractionCandidate, ...]) -> str:
    releases = ", ".join(dict.fromkeys(one.releases for one in candidates))
    return f"{candidates[0].rests_on}; {releases}"


def _unused(found: AutomaticFraction, implied: Estimate | None) -> str:
    """Why no automatic fraction is used, with those that the releases would take."""
    said = "the log does not say which fraction was in effect"
    if implied is not None:
        said += f"; its pools imply about {implied.value:.3f}"
    if not found.candidates:
        return f"{said}; SGLang's own is not known, as {found.why}" if found.why else said
    named: dict[float, list[str]] = {}
    for one in found.candidates:
        named.setdefault(one.value, []).append(one.releases)
    listed = [f"{round(value, 3):g} in {', '.join(dict.fromkeys(by))}" for value, by in named.items()]
    return f"{said}; SGLang itself would take {'; '.join(listed[:6])}"
