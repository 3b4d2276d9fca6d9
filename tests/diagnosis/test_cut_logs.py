"""A log that a kill or a copy ended within a line: a figure at the cut is not read, or it is the whole log's."""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.commands import read_command
from kvdiag.diagnosis.lines import Log

CORPUS = Path(__file__).parent.parent / "corpus"
RANK = ("kv_tokens", "kv_gib", "opening_gib", "mamba_slots", "mamba_gib", "hicache_host_gib")
CUTS = [
    ("gemma4-26b-a4b-gb10-wrapped-lines", r"swa size: \d+, full size: "),
    ("gemma4-26b-a4b-gb10-wrapped-lines", r"mem usage=[\d.]+ GB"),
    ("gemma4-31b-awq-2x3090-swa-ratio-json", r"KV Cache is allocated\. #tokens: 167877, K size: 3.20 GB, V size: 3.20"),
    ("laguna-s21-nvfp4-gb10-cut-after-pool", r"#tokens: 32997, K size: 0.76 GB, V size: 0.76 GB"),
    (
        "granite4-h-micro-16gb-bench-one-batch",
        r"max_mamba_cache_size: \d+, conv_state size: [\d.]+GB, ssm_state size: \S+",
    ),
    ("ling3-tiny-gb10-hybrid-mla", r"max_mamba_cache_size: \d+, conv_state size: [\d.]+GB, ssm_state size: [\d.]+GB"),
    ("minicpm5-1b-time-only-large-graph", r"avail mem=[\d.]+(?= GB, mem usage=)"),
    ("gemma4-31b-awq-2x3090-swa-ratio-json", r"SWAKVPool mem usage: [\d.]+ GB, swa size: \d+"),
    ("deepseek-v41-flash-3x-gb10-args-dict", r"'host': '[\d.]+'"),
    ("qwen25-15b-gb10-low-free-mem", r"cuda_graph_bs=\[\d+, \d+, \d+"),
]


def launches(text: str) -> list[dict[str, Any]]:
    found = diagnose(Log("log.txt", io.BytesIO(text.encode()))).document["launches"]
    assert isinstance(found, list)
    return found


def figures(text: str) -> Iterator[tuple[str, str]]:
    """What is known of a log's launches: names and values."""
    for launch in launches(text):
        yield from ((name, str(value)) for name, value in launch["limits"].items() if name != "line")
        yield from ((name, str(argument["value"])) for name, argument in launch["arguments"].items())
        for rank in launch["ranks"]:
            yield from ((name, str(rank[name])) for name in RANK)
            yield from (("reading", str(reading["available_gib"])) for reading in rank["readings"])
            yield from ((entry["pool"], str(entry["gib"])) for entry in rank["entries"] if entry["basis"] == "printed")
            yield from (("draft", str(value)) for value in (rank["draft"] or {}).values())


@pytest.mark.parametrize(("case", "part"), CUTS)
def test_a_log_that_is_cut_within_a_line_has_no_figure_that_the_whole_one_has_not(case: str, part: str) -> None:
    text = (CORPUS / case / "log.txt").read_text(encoding="utf-8")
    whole = set(figures(text))
    found = re.search(part, text)
    assert found is not None
    for end in range(found.start() + 1, found.end()):
        wrong = [(name, value) for name, value in figures(text[:end]) if value != "None" and (name, value) not in whole]
        assert not wrong, f"…{text[end - 40 : end]}"


LOG = re.sub(r"(?m)^Mar \d\d \S+ \S+ \w+\[\d+\]: ", "", (CORPUS / "kimi-k25-8gpu" / "log.txt").read_text())


KILLED = "Killed\n"
COMMAND = "python3 -m sglang.launch_server --model-path m --tp 8\n"


@pytest.mark.parametrize(
    "part",
    [r"#tokens: \d+", r"max_total_num_tokens=\d+", r"max_prefill_tokens=\d+", r"mem usage=[\d.]+", r"tp_size=8, \S+"],
)
def test_a_line_that_a_kill_cut_is_known_where_the_next_start_is_glued_onto_it(part: str) -> None:
    found = re.search(part, LOG)
    assert found is not None
    for behind in (LOG[LOG.index("[2026") :], COMMAND + LOG, KILLED + LOG):
        first = launches(LOG[: found.end() - 2] + behind)[0]
        whole = launches(LOG)[0]
        values = {name: argument["value"] for name, argument in whole["arguments"].items()}
        assert all(values[name] == argument["value"] for name, argument in first["arguments"].items())
        assert {rank["kv_tokens"] for rank in first["ranks"]} <= {None, whole["ranks"][0]["kv_tokens"]}
        assert all(value in (None, whole["limits"][name]) for name, value in first["limits"].items() if name != "line")


@pytest.mark.parametrize("behind", [KILLED, COMMAND])
def test_a_wrapped_line_that_a_kill_cut_is_known_as_well(behind: str) -> None:
    text = (CORPUS / "gemma4-26b-a4b-gb10-wrapped-lines" / "log.txt").read_text()
    for part in ("full size: 213", "avail mem=66.05 GB, mem us"):
        first = launches(text[: text.index(part) + len(part)] + behind)[0]
        assert all(rank["kv_tokens"] is None for rank in first["ranks"])
        assert all(rank["opening_gib"] in (None, 113.28) for rank in first["ranks"])


def test_what_a_shell_says_behind_a_line_that_was_cut_is_read() -> None:
    cut = LOG[: LOG.index("#tokens: ") + len("#tokens: 159")]
    (launch,) = launches(cut + KILLED)
    assert launch["failure"]["kind"] == "host_oom"
    assert launches(cut + COMMAND)[-1]["arguments"]["tp_size"]["value"] == 8


@pytest.mark.parametrize("end", ["", "\n", " > server.log 2>&1", " \\\n  -"])
def test_a_command_at_the_end_of_a_text_is_whole(end: str) -> None:
    """What people paste, or keep in a file, has no line end there; a log is hardly ever cut within its command."""
    command = "python3 -m sglang.launch_server --model-path m --mem-fraction-static 0.85"
    for before in ("", "The server does not come up. I start it with\n\n"):
        launch = launches(before + command + end)[-1]
        assert launch["arguments"]["mem_fraction_static"]["value"] == 0.85
        assert launch["arguments"]["model_path"]["value"] == "m"


def test_a_command_that_something_is_glued_onto_loses_its_last_flag() -> None:
    command = "python3 -m sglang.launch_server --model-path m --tp 2 --mem-fraction-static 0.8"
    (launch,) = launches(command + "[2025-03-08 12:29:13 TP0] Load weight begin. avail mem=21.63 GB\n")
    assert "mem_fraction_static" not in launch["arguments"] and launch["arguments"]["tp_size"]["value"] == 2


def test_a_last_flag_of_several_values_may_have_gone_on() -> None:
    command = "sglang serve m --tp 2 --cuda-graph-bs 42 88 1"
    assert read_command(command, is_cut=True) == {"model_path": "m", "tp_size": 2}
    assert read_command("sglang serve Qwen/Qwen2", is_cut=True) == {}


def test_one_of_two_pools_is_not_both() -> None:
    text = (CORPUS / "laguna-s21-nvfp4-gb10-cut-after-pool" / "log.txt").read_text()
    (launch,) = launches(
        text[: text.index("[2026-08-01 21:51:16] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 32997")]
    )
    (rank,) = launch["ranks"]
    assert rank["kv_gib"] is rank["kv_tokens"] is None


@pytest.mark.parametrize(
    "excerpt",
    [
        "[2025-03-08 12:29:21 TP0] KV Cache is allocated. #tokens: 46611, K size: 1.42 GB, V size: 1.42 GB",
        "[2024-11-08 12:29:21 TP0] max_total_num_tokens=46611, max_prefill_tokens=16384, max_running_requests=9, "
        "context_len=8192",
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. "
        "Current value: self.server_args.mem_fraction_static=0.2",
    ],
)
def test_the_last_line_of_an_excerpt_is_whole_where_its_wording_ends_so(excerpt: str) -> None:
    """What people paste has no line end behind it."""
    found = launches(excerpt)
    assert found == launches(excerpt + "\n")
    assert re.search(r"46611|0\.2\b", str(found))
