"""Compare: the steps name what moved the pool."""

import dataclasses
import io
from pathlib import Path

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.compare import compare
from kvdiag.diagnosis.text import compare_lines
from kvdiag.diagnosis.texts import Log
from tests.diagnosis.sizing.launches import document, kimi, refused_kimi

CORPUS = Path(__file__).parents[2] / "corpus"


def steps(found: dict) -> dict:
    return {step["cause"]: step for step in found["steps"]}


def test_the_fraction_explains_a_refusal_and_not_ten_megabytes():
    found = compare(document(kimi()), document(refused_kimi()))
    by_cause = steps(found)
    assert found["cause"] == "fraction"
    assert by_cause["fraction"]["gib"] == pytest.approx(94.04 * (0.55 - 0.88))
    assert by_cause["weights"]["gib"] == pytest.approx(-0.01)
    assert "the fraction (0.88 → 0.55)" in found["summary"]
    assert "above 0.7692" in found["summary"]
    assert "all_reduce" not in str(found)


def test_two_equal_launches_differ_by_nothing():
    found = compare(document(kimi()), document(kimi()))
    assert found["cause"] is None
    assert found["tokens"]["difference"] == 0
    assert "nothing that sets its size differs" in found["summary"]


def test_heavier_weights_are_named():
    lighter = kimi()
    heavier = kimi(after=20.71, tokens=143_997, gib=9.42)
    found = compare(document(lighter), document(heavier))
    assert found["cause"] == "weights"
    assert steps(found)["weights"]["gib"] == pytest.approx(-1.0)
    assert abs(steps(found)["rest"]["gib"]) < 0.01


def test_a_cap_is_named():
    capped = dataclasses.replace(kimi(tokens=100_000, gib=6.54), max_total_tokens=100_000)
    found = compare(document(kimi()), document(capped))
    assert found["cause"] == "cap"


def test_free_memory_at_the_end_is_split_by_pool_and_adds_up():
    def rank(free: float, weights: float) -> dict:
        entries = [{"pool": "weights", "model": "target", "gib": weights}]
        return {"id": "TP0", "opening_gib": 80.0, "free_gib": free, "entries": entries}

    one, two = document(kimi()), document(kimi())
    one["ranks"], two["ranks"] = [rank(20.0, 60.0)], [rank(15.0, 64.0)]
    free = compare(one, two)["free"]
    assert free["gib"]["difference"] == -5.0
    assert sum(step["gib"] for step in free["steps"]) == pytest.approx(-5.0)
    assert {step["cause"]: step["gib"] for step in free["steps"]} == {"opening": 0.0, "weights": -4.0, "rest": -1.0}


def test_without_a_fraction_the_comparison_says_what_is_missing():
    unknown = dataclasses.replace(kimi(), fraction=None)
    found = compare(document(kimi()), document(unknown))
    assert found["why_not"] is not None
    assert sum(step["tokens"] or 0 for step in found["steps"]) == found["tokens"]["difference"] == 0


def test_another_cache_format_is_named_although_it_moves_no_memory():
    fp8 = kimi(tokens=318_588, gib=10.42, kv_dtype="fp8_e4m3")
    found = compare(document(kimi()), document(fp8))
    assert found["cause"] == "cell"
    assert steps(found)["cell"]["tokens"] == pytest.approx(159_294, abs=2)
    assert "bytes per token (70,272 → 35,136)" in found["summary"]


def test_another_cache_format_is_named_with_the_bytes_of_a_token():
    fp8 = kimi(tokens=318_588, gib=10.42, kv_dtype="fp8_e4m3")
    found = compare(document(kimi()), document(fp8))
    assert "KV cache bfloat16 → fp8_e4m3" in found["summary"] and "fp8_e4m3" in steps(found)["cell"]["what"]
    lines = compare_lines(found)
    assert not any(line.startswith("    +0.000 GiB           +0") for line in lines)
    assert "bytes per token, KV cache bfloat16 → fp8_e4m3" in "\n".join(lines)


def test_arguments_that_differ_are_listed_in_the_terminal():
    one, two = document(kimi()), document(kimi())
    one["arguments"] |= {"attention_backend": {"value": "fa3"}, "random_seed": {"value": 1}}
    two["arguments"] |= {"attention_backend": {"value": "triton"}, "random_seed": {"value": 2}}
    lines = compare_lines(compare(one, two))
    assert "  --attention-backend: fa3 → triton" in lines and "seed" not in "\n".join(lines)


def test_less_has_a_real_minus_sign_in_every_line_of_the_terminal():
    lines = compare_lines(compare(document(kimi()), document(kimi(tokens=150_000, fraction=0.87))))
    (step,) = [line for line in lines if "mem_fraction_static" in line]
    assert step.count("−") == 2 and "-" not in "".join(lines[:-1])


def test_weights_and_tables_are_the_same_figure_everywhere():
    """Readings of two decimals leave the last digit of their difference open; a line of their own does not."""
    log = (CORPUS / "qwen25-15b-gb10-low-free-mem" / "log.txt").read_bytes()
    (launch,) = diagnose(Log("log", io.BytesIO(log))).document["launches"]
    (rank,) = launch["ranks"]
    booked = {entry["pool"]: entry["gib"] for entry in rank["entries"]}
    step = steps(compare(launch, launch))["weights"]
    assert step["from"] == step["to"] == booked["weights"] == 3.01
    (limit,) = [c for c in launch["cleared"] if "max_running_requests" in c["claim"]]
    assert f"its table of requests takes {booked['request_table']:.2f} GiB" in limit["because"]
