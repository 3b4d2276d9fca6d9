"""Progress bars that tell the stage, and the free memory while a capture runs."""

from __future__ import annotations

from kvdiag.diagnosis.events.pattern import AMOUNT, Event, read_from
from kvdiag.diagnosis.units import Bytes


@read_from(
    r"Capturing (?:batches|num tokens|prefill shape) \(|Compiling num tokens \(",
    literals=("Capturing batches (", "Capturing num tokens (", "Capturing prefill shape (", "Compiling num tokens ("),
    fields={
        "kind": r"(?:Capturing|Compiling) (batches|num tokens|prefill shape)",
        "size": r"(?:bs|num_tokens)=(\d+)",
        "available": rf"avail_mem={AMOUNT}",
        "done": r"\| *(\d+)/\d+ \[",
        "total": r"\| *\d+/(\d+) \[",
    },
    samples={
        "0.4.5..0.4.7": "Capturing batches (avail_mem=5.25 GB): 100%|██████████| 35/35 [00:54<00:00,  1.57s/it]",
        "0.4.8..0.5.23": "Capturing batches (bs=1 avail_mem=11.18 GB): 100%|██████████| 36/36 [00:10<00:00,  3.37it/s]",
        "0.5.3..0.5.19": "Capturing num tokens (num_tokens=3968 avail_mem=0.05 GB):   2%|█  | 1/58 [00:00<00:56,"
        " 1.01it/s]",
        "0.5.7..0.5.23": "Compiling num tokens (num_tokens=3968):   2%|█  | 1/58 [00:00<00:56, 1.01it/s]",
        "0.5.21..0.5.23": "Capturing prefill shape (num_tokens=3968 avail_mem=0.05 GB):   2%|█  | 1/58 [00:00<00:56]",
    },
    source="tqdm on standard error, rank 0",
    alone=True,
)
class CaptureProgress(Event):
    """A bar of a capture: the size at hand and what is free; the last before an overflow names the size that failed.

    A launch keeps the last of a run of bars.
    """

    kind: str | None
    size: int | None
    available: Bytes | None
    done: int | None
    total: int | None
