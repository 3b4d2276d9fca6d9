"""What a reader is shown of a sentence that was broken over several lines."""

from __future__ import annotations

import io

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.lines import LogLine

BROKEN = b"""[2026-04-26 14:38:11 TP0] Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=63.27 GB
Exception: Capture cuda graph failed: CUDA out of memory.
Tried to allocate 672.00 MiB.

GPU 0 has a total capacity of 140.06 GiB of which 200.75 MiB is free.
Of the allocated memory 128.50 GiB is allocated by PyTorch,
and 1.01 GiB is reserved by PyTorch but unallocated.
"""


def test_evidence_holds_the_figure_that_stands_on_a_later_line() -> None:
    launch = diagnose(io.BytesIO(BROKEN)).document["launches"][0]
    [fragmented] = [f for f in launch["findings"] if f["rule"] == "allocator-fragmentation"]
    [piece] = [e for e in fragmented["evidence"] if e["figure"] == "reserved_unallocated_gib"]
    assert piece["line"] == 2 and piece["joined"] is True
    assert piece["text"].startswith("Exception: Capture cuda graph failed")
    assert "1.01 GiB is reserved" in piece["text"]


def test_a_line_that_is_whole_is_shown_as_it_is() -> None:
    line = LogLine(0, 1, "Load weight begin. avail mem=94.04 GB", shown="[TP0] Load weight begin. avail mem=94.04 GB")
    assert line.whole == line.shown


def test_a_message_taken_out_of_a_wrapper_keeps_its_wrapper() -> None:
    shown = '{"log":"Load weight begin. avail mem=94.04 GB\\n","stream":"stderr"}'
    assert LogLine(0, 1, "Load weight begin. avail mem=94.04 GB", shown=shown).whole == shown
