"""The serving part of a report: counts and peaks of the batch lines, a series to plot, and what went wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kvdiag.diagnosis.events.requests import RequestTooLong, SlotLeak
from kvdiag.diagnosis.events.serving import DecodeBatch, HealthCheckFailed, PrefillBatch, Retraction, RetractionAborted
from kvdiag.diagnosis.launches import Launch
from kvdiag.diagnosis.lines import FileInfo, LogLine

Reference = Callable[[LogLine], Any]

_DECODE_KEYS = (
    "tokens",
    "throughput",
    "accept_length",
    "accept_rate",
    "swa_usage",
    "mamba_usage",
    "host_usage",
    "preallocated_usage",
    "retracted",
    "preallocating",
    "in_flight",
    "graph",
)
_PREFILL_KEYS = (
    "new_seqs",
    "new_tokens",
    "cached_tokens",
    "pending_tokens",
    "input_throughput",
    "swa_usage",
    "mamba_usage",
    "preallocating",
    "in_flight",
    "graph",
)


def serving_document(launch: Launch, reference: Reference, files: Sequence[FileInfo] = ()) -> dict[str, Any] | None:
    """`serving` of the report document; None for a launch without traffic.

    Keys of a point stand only where its line has them. `sampled` tells that a long file's lines were not all read: the
    peaks are exact all the same.
    """
    series = launch.series
    retractions = retractions_of(launch)
    leaks, health = launch.each(SlotLeak), launch.each(HealthCheckFailed)
    refused = launch.each(RequestTooLong)
    if not launch.has_traffic and not retractions.times and not leaks and not health and not refused:
        return None
    return {
        "decode_batches": series.decode_batches,
        "prefill_batches": series.prefill_batches,
        "sampled": _sampled(files),
        "peak_token_usage": series.peak_usage,
        "peak_swa_usage": series.peak_swa_usage,
        "peak_mamba_usage": series.peak_mamba_usage,
        "peak_host_usage": series.peak_host_usage,
        "peak_preallocated_usage": series.peak_preallocated_usage,
        "peak_running": series.peak_running,
        "peak_queue": series.peak_queue,
        "peak_tokens": series.peak_tokens,
        "peak_new_tokens": series.peak_new_tokens,
        "peak_pending_tokens": series.peak_pending_tokens,
        "peak_throughput": series.peak_throughput,
        "peak_input_throughput": series.peak_input_throughput,
        "mean_accept_length": series.mean_accept_length,
        "retractions": retractions.times,
        "retracted_requests": retractions.requests,
        "aborted_requests": launch.count(RetractionAborted),
        "refused_requests": launch.count(RequestTooLong),
        "leaks": [reference(e.line) for e in leaks[:20]],
        "health_failures": [reference(e.line) for e in health[:20]],
        "retraction_lines": [reference(e.line) for e in retractions.events[:20]],
        "series": [_point(batch, reference) for batch in series.points],
    }


@dataclass(frozen=True, slots=True)
class PushBacks:
    """The times the pool was full and requests went back to the queue.

    times     how often, each time once
    requests  how many the lines say went back
    untold    of how many times the line does not say it, or says none
    events    those that were kept, in order, the last one among them
    """

    times: int
    requests: int
    untold: int
    events: tuple[Retraction, ...]


def retractions_of(launch: Launch) -> PushBacks:
    """Each push-back once, in order: all ranks of a tensor group print it, so the fullest record of a group counts."""
    groups: dict[str, dict[str, list[Retraction]]] = {}
    for event in launch.each(Retraction):
        group = next((part for part in event.rank.split() if part.startswith("DP")), "")
        groups.setdefault(group, {}).setdefault(event.rank, []).append(event)
    times = requests = untold = 0
    kept: list[Retraction] = []
    for ranks in groups.values():
        beyond = {rank: launch.repeats.get((Retraction, rank)) for rank in ranks}
        fullest = max(ranks, key=lambda rank: len(ranks[rank]) + (more.times if (more := beyond[rank]) else 0))
        events, more = ranks[fullest], beyond[fullest]
        times += len(events)
        requests += sum(e.requests or 0 for e in events)
        untold += sum(not e.requests for e in events)
        kept += events
        if more is not None:
            times, requests, untold = times + more.times, requests + more.requests, untold + more.untold
            kept += [more.last] if isinstance(more.last, Retraction) else []
    return PushBacks(times, requests, untold, tuple(sorted(kept, key=lambda e: e.line.place)))


def _point(batch: DecodeBatch | PrefillBatch, reference: Reference) -> dict[str, Any]:
    keys = _DECODE_KEYS if isinstance(batch, DecodeBatch) else _PREFILL_KEYS
    more = {key: value for key in keys if (value := getattr(batch, key)) is not None}
    return {
        "line": reference(batch.line),
        "at": batch.line.clock,
        "kind": "decode" if isinstance(batch, DecodeBatch) else "prefill",
        "rank": batch.rank,
        "running": batch.running,
        "queued": batch.queued,
        "usage": batch.usage,
        **more,
    }


def _sampled(files: Sequence[FileInfo]) -> bool:
    for info in files:
        counts = info.batch_lines
        if counts and counts.get("read", 0) < counts.get("all", 0):
            return True
    return False


__all__ = ["serving_document"]
