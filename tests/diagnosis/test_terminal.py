"""The report in the terminal: the same figures as the document, and nothing that drives the terminal."""

from __future__ import annotations

import io
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.cli import main
from kvdiag.diagnosis.rules import all_rules, checking
from kvdiag.diagnosis.rules.rule import Case, Rule, Severity
from kvdiag.diagnosis.text import render, signed
from kvdiag.diagnosis.texts import Log
from reports.header import layout_words

CORPUS = Path(__file__).parent.parent / "corpus"


def text_of(case: str, colour: bool = False) -> str:
    with (CORPUS / case / "log.txt").open("rb") as log:
        return render(diagnose(log), "text", colour)


def test_the_budget_is_told_with_its_equation_and_its_limit() -> None:
    lines = text_of("kimi-k25-8gpu").splitlines()
    budget = next(i for i, line in enumerate(lines) if line.startswith("Budget: "))
    assert lines[budget].startswith("Budget: 21.71 − 94.04 × (1 − 0.88) = 10.425 GiB ≈ 159,294 tokens")
    assert lines[budget + 1] == "Limited by: memory. The budget of 10.425 GiB is used to the last page."


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_a_capped_budget_says_what_the_memory_would_hold_and_what_cut_it(form: str) -> None:
    with (CORPUS / "llama31-8b-lora-notebook-three-adapters" / "log.txt").open("rb") as log:
        line = next(x for x in render(diagnose(log), form).splitlines() if x.startswith("Budget: "))
    assert "111.588 GiB ≈ 914,131 tokens by memory; capped at 20,480 by --max-total-tokens" in line
    assert "%" not in line  # the memory's count is no prediction of the capped one


def test_a_refused_start_says_why_there_is_no_pool() -> None:
    text = text_of("kimi-k25-8gpu-refused")
    assert "No pool: the weights leave 21.71 GiB" in text and "above 0.7691" in text
    assert "unknown" not in text.split("Budget:")[1].split("\n\n")[0]


def test_every_entry_of_the_ledger_has_its_line() -> None:
    rows = [line for line in text_of("kimi-k25-8gpu").splitlines() if "█" in line or "▏" in line]
    assert len(rows) >= 10
    assert all(" L" in row for row in rows)


def test_colour_is_only_where_it_is_asked_for() -> None:
    assert "\x1b[" not in text_of("kimi-k25-8gpu")
    assert "\x1b[32m" in text_of("kimi-k25-8gpu", colour=True)


@pytest.mark.parametrize(("debug", "traced"), [("", False), ("1", True)])
def test_a_rule_that_raises_is_named_in_one_line_and_traced_where_that_is_asked_for(
    debug: str, traced: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(case: Case) -> Any:
        raise ZeroDivisionError

    wrong = Rule("a-broken-rule", "It breaks", Severity.INFO, {}, (), None, broken)
    monkeypatch.setattr(checking, "all_rules", lambda: (wrong, *all_rules()))
    monkeypatch.setenv("KVDIAG_DEBUG", debug)
    assert main(["diagnose", str(CORPUS / "gptoss-20b-dummy-bench-shell-two-launches" / "log.txt")]) in (0, 1)
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "kvdiag: rule a-broken-rule could not be judged; please report it"
    assert ("ZeroDivisionError" in told[-1] and "Traceback" in told[1]) if traced else len(told) == 1


@pytest.mark.parametrize("code", ["\x1b]0;owned\x07", "\x1b[2J", "\u202e", "\x9b31m"])
def test_a_log_cannot_drive_the_terminal(code: str) -> None:
    log = (
        f"[2026-04-26 14:38:11] server_args=ServerArgs(model_path='m{code}odel', tp_size=1)\n"
        f"[2026-04-26 14:38:12 TP0] Scheduler hit an exception: RuntimeError: {code} boom\n"
    )
    shown = render(diagnose(io.BytesIO(log.encode())), "text")
    assert "failed" in shown
    assert not any(unicodedata.category(c) in ("Cc", "Cf") and c != "\n" for c in shown)


def start_of(*ranks: tuple[float, float]) -> bytes:
    """The log of a start whose ranks find and keep so many GiB free, with weights and pools alike."""
    steps = "".join(
        f"[2025-05-14 10:02:40 TP{i}] Load weight begin. avail mem={opening:.2f} GB\n"
        f"[2025-05-14 10:03:10 TP{i}] Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16,"
        f" avail mem={opening - 32:.2f} GB, mem usage=32.00 GB.\n"
        f"[2025-05-14 10:03:20 TP{i}] KV Cache is allocated. #tokens: 262144, K size: 10.00 GB, V size: 10.00 GB\n"
        f"[2025-05-14 10:03:20 TP{i}] Memory pool end. avail mem={free:.2f} GB\n"
        for i, (opening, free) in enumerate(ranks)
    )
    return f"python -m sglang.launch_server --model-path m --tp-size {len(ranks)}\n{steps}".encode()


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_a_gpu_that_has_less_memory_is_not_called_alike(form: str) -> None:
    log = start_of((77.53, 25.53), (77.51, 25.51), (61.1, 9.1))
    shown = render(diagnose(io.BytesIO(log)), form)  # type: ignore[arg-type]
    tables = [line for line in shown.splitlines() if "Memory of" in line]
    assert len(tables) == 2
    assert "2 GPUs" in tables[0] and "3 GPUs" not in " ".join(tables)
    assert "61.10" in shown and "9.10" in shown


def test_of_alike_gpus_the_one_with_least_free_is_shown() -> None:
    shown = render(diagnose(io.BytesIO(start_of((77.53, 25.53), (77.21, 25.21)))), "text")
    assert "Memory of each of 2 GPUs alike" in shown
    assert "25.21" in shown.split("Free")[1].splitlines()[0]


def failed_on_the_second_rank() -> bytes:
    """Three ranks alike but the second, which took more and then ran out of memory."""
    return start_of((77.53, 25.53), (77.51, 21.51), (77.52, 25.52)) + (
        b"[2025-05-14 10:03:30 TP1] Scheduler hit an exception: Traceback (most recent call last):\n"
        b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 24.00 GiB. GPU 1 has a total capacity of"
        b" 79.11 GiB of which 21.20 GiB is free. Process 1 has 57.91 GiB memory in use. Of the allocated memory"
        b" 54.00 GiB is allocated by PyTorch, and 0.50 GiB is reserved by PyTorch but unallocated.\n"
    )


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_the_rank_that_failed_is_shown_before_those_that_are_alike(form: str) -> None:
    shown = render(diagnose(io.BytesIO(failed_on_the_second_rank())), form)  # type: ignore[arg-type]
    tables = [line for line in shown.splitlines() if "Memory of" in line]
    assert "TP1, which failed" in tables[0]
    assert "2 GPUs alike" in tables[1] and "failed" not in tables[1]


def test_a_rank_that_failed_among_alike_ones_stands_for_them() -> None:
    text = text_of("deepseek-v4-flash-w4a8-ascend-dp4-terminal-cut")
    assert "Memory of each of 4 GPUs alike; DP2 TP2 EP2 failed, GiB" in text


def test_a_launch_of_which_no_rank_failed_shows_the_largest_group_first() -> None:
    log = start_of((77.53, 21.53), (77.51, 25.51), (77.52, 25.52))
    tables = [x for x in render(diagnose(io.BytesIO(log)), "text").splitlines() if "Memory of" in x]
    assert [x.split(",")[0] for x in tables] == ["Memory of each of 2 GPUs alike", "Memory of TP0"]


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_a_remedy_that_two_findings_offer_is_told_once_and_referred_to(form: str) -> None:
    with (Path(__file__).parent / "rules" / "logs" / "negative-token-budget.log").open("rb") as log:
        report = diagnose(log)
    offers = [r for f in report.document["launches"][0]["findings"] for r in f["remedies"]]
    again = [r for r in offers if r.get("as_under")]
    assert again and all(
        {**r, "as_under": None} in [{**o, "as_under": None} for o in offers if o is not r] for r in again
    )
    shown = render(report, form).replace("`", "")
    assert shown.count("as under negative-token-budget") == len(again)
    assert shown.count(offers[0]["cost"].replace("≈", "≈")) == 1


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_a_remedy_tells_what_it_changes_and_other_settings_what_they_would_buy(form: str) -> None:
    with (CORPUS / "gemma4-31b-awq-2x3090-swa-ratio-json" / "log.txt").open("rb") as log:
        shown = " ".join(render(diagnose(log), form).replace("`", "").split())
    findings, levers = shown.split("What other settings would buy")
    for figure in ("167,877 → about 198,388", "3.43 → about 1.92", "requests of 262,144 tokens"):
        assert figure in findings
    assert "--mem-fraction-static 0.916" in levers and "≈ 198,388 tokens, 1.92 GiB free" in levers
    assert "1.51 GiB less for activations and graphs" in levers
    assert "1.83 GiB free at the end is under the 1.91 GiB wanted; 1.60 GiB less for activations and graphs" in levers
    assert "raise --mem-fraction-static from 0.85 to 0.916" in findings
    assert "Still about 63,760 tokens short of one full-length request. It costs 1.51 GiB" in findings


@pytest.mark.parametrize("form", ["text", "markdown"])
@pytest.mark.parametrize("case", ["antangelmed-int4-a100-tp2-weight-shape-error", "phi4-lora-tp2-uneven-gpus"])
def test_one_reading_alone_makes_a_sentence_and_no_table(case: str, form: str) -> None:
    with (CORPUS / case / "log.txt").open("rb") as log:
        shown = render(diagnose(log), form)
    assert "the log has one reading of free memory only" in shown
    lines = [line for line in shown.splitlines() if line.strip()]
    heads = [i for i, line in enumerate(lines) if "Memory of" in line and "one reading" not in line]
    assert all("Free" not in "".join(lines[i + 1 : i + 2]) for i in heads)


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_sizes_are_shown_where_no_line_tells_what_was_free(form: str) -> None:
    log = b"KV Cache is allocated. #tokens: 367404, K size: 8.23 GB, V size: 8.23 GB\n"
    shown = render(diagnose(Log("log", io.BytesIO(log))), form)
    assert "none tells what was free" in shown
    (row,) = [line for line in shown.splitlines() if line.strip("| ").startswith("KV cache")]
    assert "16.46" in row and "%" not in row


def test_a_prediction_without_spread_has_no_range() -> None:
    effects = [line for line in text_of("vlm-gdn-warmup-ascend").splitlines() if "requests of " in line]
    assert effects and not any(" to " in line for line in effects)
    assert "(2,518,353 to 2,519,964)" in text_of("vlm-gdn-warmup-ascend")


def test_markdown_cites_a_line_once() -> None:
    with (CORPUS / "t4-cuda-oom-single-line" / "log.txt").open("rb") as log:
        lines = render(diagnose(log), "markdown").splitlines()
    cited = [line for line in lines if line.startswith("L")]
    assert cited and len(cited) == len(set(cited))


def test_one_line_that_was_not_understood_is_told_in_the_singular() -> None:
    assert "1 line speaks of memory and was not understood: L59." in text_of("qwen25-15b-gb10-fp4kv-graph-fail")
    assert "3 lines speak of memory and were not understood" in text_of("hybrid-moe-fork-5090-3080-uneven-tp3")


def test_nodes_and_releases_are_told_in_words() -> None:
    head = text_of("deepseek-v41-flash-3x-gb10-args-dict").splitlines()[0]
    assert "TP 3, EP 3, 3 nodes" in head
    assert head.endswith("SGLang 0.5.20 or later, before 0.5.21")


def test_what_is_wanted_free_is_told_alike_where_the_host_shares_the_memory() -> None:
    text = text_of("deepseek-v41-flash-3x-gb10-args-dict")
    assert "About 5.00 GiB are wanted for prefill, logits and the allocator; what is there is within" in text
    assert "A change that takes more should leave 24.34 GiB, as the host lives in the same memory." in text
    assert "should leave" not in text_of("kimi-k25-8gpu").split("are wanted for prefill")[1].splitlines()[0]


def test_two_logs_of_one_name_are_told_apart_and_a_reason_is_given_once(capsys: pytest.CaptureFixture[str]) -> None:
    kimi, refused = (str(CORPUS / case / "log.txt") for case in ("kimi-k25-8gpu", "kimi-k25-8gpu-refused"))
    assert main(["compare", kimi, refused]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"{kimi}, launch 1 → {refused}, launch 1"
    assert main(["compare", str(CORPUS / "glm52-pd-decode-docker-timestamps-restart" / "log.txt")]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("log.txt, launch 1 → log.txt, launch 2\n")
    assert shown.count("does not say which fraction was in effect") == 1


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_less_than_nothing_has_a_real_minus_sign_and_nothing_has_none(form: str) -> None:
    with (CORPUS / "deepseek-v41-flash-3x-gb10-args-dict" / "log.txt").open("rb") as log:
        shown = render(diagnose(log), form)
    rows = [line for line in shown.splitlines() if "graphs, draft" in line or "Workspaces, draft" in line]
    assert len(rows) == 2 and all("−0." in row for row in rows)
    assert not any("-0." in row or "−0.0%" in row or "−0.00" in row for row in rows)


@pytest.mark.parametrize(
    ("value", "digits", "said"), [(-0.004, 2, "0.00"), (-0.006, 2, "−0.01"), (0.0, 1, "0.0"), (-1234.5, 1, "−1,234.5")]
)
def test_a_sign_is_kept_only_where_a_digit_is(value: float, digits: int, said: str) -> None:
    assert signed(value, digits) == said


def test_a_count_of_requests_says_how_long_they_are() -> None:
    text = text_of("llama31-8b-lora-notebook-three-adapters")
    assert "requests of 131,072 tokens: 0 → about 6" in text
    assert "requests: " not in text
    assert "requests of 65,536 tokens: 0 → about 1" in text_of("laguna-s21-nvfp4-gb10-cut-after-pool")  # an argument


def test_markdown_says_what_was_launched_on_what() -> None:
    with (CORPUS / "deepseek-v41-flash-3x-gb10-args-dict" / "log.txt").open("rb") as log:
        head = render(diagnose(log), "markdown").split("**")[0]
    assert (
        "DeepSeek-V4.1-Flash · 1 of 3 GPUs in the log · TP 3, EP 3, 3 nodes · SGLang 0.5.20 or later, before 0.5.21"
        in head
    )


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_each_report_of_several_has_its_name_and_one_blank_line_before_the_next(
    form: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    logs = [str(CORPUS / case / "log.txt") for case in ("t4-cuda-oom-single-line", "kimi-k25-8gpu")]
    other = tmp_path / "notes.txt"
    other.write_text("no server here\n")
    main(["diagnose", "--each", "--format", form, logs[0], str(other), logs[1]])
    out = capsys.readouterr().out
    assert all(name in out.replace("\\", "") for name in logs) and "notes.txt" not in out
    assert "\n\n\n" not in out
    main(["diagnose", "--format", form, logs[0]])
    assert logs[0] not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("deepseek-r1-a800-not-enough-memory", "at least 5 TP ranks seen"),
        ("glm5-rocm-pp2-dp8-allreduce-error", "at least TP 2, PP 2, DP 2 seen"),
        ("deepseek-v41-flash-3x-gb10-args-dict", "TP 3, EP 3, 3 nodes"),  # the arguments say so
    ],
)
def test_a_size_that_only_ranks_tell_is_a_lower_bound(case: str, said: str) -> None:
    with (CORPUS / case / "log.txt").open("rb") as log:
        report = diagnose(log)
    for form in ("text", "markdown"):
        assert said in render(report, form)
    launch = report.document["launches"][0]
    assert layout_words(launch) == said
    assert bool(launch["parallel_seen"]) == said.startswith("at least")


def test_a_bound_is_said_once() -> None:
    """A figure is about, at most or at least; never two of them."""
    with (CORPUS / "deepseek-r1-fp8-8xh200-piecewise" / "log.txt").open("rb") as log:
        report = diagnose(log)
    for form in ("text", "markdown"):
        shown = render(report, form)
        assert "at most 4,073,256 tokens in all" in shown and "≈ at most" not in shown


def test_tokens_of_all_ranks_are_not_taken_for_those_of_one() -> None:
    text = text_of("qwen3-480b-ascend-deepep-multinode-ci")
    assert "a fraction of 0.767 would fit about 225,700 tokens" in text
    assert "≈ 902,656 tokens in all" in text
    assert "in all" not in text_of("qwq-32b-4xl4-ecs")


def test_gpus_that_the_log_does_not_show_are_told() -> None:
    assert "· 8 of 16 GPUs in the log · driver" in text_of("qwen3-480b-ascend-deepep-multinode-ci").splitlines()[0]
    assert "· 8 × H200 · TP 8" in text_of("deepseek-r1-fp8-8xh200-piecewise").splitlines()[0]
    assert "· 2 × GPU · at least" in text_of("phi4-lora-tp2-uneven-gpus").splitlines()[0]


def test_nothing_reserved_is_not_told_as_a_figure() -> None:
    assert "0.29 GiB were free, and nothing lay reserved" in text_of("t4-cuda-oom-single-line")


@pytest.mark.parametrize(("form", "told"), [("text", "{} with {}"), ("markdown", "`{}` with `{}`")])
def test_a_remedy_of_two_flags_is_told_with_both(form: str, told: str) -> None:
    with (CORPUS / "kimi-k25-8gpu" / "log.txt").open("rb") as log:
        text = render(diagnose(log), form)
    assert told.format("--enable-dp-attention", "--dp-size 8") in text


@pytest.mark.parametrize("number", ["-1", "-5", "9"])
def test_a_launch_that_the_log_does_not_have_is_refused(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["what-if", str(CORPUS / "kimi-k25-8gpu" / "log.txt"), "--launch", number]) == 2
    assert "the log has 1 launches" in capsys.readouterr().err


def test_a_table_shows_the_rank_whose_free_memory_the_verdict_tells_and_says_which() -> None:
    text = text_of("gemma4-31b-awq-2x3090-swa-ratio-json")
    table = text.split("Memory of ")[1].split("\n\n")[0]
    assert table.startswith("each of 2 GPUs alike, to within 0.15 GiB (TP0 is shown), GiB\n")
    assert "3.43 GiB free" in text.split("\n\n")[0]
    assert " 3.43 " in table.split("Free")[1].splitlines()[0]
    assert " 22.91 " in table.split("First reading")[1].splitlines()[0]


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_sizes_from_before_the_only_reading_are_shown(form: str) -> None:
    log = (
        b"Mamba Cache is allocated. max_mamba_cache_size: 48, conv_state size: 0.10GB, ssm_state size: 2.58GB\n"
        b"KV Cache is allocated. dtype: torch.float8_e4m3fn, #tokens: 240128, K size: 1.37 GB, V size: 1.37 GB\n"
        b"max_total_num_tokens=240128, max_running_requests=9, context_len=65536, available_gpu_mem=8.87 GB\n"
    )
    shown = render(diagnose(Log("log", io.BytesIO(log))), form)
    assert "one reading of free memory only, 8.87 GiB (L3); what lines" in shown.replace("\\", "")
    rows = [line.replace("|", " ").split() for line in shown.splitlines()]
    assert ["Mamba", "state", "2.68", "printed", "L1"] in rows
    assert ["KV", "cache", "2.74", "printed", "L2"] in rows


@pytest.mark.parametrize(("pool", "is_share"), [("3.31", True), ("53.31", False)])
def test_a_table_whose_first_reading_comes_after_a_pool_has_no_percentages(pool: str, is_share: bool) -> None:
    text = f"""[2025-10-16 09:06:22] Memory pool end. avail mem=11.87 GB
[2025-10-16 09:06:30] Capture cuda graph end. Time elapsed: 3 s. avail mem=9.87 GB. mem usage=2.00 GB.
[2025-10-16 09:06:31] KV Cache is allocated. #tokens: 2795207, K size: {pool} GB, V size: {pool} GB
"""
    table = render(diagnose(Log("log", io.BytesIO(text.encode()))), "text")
    assert ("%" in table.partition("First reading")[0]) == is_share
