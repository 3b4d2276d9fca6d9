"""Messages cut into several lines come back whole: wrapped by a program at one width, or by hand."""

import textwrap

import pytest

from kvdiag.diagnosis.wrapping import join_cut

ARGUMENTS = "server_args=ServerArgs(model_path='/root/.cache/models/Qwen/Qwen3-30B', " + ", ".join(
    f"option_number_{n}={n * 7}" for n in range(150)
)
LINES = [
    f"[2025-03-08 12:29:04] {ARGUMENTS})",
    "[2025-03-08 12:29:13 TP0] Load weight begin. avail mem=21.63 GB",
    "[2025-03-08 12:29:21 TP0] Load weight end. elapsed=8.1 s, type=Qwen2ForCausalLM, dtype=torch.bfloat16, avai"
    "l mem=6.09 "
    "GB, mem usage=15.54 GB.",
    "[2025-03-08 12:29:21 TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 46611, K size: 1.42 GB, V "
    "size: 1.42 GB",
    "INFO:     Application startup complete.",
    "[2025-03-08 12:29:28 TP0] max_total_num_tokens=46611, chunked_prefill_size=2048, max_prefill_tokens=16384, "
    "max_running_requests=2049, context_len=131072",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 540.00 MiB. GPU 0 has a total capacity of 14."
    "76 GiB of "
    "which 298.75 MiB is free. Process 63729 has 14.46 GiB memory in use. Of the allocated memory 14.35 GiB is a"
    "llocated by "
    "PyTorch, and 1.61 MiB is reserved by PyTorch but unallocated.",
]
TEXTS = [line.split("] ", 1)[-1] for line in LINES if not line.startswith("INFO")]


def cut(line: str, width: int) -> list[str]:
    return [line[at : at + width] for at in range(0, len(line), width)]


def words(line: str, width: int) -> list[str]:
    return textwrap.wrap(line, width, break_on_hyphens=False)


@pytest.mark.parametrize("width", [60, 72, 80, 100, 120, 132])
@pytest.mark.parametrize("wrap", [cut, words])
def test_a_file_wrapped_at_one_width_reads_as_if_it_were_not(read, wrap, width: int) -> None:
    physical: list[str] = []
    starts: list[int] = []
    for line in LINES:
        starts.append(len(physical) + 1)
        physical += wrap(line, width)
    found = read("\n".join(physical) + "\n")
    assert [line.text for line in found] == TEXTS
    assert [line.number for line in found] == [
        start for start, line in zip(starts, LINES, strict=True) if "INFO" not in line
    ]
    assert found.reader.files[0].lines == len(physical)


def test_a_file_that_is_not_wrapped_stays(read) -> None:
    lines = [line for line in LINES if len(line) < 130]
    found = read("\n".join(lines))
    assert [line.number for line in found] == [1, 2]


def test_a_message_broken_by_hand_takes_its_rest(read) -> None:
    found = read(
        "Load weight end. elapsed=312.45 s, type=Gemma4ForConditionalGeneration,\n"
        "avail mem=66.05 GB, mem usage=47.23 GB.\n"
        "Capture cuda graph end. elapsed=25.74 s, mem usage=2.66 GB,\navail mem=24.45 GB.\n"
        "The server is fired up and ready to roll!\n",
        phrases=[b"Load weight end.", b"avail mem=", b"Capture cuda graph end.", b"The server is fired up"],
    )
    assert [(line.number, line.text) for line in found] == [
        (
            1,
            "Load weight end. elapsed=312.45 s, type=Gemma4ForConditionalGeneration, avail mem=66.05 GB, mem usa"
            "ge=47.23 GB.",
        ),
        (3, "Capture cuda graph end. elapsed=25.74 s, mem usage=2.66 GB, avail mem=24.45 GB."),
        (5, "The server is fired up and ready to roll!"),
    ]


def test_an_out_of_memory_message_over_several_lines_is_one(read) -> None:
    (line,) = read(
        "Exception: Capture cuda graph failed: CUDA out of memory.\nTried to allocate 672.00 MiB.\n\n"
        "GPU 0 has a total capacity of 140.06 GiB of which 200.75 MiB is free.\nProcess 1939284 has 139.86 GiB m"
        "emory in use.\n"
        "Of the allocated memory 128.50 GiB is allocated by PyTorch,\nwith 3.23 GiB allocated in private pools ("
        "e.g., CUDA Graphs),\n"
        "and 1.01 GiB is reserved by PyTorch but unallocated.\n\nPossible solutions:\n1. set --mem-fraction-stat"
        "ic smaller\n"
    )
    assert line.text.endswith("and 1.01 GiB is reserved by PyTorch but unallocated.")
    assert "Possible" not in line.text
    assert line.shown == "Exception: Capture cuda graph failed: CUDA out of memory."


def test_a_whole_message_takes_nothing_of_the_next_line(read) -> None:
    found = read("\n".join(LINES[1:3] + ["avail mem=1.00 GB in a foreign line", "unallocated, by chance"]))
    assert [line.text for line in found] == TEXTS[1:3]


def test_a_sentence_broken_before_its_bracket_takes_the_figures_in_it() -> None:
    rest = ("(max_mamba_cache_size=64, 5 state slots per request). To raise it: increase", "--mamba-full-memory-ratio")
    text, taken = join_cut("max_running_requests is capped to 12 by the mamba state cache", lambda n: rest[:n])
    assert text.endswith("cache (max_mamba_cache_size=64, 5 state slots per request). To raise it: increase")
    assert taken == 1


def test_a_line_with_a_prefix_of_its_own_goes_on_none(read) -> None:
    first = "2025-03-08 12:29:04.123456+08:00 - starter - INFO - arguments: [python -m sglang.launch_server], envs:"
    found = read(
        f"{first}\n[2025-03-08 12:29:05 TP0] Scheduler hit an exception: Traceback (most recent call last):\n",
        phrases=[b"sglang.launch_server", b"hit an exception"],
    )
    assert [(line.number, line.rank) for line in found] == [(1, ""), (2, "TP0")]
    assert "hit an exception" not in found[0].text


def test_a_refusal_broken_by_hand_keeps_the_fraction_that_would_do() -> None:
    text = "ValueError: Loaded weights leave no GPU memory for the KV cache under"
    rest = (
        "--mem-fraction-static=0.94. Raise --mem-fraction-static above 0.942",
        "(minimum viable = 1 - available/pre = 0.9411). If using speculative",
        "decoding, draft weights are now counted.",
        "After that the container exits.",
    )
    joined, taken = join_cut(text, lambda count: rest[:count])
    assert joined.endswith("draft weights are now counted.") and taken == 3
