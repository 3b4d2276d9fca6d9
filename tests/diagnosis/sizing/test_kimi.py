"""The story of eight cards that hold 159,277 tokens: every figure of it, by arithmetic."""

import pytest

from kvdiag.diagnosis.ledger.sizing import LimitedBy, size_inputs
from kvdiag.diagnosis.ledger.what_if import Change, scenario, scenario_of
from tests.diagnosis.sizing.launches import document, kimi, refused_kimi


def test_the_budget_is_10_425_gib_and_about_159_294_tokens():
    budget = size_inputs(kimi()).budget
    assert budget is not None and budget.tokens is not None
    assert budget.kv.value == pytest.approx(10.4252)
    assert budget.tokens.value == 159_294
    assert budget.tokens.low <= 159_277 <= budget.tokens.high
    assert budget.error_percent == pytest.approx(0.01, abs=0.002)
    assert budget.reserve == pytest.approx(11.2848)


def test_memory_limits_the_pool_and_no_cap_binds():
    sizing = size_inputs(kimi())
    assert sizing.limited_by is LimitedBy.MEMORY
    assert sizing.requests is not None and sizing.requests.state == "cleared"
    assert sizing.bytes_per_token == 70_272


def test_it_starts_from_0_770_and_keeps_5_gib_up_to_0_904():
    found = size_inputs(kimi()).fractions
    assert found is not None
    assert (found.starts_from, found.keeps_wanted) == (0.770, 0.904)


@pytest.mark.parametrize(("fraction", "tokens", "free"), [(0.904, 193_800, 5.04), (0.92, 216_800, 3.45)])
def test_a_higher_fraction_has_its_price_and_the_drafts_pool_grows_too(fraction, tokens, free):
    found = scenario_of(size_inputs(kimi()), Change(mem_fraction_static=fraction))
    assert found.refused is None and found.tokens is not None and found.free_gib is not None
    assert found.tokens.after == pytest.approx(tokens, abs=50)
    assert found.free_gib.after == pytest.approx(free, abs=0.01)
    assert any("under the 5.00" in caution for caution in found.cautions) == (fraction == 0.92)


def test_an_fp8_cache_doubles_the_tokens_and_says_what_it_may_cost():
    found = scenario_of(size_inputs(kimi()), Change(kv_cache_dtype="fp8_e4m3"))
    assert found.tokens is not None and found.tokens.after == pytest.approx(2 * 159_277, abs=2)
    assert any("calibrated scales" in caution for caution in found.cautions)


def test_dp_attention_gives_each_group_a_cache_of_its_own():
    found = scenario_of(size_inputs(kimi()), Change(dp_attention=8))
    assert found.total_tokens is not None and found.total_tokens.after == 8 * 159_277
    assert found.total_tokens.bound == "at most" and found.total_tokens.low is None
    assert any("at most" in said for said in found.validity)


def test_a_host_tier_of_ratio_4_takes_44_8_gb_a_rank_and_runs_no_more_requests():
    found = scenario_of(size_inputs(kimi()), Change(hicache_ratio=4.0))
    assert found.host_gb is not None and found.host_gb.after == pytest.approx(44.77, abs=0.01)
    assert found.tokens is not None and found.tokens.after == found.tokens.before
    assert any("does not let more requests run" in said for said in found.validity)


def test_0_55_is_refused_with_the_fraction_above_which_it_starts():
    for found in (
        scenario_of(size_inputs(kimi()), Change(mem_fraction_static=0.55)),
        scenario(document(kimi(fraction=0.55, tokens=None, end=None)), Change()),
    ):
        assert found.refused is not None and "above 0.7691" in found.refused
        assert found.tokens is not None and found.tokens.after is None


def test_the_fraction_is_applied_to_what_was_free_before_loading_only():
    text = str(size_inputs(kimi()).to_document())
    assert "19.10" not in text and "19.1048" not in text


def test_a_refused_launch_tells_from_which_fraction_it_starts():
    found = scenario_of(size_inputs(refused_kimi()), Change(mem_fraction_static=0.88))
    assert found.refused is None and found.tokens is not None
    assert found.tokens.after == pytest.approx(159_141, abs=200)
    assert found.free_gib is None
