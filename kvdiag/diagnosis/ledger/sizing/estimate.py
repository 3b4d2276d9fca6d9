"""Estimate: a computed figure and the bounds that printed digits leave it."""

from __future__ import annotations

from dataclasses import dataclass

HALF_DIGIT = 0.005
"""GiB: SGLang prints two decimals, so a printed figure is known to half a hundredth."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its lowest and highest value; low ≤ value ≤ high."""

    value: float
    low: float
    high: float

    @staticmethod
    def exactly(value: float) -> Estimate:
        """A figure without uncertainty, such as a flag's value."""
        return Estimate(value, value, value)

    @staticmethod
    def around(value: float, margin: float) -> Estimate:
        """A figure known to a margin on both sides."""
        return Estimate(value, value - abs(margin), value + abs(margin))

    def plus(self, other: Estimate | float) -> Estimate:
        """The sum, bounds added."""
        if isinstance(other, Estimate):
            return Estimate(self.value + other.value, self.low + other.low, self.high + other.high)
        return Estimate(self.value + other, self.low + other, self.high + other)

    def minus(self, other: Estimate) -> Estimate:
        """The difference, bounds crossed."""
        return Estimate(self.value - other.value, self.low - other.high, self.high - other.low)

    def times(self, factor: float) -> Estimate:
        """Scaled by an exact number."""
        ends = sorted((self.low * factor, self.high * factor))
        return Estimate(self.value * factor, ends[0], ends[1])

    def at_least(self, floor: float) -> Estimate:
        """No bound below `floor`."""
        return Estimate(max(floor, self.value), max(floor, self.low), max(floor, self.high))

    def at_most(self, ceiling: float) -> Estimate:
        """No bound above `ceiling`."""
        return Estimate(min(ceiling, self.value), min(ceiling, self.low), min(ceiling, self.high))

    def rounded(self, digits: int) -> dict[str, float]:
        """For the document: value and bounds, rounded; whole numbers where digits is 0."""
        if digits == 0:
            return {"value": int(self.value), "low": int(self.low), "high": int(self.high)}
        return {"value": round(self.value, digits), "low": round(self.low, digits), "high": round(self.high, digits)}
