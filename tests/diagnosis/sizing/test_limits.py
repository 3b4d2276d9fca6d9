"""What limits a pool: each cause by its own evidence."""

import dataclasses

from kvdiag.diagnosis.ledger.sizing import Family, LimitedBy, PrintedPools, RankMemory, size_inputs
from kvdiag.diagnosis.ledger.sizing.geometry import geometry_of
from kvdiag.diagnosis.ledger.sizing.release import ReleaseRange
from tests.diagnosis.sizing.launches import STARTUPS, kimi, startup


def test_a_cap_that_equals_the_count_is_the_limit():
    sizing = size_inputs(kimi(tokens=100_000, gib=6.54, max_total_tokens=100_000))
    assert sizing.limited_by is LimitedBy.MAX_TOTAL_TOKENS
    assert "159,294" in sizing.limit.sentence


def test_a_cap_above_the_count_is_no_limit():
    assert size_inputs(kimi(max_total_tokens=200_000)).limited_by is LimitedBy.MEMORY


def test_the_smallest_rank_is_named_with_what_it_costs_each_other():
    ranks = (
        RankMemory(id="TP0", opening=94.04, after_weights=21.71, pool_end=11.27),
        RankMemory(id="TP1", opening=96.04, after_weights=23.71, pool_end=13.27),
    )
    sizing = size_inputs(kimi(ranks=ranks, tp=2))
    assert sizing.limited_by is LimitedBy.SMALLEST_RANK
    assert sizing.limit.smallest == "TP0"
    (cost,) = sizing.limit.costs
    assert cost.rank == "TP1"
    assert round(cost.gib, 2) == 1.76
    assert cost.tokens == int(cost.gib * 2**30 / 70_272)


def test_memory_left_after_a_tiny_pool_is_the_loaders():
    ranks = (RankMemory(id="", opening=94.04, after_weights=60.0, pool_end=58.5, end=50.0),)
    sizing = size_inputs(
        kimi(ranks=ranks, tp=1, tokens=1741, gib=0.11, draft=None, release=ReleaseRange.read("0.5.12"))
    )
    assert sizing.limit.fault == "loader-memory-still-referenced"
    assert sizing.limited_by is LimitedBy.SIZING_FAULT


def test_the_loader_is_not_blamed_once_the_release_collects_before_it_measures():
    ranks = (RankMemory(id="", opening=94.04, after_weights=60.0, pool_end=58.5, end=50.0),)
    sizing = size_inputs(
        kimi(ranks=ranks, tp=1, tokens=1741, gib=0.11, draft=None, release=ReleaseRange.read("0.5.19"))
    )
    assert sizing.limited_by is LimitedBy.UNKNOWN
    assert sizing.limit.unexplained is not None


def test_memory_that_comes_back_after_the_pool_is_the_drafts_second_embedding():
    inputs = kimi(tokens=156_700, gib=10.26)
    ranks = tuple(dataclasses.replace(rank, after_pool=13.9) for rank in inputs.ranks)
    assert inputs.draft is not None
    early = dataclasses.replace(inputs.draft, before_pool=True)
    sizing = size_inputs(dataclasses.replace(inputs, ranks=ranks, draft=early, release=ReleaseRange.read("0.5.17")))
    assert sizing.limit.fault == "draft-embed-dup-after-sizing"
    assert sizing.limit.fault_gib is not None and round(sizing.limit.fault_gib, 2) == 2.63


def test_an_fp8_sparse_pool_of_an_early_release_exceeds_its_budget():
    geometry = geometry_of("GLM-5-FP8")
    assert geometry is not None
    ranks = (RankMemory(id="TP0", opening=282.6, after_weights=193.8, pool_end=3.9),)
    tokens = int((193.8 - 282.6 * 0.092) * 2**30 // (708 * 78))
    sizing = size_inputs(
        kimi(
            fraction=0.908,
            ranks=ranks,
            tp=1,
            family=Family.DSA,
            geometry=geometry,
            kv_dtype="fp8_e4m3",
            release=ReleaseRange.read("0.5.9"),
            tokens=tokens,
            pools=PrintedPools(tokens=tokens, gib=round((tokens + 1) * 788 * 78 / 2**30, 2)),
            draft=None,
        )
    )
    assert sizing.limit.fault == "dsa-pool-exceeds-budget"
    assert sizing.budget is not None and sizing.budget.error_percent is not None
    assert abs(sizing.budget.error_percent) < 0.1


def test_states_that_take_half_the_budget_are_named():
    figures = next(f for f in STARTUPS if f["model"] == "granite-4.0-h-micro")
    sizing = size_inputs(startup(figures))
    assert sizing.limited_by is LimitedBy.MAMBA_RATIO
    assert sizing.bytes_per_token is None


def test_a_high_ratio_of_window_tokens_is_named():
    figures = next(f for f in STARTUPS if f.get("swa_ratio") == 0.5)
    sizing = size_inputs(startup(figures))
    assert sizing.limited_by is LimitedBy.SWA_RATIO
    assert sizing.bytes_per_token is None


def test_ranks_that_are_not_in_the_log_are_named_before_a_fault_is():
    sizing = size_inputs(dataclasses.replace(kimi(tokens=120_000, gib=7.85), tp=16))
    assert sizing.limited_by is LimitedBy.UNKNOWN
    assert "8 of 16 ranks are not in the log" in sizing.limit.sentence


def test_requests_of_full_length_that_cannot_fill_the_pool_make_the_request_limit_binding():
    sizing = size_inputs(kimi(context_length=2048))
    assert sizing.requests is not None and sizing.requests.state == "binding"


def test_free_memory_wanted_scales_with_the_card():
    for opening, wanted in ((94.0, 5.0), (60.0, 5.0), (24.0, 2.0), (16.0, 1.5)):
        ranks = (RankMemory(id="", opening=opening, after_weights=10.0),)
        assert size_inputs(kimi(ranks=ranks)).wanted_free == wanted


def test_a_pipeline_stage_with_more_layers_sets_the_tokens_of_all():
    ranks = (
        RankMemory(id="PP0 TP0", opening=94.0, after_weights=60.0, pool_end=13.9, pool=46.0, stage=0),
        RankMemory(id="PP1 TP0", opening=94.0, after_weights=62.0, pool_end=18.9, pool=43.0, stage=1),
    )
    budget = 60.0 - 94.0 * 0.15
    tokens = int(budget * 2**30 // 65_536)
    sizing = size_inputs(
        kimi(
            fraction=0.85,
            ranks=ranks,
            tp=1,
            pp=2,
            family=Family.MHA,
            geometry=None,
            tokens=tokens,
            pools=PrintedPools(tokens=tokens, gib=round(budget, 2), figures=2),
            draft=None,
        )
    )
    assert sizing.limited_by is LimitedBy.SMALLEST_RANK
    assert sizing.limit.smallest == "PP0 TP0"
    assert [cost.rank for cost in sizing.limit.costs] == ["PP1 TP0"]


def test_an_aiter_factor_is_believed_when_the_reserve_shows_it():
    opening, after, fraction = 190.0, 150.0, 0.9
    effective = fraction * 0.85
    tokens = int((after - opening * (1 - effective)) * 2**30 // 70_272)
    ranks = (
        RankMemory(id="TP0", opening=opening, after_weights=after, pool_end=round(opening * (1 - effective) - 0.05, 2)),
    )
    inputs = kimi(
        fraction=fraction,
        ranks=ranks,
        tp=1,
        tokens=tokens,
        pools=PrintedPools(tokens=tokens, gib=round((tokens + 1) * 70_272 / 2**30, 2)),
        draft=None,
        platform="hip",
        attention_backend="aiter",
        release=ReleaseRange.read("0.5.1"),
    )
    sizing = size_inputs(inputs)
    assert sizing.budget is not None and sizing.budget.fraction == effective
    assert sizing.limited_by is LimitedBy.MEMORY
    later = size_inputs(dataclasses.replace(inputs, release=ReleaseRange.read("0.5.9")))
    assert later.budget is not None and later.budget.fraction == fraction
