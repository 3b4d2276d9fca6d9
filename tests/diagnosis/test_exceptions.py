"""Exceptions are told once, with their ranks and innermost frames."""

import io
import json

import pytest

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


def long_trace() -> list[str]:
    calls = [
        line
        for n in range(60)
        for line in (
            f'  File "/opt/sglang/srt/models/model_{n}.py", line {n + 1}, in forward',
            f"    x = self.layer_{n}(x)",
        )
    ]
    return [
        "[2026-03-02 09:19:03 TP0] Scheduler hit an exception: Traceback (most recent call last):",
        *calls,
        "RuntimeError: start (8) exceeds dimension size (8).",
        "",
    ]


STAMP = "2026-03-02T09:19:03.123456789Z"
DRESSED = {
    "plain": lambda text: text,
    "docker": lambda text: json.dumps({"log": f"{text}\n", "stream": "stderr", "time": STAMP}),
    "journald, as JSON": lambda text: json.dumps({"__REALTIME_TIMESTAMP": "1772443143000000", "MESSAGE": text}),
    "journald, exported": lambda text: f"MESSAGE={text}",
    "CloudWatch": lambda text: json.dumps({"timestamp": 1772443143000, "message": text, "ingestionTime": 1}),
    "CloudWatch, printed": lambda text: f'            "message": {json.dumps(text)},',
    "Google Cloud, printed": lambda text: f'    "textPayload": {json.dumps(text)},',
    "Loki": lambda text: json.dumps({"labels": {"pod": "sgl-0"}, "line": text, "timestamp": STAMP}),
    "Azure": lambda text: json.dumps({"TimeStamp": STAMP, "Log": text}),
    "aws logs tail": lambda text: f"2026-03-02T09:19:03.123000+00:00 sgl/main/abc {text}",
    "double stamps": lambda text: f"2026-03-02 09:19:03 {text}",
    "ts": lambda text: f"Mar 02 09:19:03 {text}",
    "colours": lambda text: f"\x1b[31m{text}\x1b[m",
    "colours without ESC": lambda text: f"[1;31m{text}[m",
    "colours, written": lambda text: f"^[[31m{text}^[[0m",
    "colours of syslog": lambda text: f"#033[31m{text}#033[0m",
    "colours in JSON's words": lambda text: f"\\u001b[31m{text}\\u001b[0m",
}


@pytest.mark.parametrize("dress", DRESSED)
def test_a_long_traceback_has_its_innermost_frames_in_any_carrier(dress: str) -> None:
    (one,) = exceptions("\n".join(map(DRESSED[dress], long_trace())))
    assert (one["type"], one["message"]) == ("RuntimeError", "start (8) exceeds dimension size (8).")
    names = [f"/opt/sglang/srt/models/model_{n}.py, line {n + 1}, in forward" for n in range(54, 60)]
    assert one["frames"] == names


def test_an_error_right_behind_a_colon_is_no_part_of_the_line_before() -> None:
    (one,) = exceptions(
        "[2026-03-02 09:19:03 TP0] Scheduler hit an exception: Traceback (most recent call last):\nValueError: at 7\n"
    )
    assert (one["type"], one["message"], one["ranks"]) == ("ValueError", "at 7", ["TP0"])
