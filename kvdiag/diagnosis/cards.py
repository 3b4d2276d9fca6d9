"""Known cards and their total memory, for logs that name the card and print no capacity. Such a figure is ASSUMED."""

from __future__ import annotations

import re

from kvdiag.diagnosis.units import MIB, Bytes

# Total memory as the driver reports it, in MiB; the first expression that fits the name counts.
_MIB: tuple[tuple[str, int], ...] = (
    (r"RTX_PRO_6000_Blackwell", 97_887),
    (r"RTX_PRO_5000_Blackwell", 48_935),
    (r"H100_NVL", 95_830),
    (r"H100_PCIe", 81_559),
    (r"H100", 81_559),
    (r"H800", 81_559),
    (r"H200_NVL|H200", 143_771),
    (r"H20_3e|H20-3e", 144_384),
    (r"H20", 97_871),
    (r"GB300|B300", 275_040),
    (r"GB200", 189_471),
    (r"B200", 183_359),
    (r"A100.*40GB", 40_960),
    (r"A100|A800", 81_920),
    (r"A10G", 23_028),
    (r"A10(?![a-z])", 23_028),
    (r"A40(?![a-z])", 46_068),
    (r"RTX_A6000|RTX_6000_Ada", 49_140),
    (r"L40S?", 46_068),
    (r"L4(?![a-z])", 23_034),
    (r"L20(?![a-z])", 46_068),
    (r"T4", 15_360),
    (r"V100.*32GB", 32_768),
    (r"V100.*16GB", 16_384),
    (r"RTX_5090", 32_607),
    (r"RTX_4090_D|RTX_4090", 24_564),
    (r"RTX_3090", 24_576),
    (r"RTX_5080|RTX_5070_Ti", 16_303),
    (r"RTX_4080", 16_376),
    (r"MI355X", 294_896),
    (r"MI325X", 262_128),
    (r"MI300X|MI308X", 196_592),
)

# Names under which another card is asked for, by maker; each is in the table above.
NVIDIA = (
    "T4", "V100 16GB", "V100 32GB", "A10", "A40", "L4", "L20", "L40S", "A100 40GB", "A100 80GB", "RTX 3090", "RTX 4080",
    "RTX 4090", "RTX 5080", "RTX 5090", "RTX 6000 Ada", "RTX PRO 5000 Blackwell", "RTX PRO 6000 Blackwell", "H20",
    "H100", "H100 NVL", "H200", "B200", "B300",
)  # fmt: skip
AMD = ("MI300X", "MI325X", "MI355X")

# Devices whose processor and GPU share one memory: "free" is the operating system's available RAM.
UNIFIED = re.compile(r"GB10\b|Thor|Orin|Apple", re.I)


_MOST_UNIFIED = 130_000  # MiB in all

# What a card's name is made of, as drivers spell it.
_NAME = re.compile(r"[A-Za-z0-9 _./()-]{1,80}")
_SIZE = re.compile(r"(\d+)_?Gi?B(?![a-z0-9])", re.I)


def known_capacity(name: str) -> Bytes | None:
    """Total memory of a card by its name; None for one that is not in the table, or shares its memory.

    A name counts as a whole: a GH200 is no H200, an RTX A1000 no A100, a T400 no T4. A laptop's card has less memory
    than the desktop's of the same name, and a size in the name is another card's where it is not this one's: of an H100
    with 96 GB, an RTX 4090 with 48 GB, a part of a card. Two cards' names are no card's.
    """
    plain = name.replace(" ", "_")
    if not _NAME.fullmatch(name) or "laptop" in plain.lower():
        return None
    for pattern, mib in _MIB:
        if found := _search(pattern, plain):
            rest = f"{plain[: found.start()]} {plain[found.end() :]}"
            is_one = not any(_search(other, rest) for other, _ in _MIB)
            return Bytes(mib * MIB) if is_one and _has_size(plain, mib) else None
    return None


def _search(pattern: str, name: str) -> re.Match[str] | None:
    return re.search(rf"(?<![a-z0-9])(?:{pattern})(?![0-9])", name, re.I)


def _has_size(name: str, mib: int) -> bool:
    """Whether every size that a name states is this one: makers count in 2^30 or in 10^9, and round."""
    return all(0.97 * mib / 1024 <= int(size) <= 1.03 * mib * MIB / 1e9 for size in _SIZE.findall(name))


def is_amd(name: str) -> bool:
    """Whether a card of this name is AMD's; the others of the table are NVIDIA's."""
    return name.strip().upper().startswith(("MI", "AMD"))


def totals_near(mib: float, room: float) -> list[int]:
    """The known totals, in MiB, that are at least this much and at most `room` more; those of several cards once."""
    return sorted({total for _, total in _MIB if 0 <= total - mib <= room})


def readable(name: str) -> str:
    """A card's name as a reader wants it: "RTX PRO 6000 Blackwell Server Edition"."""
    return name.replace("_", " ").removeprefix("NVIDIA ").strip()


def is_unified(name: str) -> bool:
    """Whether a device of this name shares its memory with the processor."""
    return bool(UNIFIED.search(name))


def total_of_unified(mib: int | None) -> bool:
    """Whether a driver's total, in MiB, is that of a host of 128 GB that shares it with the GPU (GB10, Thor).

    No discrete card's total lies there: the next below is a GH200 of 96 GB, the next above an H200 of 141 GB.
    """
    return mib is not None and 116_000 <= mib <= _MOST_UNIFIED


def may_be_unified(free: Bytes) -> bool:
    """Whether so much free memory may be a host's of 128 GB that shares it, on a device that nothing names.

    No smaller discrete card of the table has as much. Of a larger one it would be a part, with the rest in use.
    """
    return max(mib for _, mib in _MIB if mib < _MOST_UNIFIED) * MIB < free <= _MOST_UNIFIED * MIB
