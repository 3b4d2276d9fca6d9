"""A command pasted below its log belongs to it."""

import io

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.lines import Log

OVERFLOW = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 1 has a total capacity of 23.65 GiB"
    " of which 215.00 MiB is free.\n"
)
COMMAND = "python3 -m sglang.launch_server --model-path Qwen/Qwen3-8B --mem-fraction-static 0.9 --tp 2\n"


def arguments(text: str) -> dict:
    (launch,) = diagnose(Log("log.txt", io.BytesIO(text.encode()))).document["launches"]
    return {name: found["value"] for name, found in launch["arguments"].items()}


def test_a_command_below_the_only_error_is_its_launch() -> None:
    assert arguments(OVERFLOW + "\n" + COMMAND)["mem_fraction_static"] == 0.9


def test_a_command_above_it_is_too() -> None:
    assert arguments(COMMAND + "\n" + OVERFLOW)["mem_fraction_static"] == 0.9
