"""Disks, mapped files and the container's shared memory are told apart, and none from its neighbour's words."""

from __future__ import annotations

import io
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.texts import Log

BEGUN = "[2026-02-03 10:00:00 TP0] Load weight begin. avail mem=78.80 GB\n"
TRACE = "[2026-02-03 10:00:09 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"


def launch_of(text: str) -> dict[str, Any]:
    return diagnose(Log("log", io.BytesIO(text.encode()))).document["launches"][-1]


def named(text: str) -> set[str]:
    return {finding["rule"] for finding in launch_of(text)["findings"]}


@pytest.mark.parametrize(
    "error",
    [
        "OSError: [Errno 28] No space left on device: '/data/hub/models--m/blobs/1.incomplete'",
        "RuntimeError: Data processing error: IO Error: No space left on device (os error 28)",
    ],
)
def test_a_full_disk_is_no_shared_memory(error: str) -> None:
    launch = launch_of(BEGUN + TRACE + error + "\n")
    assert named(BEGUN + TRACE + error + "\n") == {"not-device-memory"}
    assert launch["failure"]["kind"] == "other"
    assert "disk" in launch["verdict"]


def test_a_full_segment_is_shared_memory() -> None:
    found = named(BEGUN + TRACE + "OSError: [Errno 28] No space left on device: '/dev/shm/psm_1'\n")
    assert "dev-shm-too-small" in found


BUS = """Fatal Python error: Bus error

Current thread 0x00007f00 (most recent call first):
  File "/opt/sglang/srt/{frame}
"""


def test_a_bus_error_while_weights_are_read_is_the_files() -> None:
    launch = launch_of(BEGUN + BUS.format(frame='model_loader/loader.py", line 377 in load_model'))
    assert {finding["rule"] for finding in launch["findings"]} == {"not-device-memory"}
    assert "weight file" in launch["findings"][0]["summary"]


def test_a_bus_error_elsewhere_is_only_likely_shared_memory() -> None:
    launch = launch_of(BEGUN + BUS.format(frame='distributed/parallel_state.py", line 20 in init'))
    found = next(f for f in launch["findings"] if f["rule"] == "dev-shm-too-small")
    assert found["confidence"] == "likely"
