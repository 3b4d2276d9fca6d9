"""A fraction that no line prints: SGLang's own where the log leaves one, held against what the pools imply."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.events import Matcher
from kvdiag.diagnosis.launches import Launch, split_launches
from kvdiag.diagnosis.ledger.booking import book
from kvdiag.diagnosis.ledger.sizing import SizingInputs, size
from kvdiag.diagnosis.ledger.sizing.gather import inputs_of
from kvdiag.diagnosis.ledger.sizing.machine import automatic_fraction
from kvdiag.diagnosis.ledger.what_if import Change, scenario
from kvdiag.diagnosis.lines import LineReader, Log

CORPUS = Path(__file__).parents[2] / "corpus"
MODEL = "Qwen/Qwen2.5-14B-Instruct"
COMMAND = f"python -m sglang.launch_server --model-path {MODEL} --port 30000\n"
CARD = (
    "Failed to get GPU memory capacity from nvidia-smi. Falling back to torch.cuda.mem_get_info(). Reported total GPU"
    " memory per device (MiB): [81559], using min: 81559 MiB."
)
# Qwen2.5-14B: 48 layers of 8 heads × 128, bf16, 196,608 B a token. 0.5.12 on 81,559 MiB: x = 512 + 1.5·8192 + 2·256 +
# 128 + 8·58 = 13,904, f = 0.830. P = 78.60, A = 50.90: R = 50.90 − 78.60 × 0.170 = 37.538 GiB, 205,006 tokens.
FRACTION, TOKENS, GIB = 0.830, 205_006, 18.77


def log(*, command: str = "", card: str = CARD, scale: float = 1.0, version: str = "0.5.12") -> str:
    tokens, half = int(TOKENS * scale), GIB * scale
    end = 50.90 - 2 * half - 0.02
    lines = (
        f"sglang version: {version}",
        card,
        "Load weight begin. avail mem=78.60 GB",
        "Load weight end. elapsed=12.10 s, type=Qwen2ForCausalLM, avail mem=50.90 GB, mem usage=27.70 GB.",
        f"KV Cache is allocated. #tokens: {tokens}, K size: {half:.2f} GB, V size: {half:.2f} GB",
        f"Memory pool end. avail mem={end:.2f} GB",
        f"Capture cuda graph begin. This can take up to several minutes. avail mem={end - 0.4:.2f} GB",
        f"Capture cuda graph end. Time elapsed: 8.00 s. mem usage=0.90 GB. avail mem={end - 1.3:.2f} GB.",
        f"Capture piecewise CUDA graph begin. avail mem={end - 1.3:.2f} GB",
        f"Capture piecewise CUDA graph end. Time elapsed: 9.10 s. mem usage=0.60 GB. avail mem={end - 1.9:.2f} GB.",
        f"max_total_num_tokens={tokens}, chunked_prefill_size=8192, max_prefill_tokens=16384,"
        f" max_running_requests=3203, context_len=32768, available_gpu_mem={end - 1.9:.2f} GB",
        "The server is fired up and ready to roll!",
    )
    return command + "".join(f"[2026-03-02 09:14:{n:02d}] {line}\n" for n, line in enumerate(lines) if line)


def launch_of(text: str | bytes) -> Launch:
    matcher = Matcher()
    raw = text.encode() if isinstance(text, str) else text
    reader = LineReader([Log("log.txt", io.BytesIO(raw))], matcher.phrases, dense=matcher.dense)
    return split_launches(matcher.read(reader))[-1]


def document(text: str) -> dict[str, Any]:
    return diagnose(Log("log.txt", io.BytesIO(text.encode()))).document["launches"][0]


def test_a_fraction_that_nobody_set_and_no_line_prints_is_sglangs_own_where_the_pools_agree() -> None:
    cache = document(log(command=COMMAND))["kv_cache"]
    found, budget = cache["automatic_fraction"], cache["budget"]
    assert (found["value"], found["agrees"], found["basis"]) == (FRACTION, True, "derived")
    assert found["implied"]["low"] - 0.0005 <= FRACTION <= found["implied"]["high"] + 0.0005
    assert (budget["mem_fraction_static"], budget["fraction_basis"], budget["printed_fraction"]) == (
        FRACTION,
        "derived",
        None,
    )
    assert abs(budget["error_percent"]) < 0.1
    assert cache["limited_by"] == "memory"


def test_what_if_and_rules_work_from_a_fraction_of_sglangs_own() -> None:
    launch = document(log(command=COMMAND))
    then = scenario(launch, Change(mem_fraction_static=0.88))
    assert then.refused is None and then.tokens is not None and then.tokens.after is not None
    assert then.tokens.after == pytest.approx(TOKENS + 0.05 * 78.60 * 2**30 / 196_608, abs=300)
    assert then.command is not None and "--mem-fraction-static 0.88" in then.command
    assert any("Nobody set the fraction" in one["claim"] for one in launch["cleared"])


def test_the_pools_do_not_move_a_fraction_that_the_command_leaves_to_sglang() -> None:
    true, scaled = (document(log(command=COMMAND, scale=scale))["kv_cache"] for scale in (1.0, 0.8))
    assert scaled["budget"]["kv_gib"] == true["budget"]["kv_gib"]
    assert scaled["budget"]["tokens"] == pytest.approx(true["budget"]["tokens"], rel=0.001)
    assert scaled["automatic_fraction"]["agrees"] is False
    assert scaled["limited_by"] == "unknown" and scaled["limit"]["unexplained_gib"] > 7


def test_a_doubtful_fraction_answers_no_what_if_and_advises_none() -> None:
    launch = document(log(command=COMMAND, scale=0.8))
    then = scenario(launch, Change(mem_fraction_static=0.88))
    assert then.refused is not None and "0.83" in then.refused and "0.7" in then.refused
    assert launch["kv_cache"]["fractions"] is None
    assert not any(
        remedy["flag"] == "--mem-fraction-static" and remedy["to"]
        for f in launch["findings"]
        for remedy in f["remedies"]
    )


def test_without_a_command_the_pools_decide_whether_sglang_chose() -> None:
    agreeing, given = (document(log(scale=scale))["kv_cache"] for scale in (1.0, 0.8))
    assert agreeing["budget"]["mem_fraction_static"] == FRACTION
    assert given["budget"] is None
    assert given["automatic_fraction"]["value"] is None
    assert "0.83" in given["limit"]["sentence"]


def test_a_card_known_by_its_name_makes_the_fraction_an_assumed_one() -> None:
    named = "Using MoE kernel config from /opt/configs/E=128,N=768,device_name=NVIDIA_H100_80GB_HBM3.json."
    found = document(log(command=COMMAND, card=named))["kv_cache"]["automatic_fraction"]
    assert (found["value"], found["basis"]) == (FRACTION, "assumed")


def test_a_printed_fraction_stands_whatever_sglang_would_take() -> None:
    text = log(command=COMMAND.replace("--port", "--mem-fraction-static 0.9 --port"))
    cache = document(text)["kv_cache"]
    assert cache["budget"]["mem_fraction_static"] == 0.9
    assert cache["automatic_fraction"] is None


def test_an_open_release_names_its_candidates() -> None:
    lines = [line for line in log(version="").splitlines() if "piecewise" not in line and "version:" not in line]
    launch = launch_of("\n".join(lines))
    bare = replace(inputs_of(launch, book(launch)), fraction=None)
    found = automatic_fraction(launch, bare)
    assert found is not None and len({one.value for one in found.candidates}) > 1
    assert all(one.releases and one.rests_on for one in found.candidates)


def bare(case: str) -> tuple[Launch, SizingInputs]:
    launch = launch_of((CORPUS / case / "log.txt").read_bytes())
    return launch, inputs_of(launch, book(launch))


@pytest.mark.parametrize(
    ("case", "fraction"),
    [
        ("qwq-32b-4xl4-ecs", 0.85),
        ("qwen3-4b-ipynb-output-strings", 0.88),
        ("qwen25-3b-80gb-nohup-serving", 0.836),
        ("llama31-8b-lora-notebook-three-adapters", 0.91),
    ],
)
def test_the_automatic_fraction_of_a_real_log_is_the_printed_one(case: str, fraction: float) -> None:
    launch, inputs = bare(case)
    assert inputs.fraction == fraction
    found = automatic_fraction(launch, replace(inputs, fraction=None))
    assert found is not None and fraction in {one.value for one in found.candidates}


@pytest.mark.parametrize(
    ("case", "fraction"),
    [
        ("granite4-h-micro-16gb-bench-one-batch", 0.771),
        ("lfm2-700m-16gb-bench-one-batch", 0.771),
        ("llama3-8b-mi300x-v03-no-date", 0.88),
    ],
)
def test_a_real_log_without_a_fraction_is_sized_by_sglangs_own(case: str, fraction: float) -> None:
    launch, inputs = bare(case)
    assert inputs.fraction is None
    sizing = size(launch, book(launch))
    assert sizing.inputs.fraction == fraction and sizing.automatic is not None and sizing.automatic.agrees
    assert sizing.limit.unexplained is None
