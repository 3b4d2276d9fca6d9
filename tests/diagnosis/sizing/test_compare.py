"""Compare: the steps name what moved the pool."""

import dataclasses

import pytest

from kvdiag.diagnosis.compare import compare
from tests.diagnosis.sizing.launches import document, kimi, refused_kimi


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
