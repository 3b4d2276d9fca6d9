"""A block of flags whose head was not pasted is read as a launch command, where only SGLang's server has them."""

from __future__ import annotations

import io
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.texts import Log

OVERFLOW = """torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.52 GiB. GPU 0 has a total capacity of \
31.36 GiB of which 471.69 MiB is free. Including non-PyTorch memory, this process has 30.86 GiB memory in use. Of \
the allocated memory 28.40 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated.
"""
BARE = """--model-path org/m
--mem-fraction-static 0.90
--chunked-prefill-size 8192
--kv-cache-dtype fp8_e4m3
"""
BROKEN = """      --tp-size 2 \\
      --mem-fraction-static 0.82 \\
      --speculative-algorithm EAGLE --speculative-num-steps 3 \\
      --attention-backend flashinfer
"""


def arguments_of(text: str) -> dict[str, Any]:
    launch = diagnose(Log("log", io.BytesIO(text.encode()))).document["launches"][-1]
    return {name: argument["value"] for name, argument in launch["arguments"].items()}


@pytest.mark.parametrize("order", [("{block}", "{error}"), ("{error}", "{block}")])
def test_a_block_is_read_above_or_below_what_it_is_about(order: tuple[str, str]) -> None:
    text = "\n".join(order).format(block=BARE, error=OVERFLOW)
    assert arguments_of(text) == {
        "model_path": "org/m",
        "mem_fraction_static": 0.9,
        "chunked_prefill_size": 8192,
        "kv_cache_dtype": "fp8_e4m3",
    }


def test_a_block_with_backslashes_is_read_whole() -> None:
    assert arguments_of(f"Flags:\n{BROKEN}\n{OVERFLOW}") == {
        "tp_size": 2,
        "mem_fraction_static": 0.82,
        "speculative_algorithm": "EAGLE",
        "speculative_num_steps": 3,
        "attention_backend": "flashinfer",
    }


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_manifests_list_of_flags_is_read(quote: str) -> None:
    flags = ("--tp-size=2", "--mem-fraction-static=0.92", "--chunked-prefill-size=8192")
    items = "".join(f"          - {quote}{flag}{quote}\n" for flag in flags)
    assert arguments_of(f"        args:\n{items}{OVERFLOW}") == {
        "tp_size": 2,
        "mem_fraction_static": 0.92,
        "chunked_prefill_size": 8192,
    }


@pytest.mark.parametrize(
    "text",
    [
        "- --mem-fraction-static 0.8: fails\n- --max-running-requests 8: fails\n",  # told one after another
        "--model org/m --tp-size 2 --mem-fraction-static 0.9\n",  # one flag of SGLang's alone is too few
        "--model org/m\n--gpu-memory-utilization 0.9\n--max-model-len 8192\n",  # another server's
        "--mem-fraction-static MEM_FRACTION_STATIC\n--chunked-prefill-size CHUNKED_PREFILL_SIZE\n",  # a help text
        "--mem-fraction-static 0.9 --max-running-requests 8\nfailed too\n--mem-fraction-static 0.8\n",  # tried in turn
        "--num-prompts 8\n--random-input-len 512\n--request-rate 4\n",  # a benchmark's
        "--sglang-mem-fraction-static 0.7\n--sglang-chunked-prefill-size 4096\n",  # a trainer's, passed on
    ],
)
def test_other_flags_are_no_launch_command(text: str) -> None:
    assert arguments_of(text + OVERFLOW) == {}


def test_a_block_beside_a_command_is_left_aside() -> None:
    command = "python -m sglang.launch_server --model-path org/m --mem-fraction-static 0.7\n"
    assert arguments_of(f"{command}\nthen:\n{BARE}\n{OVERFLOW}")["mem_fraction_static"] == 0.7


def test_a_command_below_its_log_is_the_logs_with_all_its_lines() -> None:
    started = "[2026-08-12 10:02:40 TP0] Load weight begin. avail mem=31.10 GB\n"
    command = "python -m sglang.launch_server --model-path org/m \\\n  --tp-size 2 \\\n  --mem-fraction-static 0.9\n"
    document = diagnose(Log("log", io.BytesIO(f"{started}{OVERFLOW}\n{command}".encode()))).document
    assert len(document["launches"]) == 1
    assert arguments_of(f"{started}{OVERFLOW}\n{command}") == {
        "model_path": "org/m",
        "tp_size": 2,
        "mem_fraction_static": 0.9,
    }
