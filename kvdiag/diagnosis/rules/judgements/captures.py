"""Graph captures: what overflowed, what failed for another reason, what they took."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kvdiag.diagnosis.events.cuda_graph import GraphBegin, GraphEnd, GraphSizes
from kvdiag.diagnosis.events.failure import CaptureFailed
from kvdiag.diagnosis.events.kv_pool import PoolEnd
from kvdiag.diagnosis.events.libraries import DeviceFull
from kvdiag.diagnosis.events.overflow import DeviceOutOfMemory
from kvdiag.diagnosis.events.pattern import Event
from kvdiag.diagnosis.events.progress import CaptureProgress
from kvdiag.diagnosis.events.weights import WeightsBegin, WeightsLoaded
from kvdiag.diagnosis.outcome import Stage
from kvdiag.diagnosis.rules.judgements.overflows import (
    free_at,
    is_draft_pool,
    is_trainers,
    memory_ran_out,
    room_for,
    stage,
)
from kvdiag.diagnosis.rules.judgements.places import TRACEBACK_LINES, is_before, last_before, last_before_or_on
from kvdiag.diagnosis.rules.rule import Case
from kvdiag.diagnosis.units import Bytes


@dataclass(frozen=True, slots=True)
class CaptureOverflow:
    """An overflow while graphs were captured: of prefill sizes or not, at which size, with how much free."""

    sign: DeviceOutOfMemory | DeviceFull
    prefill: bool
    bar: CaptureProgress | None
    size: int | None
    free: Bytes | None

    @property
    def left(self) -> Bytes | None:
        """Free memory at that moment: as the overflow's message has it, else as the bar or a reading before it."""
        printed = self.sign.free if isinstance(self.sign, DeviceOutOfMemory) else None
        return self.free if printed is None else printed


def capture_overflow(case: Case) -> CaptureOverflow | None:
    """The overflow that ended a capture."""
    sign = memory_ran_out(case)
    if (
        sign is None
        or is_trainers(case, sign)
        or stage(case, sign) is not Stage.CUDA_GRAPH
        or is_draft_pool(case, sign)
    ):
        return None
    step = last_before(case, sign.line, WeightsBegin, WeightsLoaded, PoolEnd, GraphBegin, GraphEnd, CaptureProgress)
    if isinstance(step, WeightsBegin | WeightsLoaded) and not case.launch.has(CaptureFailed):
        return None  # a draft model was loading
    bar = last_before_or_on(case, sign.line, CaptureProgress)
    begun = last_before(case, sign.line, GraphBegin, GraphEnd, GraphSizes)
    wrapped = [e for e in case.launch.each(CaptureFailed) if abs(e.line.number - sign.line.number) <= TRACEBACK_LINES]
    kinds = [
        bar is not None
        and (bar.kind or "") != "batches"
        and not is_before(bar.line, begun.line if begun else bar.line),
        isinstance(begun, GraphBegin) and is_prefill_graph(begun.kind),
        isinstance(begun, GraphSizes) and "token" in (begun.kind or ""),
        any(e.is_prefill for e in wrapped),
    ]
    free = bar.available if bar is not None and bar.available is not None else free_at(case, sign.line)
    return CaptureOverflow(sign, any(kinds), bar, bar.size if bar is not None else None, free)


def is_prefill_graph(kind: str | None) -> bool:
    """Whether a capture is one of prefill sizes."""
    return "prefill" in (kind or "") or "piecewise" in (kind or "")


def prefill_captures(case: Case) -> list[GraphEnd]:
    """Captures of prefill sizes that ended."""
    return [e for e in case.launch.each(GraphEnd) if is_prefill_graph(e.kind)]


def missing(case: Case, free: Bytes | None, tried: Bytes | None = None) -> Bytes | None:
    """What is missing to the free memory wanted at the end, beside what was asked for and not granted."""
    if free is None:
        return tried
    return Bytes(max(0, case.wanted_range[0] + (tried or 0) - free))


def shortage(case: Case, sign: Event) -> Bytes | None:
    """What an overflow lacked, with what should be left beside it: all that is wanted at the end of a capture, half of
    it beside a batch."""
    tried, free = getattr(sign, "tried", None), getattr(sign, "free", None)
    if tried is None:
        return None
    return missing(case, free, tried) if stage(case, sign) is Stage.CUDA_GRAPH else room_for(case, tried, free)


_SHORTAGE = re.compile(
    r"out of memory|outofmemory|alloc_failed|cudaerrormemoryallocation|num_active_captures|nvml_success"
)


def capture_errors(case: Case) -> list[CaptureFailed]:
    """Failed captures that have nothing to do with memory."""
    kept = []
    for event in case.launch.each(CaptureFailed):
        reason = event.whole_reason or capture_reason(case, event)
        if not reason:
            continue  # neither a shortage nor anything else is told
        free = free_at(case, event.line)
        short = free is not None and free < case.thresholds.memory_is_short
        if _SHORTAGE.search(reason.lower()) or (short and not _is_plain_fault(reason)):
            continue
        near = memory_ran_out(case)
        if near is not None and abs(near.line.number - event.line.number) <= TRACEBACK_LINES:
            continue
        kept.append(event)
    return kept


def capture_reason(case: Case, event: CaptureFailed) -> str:
    """Why a capture failed: as its line says, else the error that the launch ended with, if it stands beside it."""
    told = event.reason or event.whole_reason
    failure = case.outcome.failure
    if told or failure is None or not failure.lines or failure.lines[0].place == event.line.place:
        return told
    beside = failure.lines[0].file == event.line.file
    return failure.message if beside and abs(failure.lines[0].number - event.line.number) <= TRACEBACK_LINES else ""


def _is_plain_fault(reason: str) -> bool:
    """A reason that no shortage would give."""
    low = reason.lower()
    return any(
        w in low for w in ("ninja", "assertion error", "no kernel image", "connection", "illegal memory", "import")
    )


def is_invalid_argument(reason: str | None) -> bool:
    """Whether a capture failed with the words that libraries have for a shortage."""
    low = (reason or "").lower()
    return any(w in low for w in ("invalid argument", "alloc_failed", "not_initialized", "allocation failed"))
