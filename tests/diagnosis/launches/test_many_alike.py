"""Lines that come tens of thousands of times in one start: time grows with them, and the report does not."""

import io
import time

import pytest

from kvdiag.diagnosis import diagnose, report

START = """\
[2025-03-08 12:29:13] server_args=ServerArgs(model_path='m', tp_size=1, mem_fraction_static=0.8)
[2025-03-08 12:29:14 TP0] Load weight begin. avail mem=78.00 GB
[2025-03-08 12:29:18 TP0] Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=63.00 GB
[2025-03-08 12:29:19 TP0] Memory pool end. avail mem=13.00 GB
[2025-03-08 12:29:20] The server is fired up and ready to roll!
"""
SAVER = (
    "[torch_memory_saver.cpp] TorchMemorySaver::malloc return OOM since"
    " memory_margin_bytes=1073741824 (alloc)size=65867350016 free_bytes=28822863872\n"
)
MANY = 20_000
PATIENCE_S = 15.0  # of one processor: ten times what is needed, a third of what comparing each with each takes


@pytest.mark.parametrize(
    "line",
    [SAVER, "python3 -m sglang.launch_server --model-path m --tp 8\n", "Killed\n"],
    ids=["memory saver", "command", "killed"],
)
def test_twice_the_lines_take_twice_the_time(line: str) -> None:
    before = time.process_time()
    diagnose(io.BytesIO((START + line * MANY).encode()))
    assert time.process_time() - before < PATIENCE_S


def test_of_very_many_overflows_the_first_and_the_last_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MOST_OVERFLOWS", 4)
    lines = [f"[2025-03-08 12:30:{n:02} TP0] torch.OutOfMemoryError: Tried to allocate {n}.00 GiB\n" for n in range(9)]

    def told(count: int) -> tuple[list[float], int | None]:
        launch = diagnose(io.BytesIO((START + "".join(lines[:count])).encode())).document["launches"][0]
        return [overflow["tried_gib"] for overflow in launch["oom"]], launch.get("oom_untold")

    assert told(4) == ([0, 1, 2, 3], None)
    assert told(9) == ([0, 1, 7, 8], 5)
