"""The arithmetic against real startups, of which readings, fraction and shape are known."""

import pytest

from kvdiag.diagnosis.ledger.sizing import LimitedBy, size_inputs
from kvdiag.diagnosis.ledger.sizing.release import release
from kvdiag.diagnosis.ledger.sizing.requests import running_requests
from tests.diagnosis.sizing.launches import STARTUPS, startup

IDS = [f"{n}-{figures['model']}" for n, figures in enumerate(STARTUPS)]


def near(tokens: float, figures: dict) -> bool:
    error = tokens / figures["kv_tokens"] - 1
    return abs(error) <= 0.005 or abs(error) * figures["kv_gb"] <= 0.1


@pytest.mark.parametrize("figures", STARTUPS, ids=IDS)
def test_tokens_of_a_real_startup_follow_from_its_readings_and_fraction(figures):
    budget = size_inputs(startup(figures)).budget
    assert budget is not None and budget.tokens is not None
    assert near(budget.tokens.value, figures)


@pytest.mark.parametrize("figures", STARTUPS, ids=IDS)
def test_an_unknown_release_is_decided_by_what_fits_and_all_that_fit_are_named(figures):
    sizing = size_inputs(startup(figures, release=None))
    assert sizing.budget is not None and sizing.budget.tokens is not None
    assert near(sizing.budget.tokens.value, figures)
    named = sizing.to_document()["budget"]["candidates"]
    assert named and all(candidate["assumes"] for candidate in named)


@pytest.mark.parametrize("figures", STARTUPS, ids=IDS)
def test_a_pool_line_scaled_down_moves_neither_budget_nor_fraction(figures):
    true, scaled = (size_inputs(startup(figures, scale=scale)) for scale in (1.0, 0.8))
    assert true.budget is not None and scaled.budget is not None
    assert scaled.budget.kv == true.budget.kv
    assert scaled.budget.reserve == true.budget.reserve
    assert scaled.limited_by in (LimitedBy.UNKNOWN, LimitedBy.SIZING_FAULT)
    if scaled.limited_by is LimitedBy.UNKNOWN:
        assert scaled.limit.unexplained is not None


def test_the_true_startups_have_no_unexplained_gap():
    for figures in STARTUPS:
        sizing = size_inputs(startup(figures))
        assert sizing.limit.unexplained is None, (figures["model"], sizing.limit)


def test_the_reserve_is_the_opening_times_what_the_fraction_leaves():
    for figures in STARTUPS:
        budget = size_inputs(startup(figures)).budget
        assert budget is not None
        assert budget.reserve == pytest.approx(figures["pre_load_avail_gb"] * (1 - budget.fraction))


def test_running_requests_are_reproduced_where_the_release_is_known():
    checked = 0
    for figures in STARTUPS:
        version, reported = figures.get("version_for_model"), figures.get("max_running_logged")
        if version is None or reported is None:
            continue
        limit = running_requests(
            figures["kv_tokens"],
            figures["context_len"],
            release(version),
            given=figures.get("max_running_requests"),
            dp=figures["dp"],
            state_slots=figures.get("slots_logged"),
        )
        assert limit.limit == reported, (figures["model"], limit.formula)
        checked += 1
    assert checked > 20
