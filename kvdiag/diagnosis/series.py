"""Serving traffic as series: counts and peaks exactly as read, points thinned to what a plot can show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from kvdiag.diagnosis.events.serving import DecodeBatch, PrefillBatch

MAX_POINTS = 2_000
N = TypeVar("N", int, float)
Batch = DecodeBatch | PrefillBatch


@dataclass(slots=True)
class Series:
    """The batch lines of one launch.

    Counts and peaks are over every line of the log; of the lines, `points` keeps every 2^n-th. The reader may have
    sampled a long file before: then the file says so, and each line says how many it stands for.
    """

    decode_batches: int = 0
    prefill_batches: int = 0
    peak_usage: float | None = None
    peak_swa_usage: float | None = None
    peak_mamba_usage: float | None = None
    peak_host_usage: float | None = None
    peak_preallocated_usage: float | None = None
    peak_running: int | None = None
    peak_queue: int | None = None
    peak_new_tokens: int | None = None
    peak_tokens: int | None = None
    peak_pending_tokens: int | None = None
    peak_throughput: float | None = None
    peak_input_throughput: float | None = None
    points: list[Batch] = field(default_factory=list)
    last_prefill: PrefillBatch | None = None
    last: Batch | None = None
    fullest: Batch | None = None
    first: Batch | None = None
    first_line: tuple[int, int] | None = None
    accept_sum: float = 0.0
    accept_count: int = 0
    _stride: int = 1
    _seen: int = 0

    def add(self, batch: Batch) -> None:
        """Take one batch line in; memory stays bounded."""
        if isinstance(batch, DecodeBatch):
            self.decode_batches += batch.line.batches
            self.peak_tokens = _most(self.peak_tokens, batch.tokens)
            self.peak_throughput = _most(self.peak_throughput, batch.throughput)
            if batch.accept_length is not None:
                self.accept_sum += batch.accept_length
                self.accept_count += 1
            if batch.host_usage is not None:
                self.peak_host_usage = _most(self.peak_host_usage, batch.host_usage)
            if batch.preallocated_usage is not None:
                self.peak_preallocated_usage = _most(self.peak_preallocated_usage, batch.preallocated_usage)
        else:
            self.prefill_batches += batch.line.batches
            self.peak_new_tokens = _most(self.peak_new_tokens, batch.new_tokens)
            if batch.pending_tokens is not None:
                self.peak_pending_tokens = _most(self.peak_pending_tokens, batch.pending_tokens)
            if batch.input_throughput is not None:
                self.peak_input_throughput = _most(self.peak_input_throughput, batch.input_throughput)
            self.last_prefill = batch
        if self.first is None:
            self.first = batch
            self.first_line = (batch.line.file, batch.line.number)
        self.last = batch
        usage = batch.usage
        if usage is not None and (self.peak_usage is None or usage > self.peak_usage):
            self.peak_usage = usage
            self.fullest = batch
        if batch.swa_usage is not None:
            self.peak_swa_usage = _most(self.peak_swa_usage, batch.swa_usage)
        if batch.mamba_usage is not None:
            self.peak_mamba_usage = _most(self.peak_mamba_usage, batch.mamba_usage)
        running = batch.running
        if running is not None and (self.peak_running is None or running > self.peak_running):
            self.peak_running = running
        queued = batch.queued
        if queued is not None and (self.peak_queue is None or queued > self.peak_queue):
            self.peak_queue = queued
        if self._seen % self._stride == 0:
            self._keep(batch)
        self._seen += 1

    def _keep(self, batch: Batch) -> None:
        self.points.append(batch)
        self.thin(MAX_POINTS)

    def thin(self, most: int) -> None:
        """Keep at most so many points, evenly."""
        while len(self.points) > most:
            self.points = self.points[::2]
            self._stride *= 2

    def forget_points(self) -> None:
        """Give the memory of what a plot shows back; counts, peaks and `edges` stay."""
        self.points = [*[b for b in self.points if isinstance(b, DecodeBatch)][:1]]

    @property
    def mean_accept_length(self) -> float | None:
        """Mean of the printed accept lengths; None without speculation."""
        return self.accept_sum / self.accept_count if self.accept_count else None

    @property
    def edges(self) -> tuple[Batch, ...]:
        """The first and the last line, and the first of the other kind that was kept."""
        found = [b for b in (self.first, self.last, self.last_prefill) if b is not None]
        found += [b for b in self.points if isinstance(b, DecodeBatch)][:1]
        return tuple(dict.fromkeys(found))

    def merge(self, other: Series) -> None:
        """Take in the lines of another file of the same launch, later ones or those of another node."""
        for name in (
            "peak_usage",
            "peak_swa_usage",
            "peak_mamba_usage",
            "peak_host_usage",
            "peak_preallocated_usage",
            "peak_running",
            "peak_queue",
            "peak_new_tokens",
            "peak_tokens",
            "peak_pending_tokens",
            "peak_throughput",
            "peak_input_throughput",
        ):
            setattr(self, name, _most(getattr(self, name), getattr(other, name)))
        self.decode_batches += other.decode_batches
        self.prefill_batches += other.prefill_batches
        self.accept_sum += other.accept_sum
        self.accept_count += other.accept_count
        self.first = self.first or other.first
        self.first_line = self.first_line or other.first_line
        self.last = other.last or self.last
        self.last_prefill = other.last_prefill or self.last_prefill
        self._stride = max(self._stride, other._stride)
        for batch in other.points:
            self._keep(batch)
        self._seen += other._seen


def _most(a: N | None, b: N | None) -> N | None:
    if a is None or b is None:
        return a if b is None else b
    return max(a, b)
