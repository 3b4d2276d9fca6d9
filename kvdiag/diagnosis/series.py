"""Serving traffic as series: counts and peaks exactly as read, points thinned to what a plot can show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from kvdiag.diagnosis.events.serving import DecodeBatch, PrefillBatch

MAX_POINTS = 2_000
N = TypeVar("N", int, float)


@dataclass
class Series:
    """The batch lines of one launch."""

    decode_batches: int = 0
    prefill_batches: int = 0
    peak_usage: float | None = None
    peak_swa_usage: float | None = None
    peak_mamba_usage: float | None = None
    peak_running: int | None = None
    peak_queue: int | None = None
    peak_new_tokens: int | None = None
    points: list[DecodeBatch | PrefillBatch] = field(default_factory=list)
    last_prefill: PrefillBatch | None = None
    last: DecodeBatch | PrefillBatch | None = None
    first_line: tuple[int, int] | None = None
    _stride: int = 1
    _seen: int = 0

    def add(self, batch: DecodeBatch | PrefillBatch) -> None:
        """Take one batch line in; memory stays bounded."""
        if isinstance(batch, DecodeBatch):
            self.decode_batches += 1
        else:
            self.prefill_batches += 1
            self.peak_new_tokens = _most(self.peak_new_tokens, batch.new_tokens)
            self.last_prefill = batch
        self.first_line = self.first_line or (batch.line.file, batch.line.number)
        self.last = batch
        self.peak_usage = _most(self.peak_usage, batch.usage)
        self.peak_swa_usage = _most(self.peak_swa_usage, batch.swa_usage)
        self.peak_mamba_usage = _most(self.peak_mamba_usage, batch.mamba_usage)
        self.peak_running = _most(self.peak_running, batch.running)
        self.peak_queue = _most(self.peak_queue, batch.queued)
        if self._seen % self._stride == 0:
            self.points.append(batch)
            if len(self.points) > MAX_POINTS:
                self.points = self.points[::2]
                self._stride *= 2
        self._seen += 1


def _most(a: N | None, b: N | None) -> N | None:
    if a is None or b is None:
        return a if b is None else b
    return max(a, b)
