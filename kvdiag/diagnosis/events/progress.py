"""Progress bars that tell the stage, and the free memory while a capture runs."""

from __future__ import annotations

from kvdiag.diagnosis.events.pattern import GIB, NUMBER, Event, read_from
from kvdiag.diagnosis.units import Bytes


@read_from(
    r"Capturing (?:batches|num tokens|prefill shape) \([^)]*avail_mem=",
    literals=("Capturing batches (", "Capturing num tokens (", "Capturing prefill shape ("),
    fields={
        "kind": r"Capturing (batches|num tokens|prefill shape)",
        "size": rf"(?:bs|num_tokens)={NUMBER}",
        "available": rf"avail_mem={GIB}",
    },
    samples=(
        "Capturing batches (avail_mem=5.25 GB): 100%|####| 35/35 [00:54<00:00,  1.57s/it]",
        "Capturing batches (bs=1 avail_mem=11.18 GB): 100%|####| 36/36 [00:10<00:00,  3.37it/s]",
        "Capturing num tokens (num_tokens=3968 avail_mem=0.05 GB):   2%|#| 1/58 [00:00<00:56,  1.01it/s]",
    ),
    source="sglang/srt/model_executor/cuda_graph_runner.py: capture()",
    releases="0.4.5..0.5.23",
)
class CaptureProgress(Event):
    """A capture at work: which size it is at, and what is free."""

    kind: str | None
    size: int | None
    available: Bytes | None
