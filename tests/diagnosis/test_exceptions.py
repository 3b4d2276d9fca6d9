"""Exceptions are told once, with their ranks and innermost frames."""

import io

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.lines import Log


def exceptions(text: str) -> list[dict]:
    (launch,) = diagnose(Log("log.txt", io.BytesIO(text.encode()))).document["launches"]
    return launch["exceptions"]


def failing(rank: int) -> str:
    return (
        f"[2026-03-02 09:19:03 TP{rank}] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "/opt/sglang/srt/managers/scheduler.py", line 2911, in run_scheduler_process\n'
        "    scheduler = Scheduler(\n"
        '  File "/opt/sglang/srt/layers/moe/layer.py", line 637, in weight_loader\n'
        "    raise RuntimeError(\n"
        f"RuntimeError: start (8) + length ({rank}) exceeds dimension size (8).\n\n"
    )


def test_the_same_exception_of_many_ranks_is_one() -> None:
    (one,) = exceptions("".join(failing(rank) for rank in range(4)))
    assert (one["type"], one["count"], one["ranks"]) == ("RuntimeError", 4, ["TP0", "TP1", "TP2", "TP3"])


def test_its_innermost_frames_are_kept() -> None:
    (one,) = exceptions(failing(0))
    assert one["frames"][-1] == "/opt/sglang/srt/layers/moe/layer.py, line 637, in weight_loader"


def test_a_start_without_one_has_none() -> None:
    assert exceptions("[2026-03-02 09:14:36 TP0] Load weight begin. avail mem=94.04 GB\n") == []
