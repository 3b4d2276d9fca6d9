"""Bytes: the one place where size text becomes bytes, and bytes become text."""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation

GIB = 1 << 30
MIB = 1 << 20
STEP = 0.001
"""Fractions of memory are said and proposed in steps of a thousandth."""

_UNITS = {
    "b": 1,
    "byte": 1,
    "bytes": 1,
    "kb": 1 << 10,
    "kib": 1 << 10,
    "mb": MIB,
    "mib": MIB,
    "gb": GIB,
    "gib": GIB,
    "tib": 1 << 40,
    "tb": 1 << 40,
    "pib": 1 << 50,
    "eib": 1 << 60,
}
_LARGEST = 1 << 80  # a corrupted length may print as anything; beyond this it is no size


class Bytes(int):
    """A whole number of bytes; may be negative where memory came back."""

    __slots__ = ()

    @property
    def gib(self) -> float:
        """In GiB (2^30 bytes), to the byte's precision."""
        return self / GIB

    def __add__(self, other: int) -> Bytes:
        return Bytes(int(self) + int(other))

    def __sub__(self, other: int) -> Bytes:
        return Bytes(int(self) - int(other))

    def __neg__(self) -> Bytes:
        return Bytes(-int(self))


def read_size(number: str, unit: str = "GB") -> Bytes | None:
    """A printed size as bytes; SGLang and PyTorch print "GB" and mean 2^30 bytes. None when it is no size."""
    factor = _UNITS.get(unit.strip().lower())
    try:
        value = Decimal(number)
    except InvalidOperation:
        return None
    if factor is None or not value.is_finite() or abs(value) > _LARGEST:
        return None
    return Bytes(round(value * factor))


def read_decimal_gb(number: str) -> Bytes | None:
    """A size printed in units of 10^9 bytes, as SGLang prints host memory (HiCache)."""
    try:
        value = Decimal(number)
    except InvalidOperation:
        return None
    if not value.is_finite() or abs(value) > _LARGEST:
        return None
    return Bytes(round(value * 10**9))


def from_gib(value: float) -> Bytes:
    """GiB as a float, to whole bytes."""
    return Bytes(round(value * GIB))


def to_gib(size: int | None, digits: int = 6) -> float | None:
    """Bytes as GiB for the document: None stays None."""
    return None if size is None else round(size / GIB, digits)


def floor_step(fraction: float) -> float:
    """An upper limit to a thousandth, never above what it is."""
    return round(math.floor(fraction / STEP + 1e-6) * STEP, 3)


def ceil_step(fraction: float) -> float:
    """A lower limit to a thousandth, never below what it is."""
    return round(math.ceil(fraction / STEP - 1e-6) * STEP, 3)


def format_gib(size: int, digits: int = 2) -> str:
    """Bytes as a reader wants them: "10.42 GiB"."""
    return f"{size / GIB:,.{digits}f} GiB"


def format_apart(one: int, other: int) -> tuple[str, str]:
    """Two sizes with as many decimals, four at most, as it takes to tell them apart."""
    digits = 2
    while digits < 4 and one != other and format_gib(one, digits) == format_gib(other, digits):
        digits += 1
    return format_gib(one, digits), format_gib(other, digits)


def format_tokens(count: int) -> str:
    """Tokens with separators: "159,277"."""
    return f"{count:,}"


def format_prediction(tokens: float) -> str:
    """A predicted count to four digits: more would claim what the print cannot give."""
    step = 10 ** max(0, len(str(int(tokens))) - 4)
    return format_tokens(int(round(tokens / step) * step))


def one_sided(low: float | None, high: float | None) -> tuple[str, float] | None:
    """How a figure is said of which one end is known, and that end: "at most", "at least"; None of both or neither."""
    if low is None and high is not None:
        return "at most", high
    return ("at least", low) if low is not None and high is None else None


def times_or_percent(before: float, after: float) -> str:
    """A change against what was: "+22 %", "−45 %", "45 × as many" from three times on; "" where it rounds to none."""
    times = after / before
    if times >= 3:
        return f"{times:.2g} × as many" if times < 10 else f"{times:,.0f} × as many"
    percent = round(100 * (times - 1))
    return f"{percent:+d} %".replace("-", "−") if percent else ""
