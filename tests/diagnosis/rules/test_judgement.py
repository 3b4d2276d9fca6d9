"""What rules share: thresholds, prices, directions, and what is said of a quiet launch."""

from __future__ import annotations

import dataclasses
import io
import logging
from pathlib import Path
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.rules import all_rules, checking
from kvdiag.diagnosis.rules.rule import Case, Confidence, Rule, Severity
from kvdiag.diagnosis.rules.thresholds import Thresholds
from kvdiag.diagnosis.texts import Log
from kvdiag.diagnosis.units import from_gib, to_gib

KIMI = Path(__file__).parents[2] / "corpus" / "kimi-k25-8gpu" / "log.txt"


def launch_of(text: str | bytes) -> dict[str, Any]:
    raw = text if isinstance(text, bytes) else text.encode()
    return diagnose(Log("log", io.BytesIO(raw))).document["launches"][-1]


def case_of(text: str, **thresholds: Any) -> Case:
    """The case of a log's last launch, as the rules see it."""
    from kvdiag.diagnosis.events import Matcher
    from kvdiag.diagnosis.launches import split_launches
    from kvdiag.diagnosis.ledger.booking import book
    from kvdiag.diagnosis.ledger.sizing import size
    from kvdiag.diagnosis.lines import LineReader
    from kvdiag.diagnosis.outcome import judge

    matcher = Matcher()
    reader = LineReader([Log("log", io.BytesIO(text.encode()))], matcher.phrases, dense=matcher.dense)
    launch = split_launches(matcher.read(reader))[-1]
    ledgers = book(launch)
    return Case(
        launch,
        ledgers,
        judge(launch),
        size(launch, ledgers),
        thresholds=dataclasses.replace(Thresholds(), **thresholds),
    )


READY = """python3 -m sglang.launch_server --model-path m --mem-fraction-static 0.8
[2026-06-28 15:16:40] Load weight begin. avail mem={card} GB
[2026-06-28 15:16:45] max_total_num_tokens=392920, chunked_prefill_size=8192, max_prefill_tokens=16384, \
max_running_requests=4096, context_len=40960, available_gpu_mem={free} GB
[2026-06-28 15:16:47] The server is fired up and ready to roll!
"""


@pytest.mark.parametrize(
    ("card", "wanted"), [("139.10", 5.0), ("60.00", 5.0), ("24.00", 2.0), ("16.00", 1.5), ("7.50", 1.5), ("3.20", 0.64)]
)
def test_wanted_free_memory_follows_the_card(card: str, wanted: float) -> None:
    assert to_gib(case_of(READY.format(card=card, free="3.00")).wanted_free) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("free", "named"),
    [
        ("2.49", {"thin-slack-after-capture"}),
        ("2.51", set()),
        ("11.99", set()),
        ("12.01", {"big-free-memory-left", "mem-fraction-too-low"}),
    ],
)
def test_free_memory_at_the_end_is_read_by_one_table(free: str, named: set[str]) -> None:
    found = {f["rule"] for f in launch_of(READY.format(card="78.30", free=free))["findings"]}
    assert found & {"thin-slack-after-capture", "big-free-memory-left", "mem-fraction-too-low"} == named


def test_a_team_may_hold_thresholds_of_its_own() -> None:
    text = READY.format(card="78.30", free="6.00")
    strict = case_of(text, free_wanted=from_gib(14))
    assert "thin-slack-after-capture" in {f.rule for f in checking.check_all(strict).findings}
    assert "thin-slack-after-capture" not in {f.rule for f in checking.check_all(case_of(text)).findings}


def test_a_thin_start_lowers_the_fraction_by_what_is_missing_over_the_opening() -> None:
    launch = launch_of(READY.format(card="78.30", free="1.00"))
    remedy = next(r for f in launch["findings"] for r in f["remedies"] if r["flag"] == "--mem-fraction-static")
    assert remedy["direction"] == "lower"
    assert float(remedy["to"]) == pytest.approx(0.8 - 4.0 / 78.3, abs=0.0011)


def test_kimi_is_healthy_and_says_what_was_checked() -> None:
    launch = launch_of(KIMI.read_bytes())
    assert not [f for f in launch["findings"] if f["severity"] in ("critical", "warning", "advice")]
    passed = {p["rule"]: p["because"] for p in launch["checks"]["passed"]}
    assert passed["thin-slack-after-capture"] == "7.43 GiB are free at the end, 5.00 GiB wanted"
    claims = " ".join(c["claim"] for c in launch["cleared"])
    assert "max_running_requests=48 does not limit the KV pool" in claims
    assert "Nothing was lost between the end of loading and the pool" in claims
    assert all(c["lines"] for c in launch["cleared"])
    assert launch["turn"] == "leave"


def test_what_a_launch_does_not_have_is_not_counted_as_passed() -> None:
    launch = launch_of(READY.format(card="78.30", free="8.00"))
    idle = {x["rule"]: x["because"] for x in launch["checks"]["not_applicable"]}
    assert idle["mamba-share-too-large"] == "the model has no pool of states"
    assert idle["pp-uneven-layers"] == "one pipeline stage holds all layers"
    assert "mamba-share-too-large" not in {p["rule"] for p in launch["checks"]["passed"]}


def test_a_rule_that_needs_a_line_says_which_one_is_missing() -> None:
    launch = launch_of(READY.format(card="78.30", free="8.00"))
    because = {x["rule"]: x["because"] for x in launch["not_run"]}
    assert because["graph-memory-large"] == "the log has no end of a graph capture line"


def test_serving_alone_proves_nothing_of_what_only_a_start_prints() -> None:
    """That the server came up is proof of the failures it did not have."""
    launch = launch_of("[2026-01-01 10:00:00 TP0] Decode batch. #running-req: 4, #token: 900, token usage: 0.10\n")
    passed = {x["rule"] for x in launch["checks"]["passed"]}
    because = {x["rule"]: x["because"] for x in launch["not_run"]}
    assert because["pool-tiny"] == because["unbalanced-gpus"] == "the log does not show the start"
    assert {"kv-pool-oom", "decode-graph-oom", "weights-exceed-gpu"} <= passed


def test_a_rule_that_raises_is_named_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(case: Case) -> Any:
        raise ZeroDivisionError

    wrong = Rule("a-broken-rule", "It breaks", Severity.INFO, {}, (), None, broken)
    monkeypatch.setattr(checking, "all_rules", lambda: (wrong, *all_rules()))
    with caplog.at_level(logging.CRITICAL, logger="kvdiag.diagnosis.rules.checking"):
        checked = checking.check_all(case_of(READY.format(card="78.30", free="1.00")))
    assert ("a-broken-rule", "it failed on this log; the failure is in kvdiag's own log") in [
        (rule.id, because) for rule, because in checked.not_run
    ]
    assert "thin-slack-after-capture" in {f.rule for f in checked.findings}


def test_a_rule_about_other_releases_does_not_apply() -> None:
    text = "[2026-06-28 15:16:39] sglang version: 0.5.20\n" + READY.format(card="78.30", free="8.00")
    idle = {x["rule"]: x["because"] for x in launch_of(text)["checks"]["not_applicable"]}
    assert "0.5.20" in idle["loader-memory-still-referenced"]


def test_a_symptom_hangs_on_its_cause() -> None:
    log = (Path(__file__).parent / "logs" / "max-total-tokens-cap.log").read_text(encoding="utf-8")
    found = {f["rule"]: f for f in launch_of(log)["findings"]}
    assert found["big-free-memory-left"]["part_of"] == "max-total-tokens-cap"
    assert found["big-free-memory-left"]["severity"] == "info"
    assert not found["big-free-memory-left"]["remedies"]
    assert found["max-total-tokens-cap"]["part_of"] is None


def test_findings_of_one_cause_name_all_their_ranks() -> None:
    ranks = "".join(
        f"[2026-06-28 15:16:40 TP{n}] Load weight begin. avail mem=78.30 GB\n"
        f"[2026-06-28 15:16:45 TP{n}] Capture cuda graph end. Time elapsed: 2.00 s. mem usage=1.40 GB."
        f" avail mem=1.{n}0 GB.\n"
        for n in range(4)
    )
    found = [f for f in launch_of(ranks)["findings"] if f["rule"] == "thin-slack-after-capture"]
    assert [f["ranks"] for f in found] == [["TP0", "TP1", "TP2", "TP3"]]


def test_certain_means_that_the_figures_close() -> None:
    known = launch_of(READY.format(card="78.30", free="1.00"))
    cut = launch_of("[2026-06-28 15:16:45 TP0] Capture cuda graph end. Time elapsed: 2.00 s. avail mem=0.30 GB.\n")
    assert _confidence(known, "thin-slack-after-capture") == Confidence.CERTAIN
    assert _confidence(cut, "thin-slack-after-capture") == Confidence.LIKELY


def _confidence(launch: dict[str, Any], rule: str) -> str:
    return next(f["confidence"] for f in launch["findings"] if f["rule"] == rule)


def test_printed_hints_are_contradicted_by_name() -> None:
    log = (Path(__file__).parent / "logs" / "capture-error-not-memory.log").read_text(encoding="utf-8")
    found = next(f for f in launch_of(log)["findings"] if f["rule"] == "capture-error-not-memory")
    assert "--mem-fraction-static" in found["why"]
    assert not found["remedies"]


def test_eight_bit_kv_is_never_offered_without_its_caveat() -> None:
    log = (Path(__file__).parent / "logs" / "pool-below-one-request.log").read_text(encoding="utf-8")
    offers = [r for f in launch_of(log)["findings"] for r in f["remedies"] if r["flag"] == "--kv-cache-dtype"]
    assert offers
    assert all("accuracy" in r["cost"] for r in offers)


def test_where_a_refusal_and_an_overflow_meet_no_direction_is_given() -> None:
    log = (Path(__file__).parent / "logs" / "no-feasible-fraction.log").read_text(encoding="utf-8")
    found = launch_of(log)["findings"]
    assert found[0]["rule"] == "no-feasible-fraction"
    assert "--mem-fraction-static" not in {r["flag"] for f in found for r in f["remedies"]}


LATENT = """[2026-02-26 16:41:18 TP{rank}] KV Cache is allocated. #tokens: 2454421, KV size: 160.63 GB
[2026-02-26 16:41:18 TP{rank}] Memory pool end. avail mem=45.24 GB
"""


def test_a_flag_that_came_after_the_logs_release_is_not_offered() -> None:
    def offered(version: str) -> set[str]:
        log = f"SGLang version: {version}\n" + "".join(LATENT.format(rank=n) for n in range(2))
        found = next(x for x in launch_of(log)["findings"] if x["rule"] == "mla-kv-replicated")
        return {x["flag"] for x in found["remedies"]}

    assert "--dcp-size" not in offered("0.5.9")
    assert "--dcp-size" in offered("0.5.19")


CUT = """[2024-10-22 06:31:49 TP0] Load weight end. type=A, dtype=torch.bfloat16, avail mem=21.96 GB, mem usage=8.81 GB.
[2024-10-22 06:31:49 TP0] Memory pool end. avail mem=3.46 GB
[2024-10-22 06:31:49 TP0] Scheduler hit an exception: Traceback (most recent call last):
  File "/opt/sglang/srt/model_executor/cuda_graph_runner.py", line 162, in __init__
    self.capture()
"""


def test_a_traceback_that_is_cut_before_its_error_rules_nothing_out() -> None:
    assert "not-memory" not in {x["rule"] for x in launch_of(CUT)["findings"]}
    whole = launch_of(f"{CUT}ValueError: head_dim 96 is not supported\n")
    assert "not-memory" in {x["rule"] for x in whole["findings"]}


DRAFT = """[2026-02-11 06:44:17] Load weight begin. avail mem=78.58 GB
[2026-02-11 06:44:20] Load weight end. type=A, dtype=torch.bfloat16, avail mem=66.03 GB, mem usage=12.55 GB.
{target}[2026-02-11 06:45:01] max_total_tokens=20480 is larger than the profiled value -89624. Use the profiled value \
instead.
"""
TARGET = """[2026-02-11 06:44:20] KV Cache is allocated. #tokens: 20480, K size: 5.00 GB, V size: 5.00 GB
[2026-02-11 06:44:20] Memory pool end. avail mem=56.00 GB
"""


def test_a_negative_budget_that_only_the_drafts_pool_was_given_is_no_fault() -> None:
    ended = launch_of(DRAFT.format(target=""))
    assert "negative-token-budget" in {x["rule"] for x in ended["findings"]}
    ready = launch_of(DRAFT.format(target=TARGET) + "[2026-02-11 06:45:24] The server is fired up and ready to roll!\n")
    found = {x["rule"]: x for x in ready["findings"]}
    assert "negative-token-budget" not in found
    assert found["max-total-tokens-cap"]["remedies"][0]["flag"] == "--max-total-tokens"
    assert not found["big-free-memory-left"]["remedies"]


def test_a_push_back_that_every_tensor_rank_prints_is_counted_once() -> None:
    line = "[2025-03-07 21:49:{at}{rank}] Decode out of memory happened. #retracted_reqs: 2\n"
    tensor = launch_of("".join(line.format(at=at, rank=f" TP{n}") for at in (33, 45, 51) for n in range(8)))
    assert (tensor["serving"]["retractions"], tensor["serving"]["retracted_requests"]) == (3, 6)
    data = launch_of("".join(line.format(at=at, rank=f" DP{n} TP{n}") for at in (33, 45, 51) for n in range(8)))
    assert data["serving"]["retractions"] == 24


def test_the_switch_of_the_balance_check_is_not_offered_before_it_existed() -> None:
    log = """SGLang version: {version}
[2025-03-09 14:40:46 TP4] Memory pool end. avail mem=3.11 GB
[2025-03-09 14:40:48 TP4] Scheduler hit an exception: Traceback (most recent call last):
ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes.
"""

    def offered(version: str) -> set[str]:
        return {x["flag"] for f in launch_of(log.format(version=version))["findings"] for x in f["remedies"]}

    assert "SGL_DISABLE_TP_MEMORY_INBALANCE_CHECK" not in offered("0.4.3")
    assert "SGL_DISABLE_TP_MEMORY_INBALANCE_CHECK" in offered("0.4.6")


def test_tensor_ranks_that_print_no_figure_count_too() -> None:
    log = """[2025-07-02 07:41:58 DP0 TP0] Load weight end. type=A, dtype=torch.bfloat16, avail mem=21.73 GB, \
mem usage=166.59 GB.
[2025-07-02 07:41:59 DP7 TP7] max_total_tokens=131072 is larger than the profiled value -561981. Use the profiled \
value instead.
"""
    launch = launch_of(log)
    assert (launch["parallel"]["tp"], launch["parallel"]["dp"]) == (8, 8)
    offers = {x["flag"]: x["to"] for f in launch["findings"] for x in f["remedies"]}
    assert offers["--tp-size"] == "16"


@pytest.mark.parametrize(
    ("device", "variable"),
    [("CUDA", "PYTORCH_CUDA_ALLOC_CONF"), ("NPU", "PYTORCH_NPU_ALLOC_CONF"), ("HIP", "PYTORCH_HIP_ALLOC_CONF")],
)
def test_the_allocators_variable_is_that_of_the_device(device: str, variable: str) -> None:
    log = f"""torch.OutOfMemoryError: {device} out of memory. Tried to allocate 1.20 GiB (GPU 0; 61.27 GiB total \
capacity; 50.05 GiB already allocated; 5.04 MiB free; 58.39 GiB reserved in total by PyTorch)
"""
    found = next(x for x in launch_of(log)["findings"] if x["rule"] == "allocator-fragmentation")
    assert found["remedies"][0]["flag"] == variable


OVERFLOW_WHILE_SERVING = """python3 -m sglang.launch_server --model-path m --mem-fraction-static 0.9
[2025-05-14 10:02:40 TP0] Load weight begin. avail mem=77.53 GB
[2025-05-14 10:03:10 TP0] Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=45.53 GB, \
mem usage=32.00 GB.
{made}[2025-05-14 10:11:03 TP0] Scheduler hit an exception: Traceback (most recent call last):
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.75 GiB. GPU 0 has a total capacity of 79.15 GiB of \
which 812.25 MiB is free.
"""
POOLS_MADE = """[2025-05-14 10:03:20 TP0] Memory pool end. avail mem=4.39 GB
[2025-05-14 10:03:36 TP0] max_total_num_tokens=304506, chunked_prefill_size=8192, max_prefill_tokens=16384, \
max_running_requests=4096, context_len=131072
[2025-05-14 10:03:39] The server is fired up and ready to roll!
"""


@pytest.mark.parametrize(("made", "is_table"), [(POOLS_MADE, False), ("", True)])
def test_a_request_that_only_happens_to_be_rows_of_the_table_is_not_it_once_the_pools_are_made(
    made: str, is_table: bool
) -> None:
    """1.75 GiB is 3,584 × (131,072 + 4) × 4 bytes, and no table: it was made before the server served."""
    text = OVERFLOW_WHILE_SERVING.format(made=made).replace("--model-path m", "--model-path m --context-length 131072")
    assert ("req-to-token-table-too-large" in {f["rule"] for f in launch_of(text)["findings"]}) == is_table


def test_an_error_too_long_to_quote_is_cut_between_words_and_says_so() -> None:
    error = "call failed at " + "step " * 40 + "error code is 161002"
    text = READY.format(card="60.00", free="20.00").replace("[2026-06-28 15:16:47] The server is fired up", "")
    text = f"{text[: text.rindex(' and ready')]}\nRuntimeError: {error}\n"
    summary = next(f["summary"] for f in launch_of(text)["findings"] if f["rule"] == "not-memory")
    assert summary.endswith("step …")


LIMITS = "max_total_num_tokens={tokens}, max_running_requests=4, context_len={context}, available_gpu_mem=21.18 GB"
DSV4 = "DSV4 memory calculation: bytes_per_full_token=1670.75, available_bytes=11.71 GB, full_token={tokens}"
KV = "KV Cache is allocated. #tokens: 100000, K size: {size} GB, V size: {size} GB"
CAPTURED = """[2025-11-30 12:50:10] KV Cache is allocated. #tokens: 2243474, K size: 59.91 GB, V size: 59.91 GB
[2025-11-30 12:50:10] Memory pool end. avail mem=40.03 GB
[2025-11-30 12:50:10] Capture cuda graph begin. This can take up to several minutes. avail mem=39.48 GB
[2025-11-30 12:50:10] Capture cuda graph bs [1, 2, 4, 8]
[2025-11-30 12:50:15] Capture cuda graph end. Time elapsed: 5.37 s. mem usage=1.44 GB. avail mem=38.05 GB.
"""


def test_no_larger_fraction_is_offered_before_the_last_capture_is_done() -> None:
    (room,) = [f for f in launch_of(CAPTURED)["findings"] if f["rule"] == "big-free-memory-left"]
    assert "5.00 on cards from 60.00" in room["formula"]
    again = CAPTURED + "[2025-11-30 12:50:15] Capture cuda graph num tokens [4, 8, 12, 16]\n"
    two = "".join(again.replace("]", f" TP{rank}]", 5) for rank in (0, 1)).replace("graph num tokens", "graph bs", 1)
    for log in (again, two):  # of two ranks, one is in the next capture
        assert not [f for f in launch_of(log)["findings"] if f["rule"] == "big-free-memory-left"]
        assert "ends while graphs are captured" in launch_of(log)["verdict"]
        assert "38.05 GiB free" in launch_of(log)["verdict"]


def test_a_summary_without_its_ranks_prefix_still_tells_what_is_free() -> None:
    launch = launch_of(
        "max_total_num_tokens=287488, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=32,"
        " context_len=262144, available_gpu_mem=14.93 GB\n"
        "[TP1] Capture target verify CUDA graph end. elapsed=64.96 s\n"
        "The server is fired up and ready to roll!\n"
    )
    assert "14.93 GiB stay free" in launch["verdict"]


@pytest.mark.parametrize(
    ("lines", "capped"),
    [
        ((LIMITS.format(tokens=32_768, context=32_768),), True),  # as many as one request may have
        ((LIMITS.format(tokens=4_000_000, context=1_048_576),), True),
        ((LIMITS.format(tokens=4_000_256, context=1_048_576),), False),
        ((DSV4.format(tokens=6_786_560), LIMITS.format(tokens=4_000_256, context=1_048_576)), True),
        ((DSV4.format(tokens=4_000_512), LIMITS.format(tokens=4_000_256, context=1_048_576)), False),
        ((KV.format(size=7.5), LIMITS.format(tokens=100_000, context=262_144)), False),
        ((KV.format(size=2.0), LIMITS.format(tokens=100_000, context=262_144)), True),
    ],
)
def test_a_pool_that_someone_may_have_capped_asks_for_no_larger_fraction(lines: tuple[str, ...], capped: bool) -> None:
    launch = launch_of("".join(f"[2026-10-02 20:11:03 TP0] {line}\n" for line in lines))
    (room,) = [f for f in launch["findings"] if f["rule"] == "big-free-memory-left"]
    flags = {remedy["flag"] for remedy in room["remedies"]}
    assert flags == {"--max-total-tokens" if capped else "--mem-fraction-static"}


def test_memory_that_comes_back_beside_a_round_pool_is_another_programs() -> None:
    launch = launch_of(
        "[2026-05-23 07:41:00] KV Cache is allocated. #tokens: 20480, K size: 1.25 GB, V size: 1.25 GB\n"
        "[2026-05-23 07:41:00] Memory pool end. avail mem=28.98 GB\n"
        "[2026-05-23 07:41:05] max_total_num_tokens=20480, chunked_prefill_size=8192, max_prefill_tokens=16384,"
        " max_running_requests=128, context_len=16384, available_gpu_mem=48.49 GB\n"
    )
    found = {f["rule"] for f in launch["findings"]}
    assert "loader-memory-still-referenced" not in found
    assert "--max-total-tokens may set the pool" in launch["verdict"]


SHORT = """[2025-03-08 12:29:21 TP0] Load weight end. type=Qwen2ForCausalLM, dtype=torch.bfloat16, avail mem=6.09 GB, \
mem usage=15.54 GB.
[2025-03-08 12:29:21 TP0] KV Cache is allocated. #tokens: 46611, K size: 1.42 GB, V size: 1.42 GB
[2025-03-08 12:29:21 TP0] Memory pool end. avail mem=2.09 GB
[2025-03-08 12:29:21 TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=1.45 GB
[2025-03-08 12:29:28 TP0] Capture cuda graph end. Time elapsed: 7.23 s. avail mem=0.53 GB. mem usage=0.93 GB.
[2025-03-08 12:29:29 TP0] max_total_num_tokens=46611, chunked_prefill_size=2048, max_prefill_tokens=16384, \
max_running_requests={rows}, context_len={context}
"""


@pytest.mark.parametrize(
    ("rows", "context", "command", "free"),
    [
        (2049, 131_072, "", 1.4055),
        (2049, 4_096, "", None),  # a table of 32 MiB is not what is missing
        (128, 131_072, "", None),
        (2049, 131_072, "python3 -m sglang.launch_server --model-path m --max-running-requests 2049\n", None),
    ],
)
def test_a_long_table_of_requests_that_nobody_asked_for_is_given_back(
    rows: int, context: int, command: str, free: float | None
) -> None:
    launch = launch_of(command + SHORT.format(rows=rows, context=context))
    (thin,) = [f for f in launch["findings"] if f["rule"] == "thin-slack-after-capture"]
    offers = {r["flag"]: r for r in thin["remedies"]}
    assert "--mem-fraction-static" in offers
    assert offers.get("--max-running-requests", {}).get("effect", {}).get("free_gib", {}).get("to") == free


def test_a_cap_that_may_set_the_pool_promises_no_tokens_to_smaller_ones() -> None:
    launch = launch_of(
        "[2026-05-23 07:41:00] KV Cache is allocated. #tokens: 20480, K size: 1.25 GB, V size: 1.25 GB\n"
        "[2026-05-23 07:41:05] max_total_num_tokens=20480, max_running_requests=128, context_len=131072,"
        " available_gpu_mem=48.49 GB\n"
    )
    assert "--kv-cache-dtype" not in {r["flag"] for f in launch["findings"] for r in f["remedies"]}
    assert "fp8-kv-capacity" not in {f["rule"] for f in launch["findings"]}


def test_what_was_free_before_the_pool_is_not_what_stays_free() -> None:
    launch = launch_of(
        "python3 -m sglang.launch_server --model-path Qwen/Qwen3-30B-A3B --mem-fraction-static 0.85\n"
        "Load weight end. elapsed=8.01 s, type=Qwen3MoeForCausalLM, dtype=torch.bfloat16, avail mem=62.08 GB,"
        " mem usage=16.41 GB.\n"
        "KV Cache is allocated. #tokens: 549277, K size: 25.14 GB, V size: 25.14 GB\n"
        "Capture cuda graph end. Time elapsed: 26.12 s.\n"
        "The server is fired up and ready to roll!\n"
    )
    assert launch["levers"]
    assert all(lever["free_gib"] is None for lever in launch["levers"])


@pytest.mark.parametrize(
    ("running", "kept", "said", "lowers"),
    [
        (1, "", "at 1 running request", False),  # one cannot be fewer
        (
            1,
            "pre-allocated usage: 0.88, #prealloc-req: 44, ",
            "0.88 of it is kept for requests that still arrive",
            True,
        ),
        (6, "", "at 6 running requests", True),
    ],
)
def test_a_full_pool_says_what_fills_it(running: int, kept: str, said: str, lowers: bool) -> None:
    launch = launch_of(
        f"[2026-04-20 22:54:04 DP28] Decode batch, #running-req: {running}, #token: 364032, token usage: 1.00, {kept}"
        "cuda graph: True, gen throughput (token/s): 11.87, #queue-req: 0\n"
    )
    (full,) = [f for f in launch["findings"] if f["rule"] == "full-pool-exhausted"]
    assert said in full["summary"]
    assert ("--max-running-requests" in {r["flag"] for r in full["remedies"]}) is lowers


def test_states_of_draft_tokens_that_outgrow_the_cache_are_named() -> None:
    launch = launch_of(
        "[2026-10-02 00:39:31] Load weight begin. avail mem=93.77 GB\n"
        "[2026-10-02 00:39:40] Mamba Cache is allocated. max_mamba_cache_size: 64, conv_state size: 0.07GB, ssm_state"
        " size: 3.05GB intermediate_ssm_state_cache size: 48.75GB intermediate_conv_window_cache size: 0.43GB\n"
        "[2026-10-02 00:39:41] KV Cache is allocated. #tokens: 295950, K size: 4.52 GB, V size: 4.52 GB\n"
        "[2026-10-02 00:39:41] Memory pool end. avail mem=21.57 GB\n"
    )
    (share,) = [f for f in launch["findings"] if f["rule"] == "mamba-share-too-large"]
    assert "49.18 GiB beside 9.04 GiB" in share["summary"]
    notes = {r["flag"]: r["note"] for r in share["remedies"]}
    assert set(notes) == {"--max-running-requests", "--speculative-num-draft-tokens"}
    assert all("states of draft tokens shrink" in note for note in notes.values())


TINY = """[2025-09-28 17:07:10 TP0] Load weight begin. avail mem=94.63 GB
[2025-09-28 17:07:10 TP0] Load weight end. type=GptOssForCausalLM, dtype=torch.bfloat16, avail mem=91.91 GB, \
mem usage=2.72 GB.
[2025-09-28 17:07:10 TP0] Using KV cache dtype: {dtype}
[2025-09-28 17:07:10 TP0] KV Cache is allocated. #tokens: {tokens}, K size: 0.10 GB, V size: 0.10 GB
[2025-09-28 17:07:10 TP0] Memory pool end. avail mem=89.83 GB
"""


@pytest.mark.parametrize(
    ("dtype", "tokens", "offered"),
    [
        ("torch.float8_e5m2", 4096, {"--max-total-tokens"}),
        ("torch.bfloat16", 4096, {"--max-total-tokens"}),
        ("torch.bfloat16", 4097, {"--kv-cache-dtype"}),
        ("torch.float8_e5m2", 4097, set()),  # in 8 bits already, as its line says
    ],
)
def test_a_tiny_pool_is_offered_what_can_make_it_larger(dtype: str, tokens: int, offered: set[str]) -> None:
    launch = launch_of(TINY.format(dtype=dtype, tokens=tokens))
    (tiny,) = [f for f in launch["findings"] if f["rule"] == "pool-tiny"]
    assert {r["flag"] for r in tiny["remedies"]} == offered
