"""Where a pool's use reaches a new height: found exactly also in batch lines of which only a sample is read."""

from __future__ import annotations

from typing import Final

from kvdiag.diagnosis.scanner import Scanner, scanner_for

# One ladder a pool: a Mamba pool that is always full must not hide what the others do.
_POOLS: Final = (b", token usage: ", b"full token usage: ", b"swa token usage: ", b"mamba usage: ")
_STEPS: Final = tuple(b"%d.%02d" % divmod(step, 100) for step in range(101))
_PATIENCE: Final = 32  # blocks between two looks at which steps are still above the peak


class Peaks:
    """The highest use of each pool so far, in hundredths, as SGLang prints it."""

    def __init__(self) -> None:
        self._highest = dict.fromkeys(_POOLS, -1)
        self._scanner: Scanner | None = None
        self._wait = 0

    def new(self, block: bytes) -> list[int]:
        """The offsets just behind the first figure of each new height in a block."""
        if self._scanner is None or self._wait <= 0:
            self._scanner = scanner_for(
                [pool + step for pool in _POOLS for step in _STEPS[max(self._highest[pool] + 1, 1) :]]
            )
            self._wait = _PATIENCE
        self._wait -= 1
        found: list[int] = []
        for end in self._scanner.ends(block):
            for pool in _POOLS:
                if block.endswith(pool, 0, end - 4):
                    height = int(block[end - 4 : end].replace(b".", b""))
                    if height > self._highest[pool]:
                        self._highest[pool] = height
                        found.append(end)
        return found
