"""Bytes per token, automatic fractions and state slots: known figures, family by family."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvdiag.diagnosis.ledger.sizing import (
    Family,
    LimitedBy,
    PrintedPools,
    RankMemory,
    draft,
    dsa,
    dsv4,
    linear,
    mha,
    mla,
    requests,
    size_inputs,
    swa,
)
from kvdiag.diagnosis.ledger.sizing.cell import cell_size
from kvdiag.diagnosis.ledger.sizing.fraction import Machine, automatic, hidden_multipliers, vision_factor
from kvdiag.diagnosis.ledger.sizing.geometry import geometry_of, read_config
from kvdiag.diagnosis.ledger.sizing.readings import readings_of
from kvdiag.diagnosis.ledger.sizing.release import Release, ReleaseRange, release
from kvdiag.diagnosis.ledger.what_if import Change, scenario_of
from tests.diagnosis.sizing.launches import kimi

NEW = ReleaseRange.read("0.5.17")
OLD = ReleaseRange.read("0.5.6")


def geometry(name):
    found = geometry_of(name)
    assert found is not None
    return found


def test_latent_attention_is_not_divided_by_tensor_parallelism():
    assert mla.bytes_per_token(geometry("/m/DeepSeek-R1-0528"), "bfloat16") == 70_272
    assert mla.bytes_per_token(geometry("Kimi-K2.5"), "fp8_e4m3") == 35_136


def test_grouped_heads_are_divided_until_one_is_left():
    qwen = geometry("Qwen/Qwen3-30B-A3B-w8a8")
    assert mha.bytes_per_token(qwen, "bfloat16", 2) == 49_152
    assert mha.bytes_per_token(qwen, "bfloat16", 4) == mha.bytes_per_token(qwen, "bfloat16", 16)


def test_an_fp4_pool_is_charged_with_its_scales():
    assert mha.bytes_per_token(geometry("Qwen2.5-1.5B-Instruct"), "fp4_e2m1", 1) == 8064


def test_a_sparse_row_has_an_index_key_and_early_fp8_rows_are_undercharged():
    deepseek = geometry("DeepSeek-V3.2-Exp")
    npu = dsa.bytes_per_token(deepseek, "bfloat16", "npu", OLD)
    assert (npu.charged, npu.stored) == (1284 * 61, 1408 * 61)
    early = dsa.bytes_per_token(deepseek, "fp8_e4m3", "cuda", ReleaseRange.read("0.5.9"))
    assert (early.charged, early.stored) == (708 * 61, 788 * 61)
    late = dsa.bytes_per_token(deepseek, "fp8_e4m3", "cuda", NEW)
    assert late.charged == late.stored == 788 * 61


def test_a_distilled_model_is_not_taken_for_its_teacher():
    found = geometry_of("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B")
    assert found is None or not found.kv_lora_rank


def test_state_bytes_of_a_gated_delta_net():
    assert linear.state_bytes(geometry("Qwen3-Next-80B-A3B"), 4, state_size=2) == 9_879_552


def test_dsv4_pages_are_whole():
    assert dsv4.tokens(87.267 * 2**30, 176_983.05, 256) == 529_408


def test_a_rank_whose_load_is_not_in_the_log_may_be_the_one_with_least():
    seen = RankMemory(id="TP0", opening=46.86, after_weights=33.80)
    low = readings_of((seen, RankMemory(id="TP1", after_least=30.76)))
    assert low is not None and low.smallest_rank == "TP1"
    assert low.after_weights.value == 30.76 and low.after_weights.high == pytest.approx(31.26)
    near = readings_of((seen, RankMemory(id="TP1", after_least=33.60)))  # small buffers may be all that is between
    assert near is not None and (near.smallest_rank, near.after_weights.value) == ("TP0", 33.80)


def test_tokens_added_for_a_draft_up_to_0_5_6():
    assert draft.headroom("EAGLE3", 768, 3, 1, 4) == 5476
    assert draft.headroom("NGRAM", 768, 3, 1, 4) == 0
    assert draft.adds_headroom(ReleaseRange.read("0.5.6.post2")) is True
    assert draft.adds_headroom(ReleaseRange.read("0.5.7")) is False
    assert draft.adds_headroom(ReleaseRange()) is None


def test_a_draft_is_charged_by_the_targets_width_since_0_5_14():
    assert draft.charged_cell(70_272, 61) == 71_424


@pytest.mark.parametrize(
    ("machine", "version", "fraction"),
    [
        (Machine(card=24_564), "0.4.9", 0.879),
        (Machine(card=81_559, tp=8), "0.5.2", 0.831),
        (Machine(card=16_303), "0.5.6", 0.771),
        (Machine(card=294_896, tp=8), "0.5.9", 0.908),
        (Machine(card=None), "0.4.1", 0.88),
        (Machine(card=None), "0.5.23", 0.95),
        (Machine(card=81_559, tp=16), "0.3.6", 0.79),
    ],
)
def test_the_automatic_fraction_of_real_logs(machine, version, fraction):
    assert automatic(machine, release(version)) == fraction


def test_a_hidden_factor_is_considered_only_where_a_release_may_have_it():
    rocm = hidden_multipliers(ReleaseRange.read("0.5.2"), "hip", "aiter", 32_768, False)
    assert [factor.factor for factor in rocm] == [0.85]
    assert hidden_multipliers(ReleaseRange.read("0.5.9"), "hip", "aiter", 32_768, False) == ()
    assert hidden_multipliers(ReleaseRange.read("0.5.2"), "hip", "aiter", 4096, False) == ()


def test_a_vision_tower_lowers_an_automatic_fraction_within_bounds():
    assert vision_factor(24, 1024) == pytest.approx(0.95)
    assert vision_factor(48, 4096) == pytest.approx(0.95 * 0.8)


def test_a_famous_limit_of_2049_requests():
    assert requests.running_requests(46_611, 131_072, release("0.4.3")).limit == 2049
    assert requests.running_requests(46_611, 131_072, release("0.4.9")).limit == 2048


@given(
    st.floats(1e8, 1e11),
    st.integers(64, 20_000),
    st.integers(64, 20_000),
    st.floats(0.01, 1),
    st.sampled_from((1, 16, 64, 128)),
    st.sampled_from(list(swa.SplitRule)),
)
def test_both_window_pools_fit_their_budget_and_no_count_is_negative(budget, full, window, ratio, page, rule):
    size = swa.WindowCells(full * 10.0, window * 30.0, 10, 30)
    pools = swa.split(budget, size, ratio, page, rule)
    assert pools.full >= 0 and pools.window >= 0
    if rule in (swa.SplitRule.JOINT, swa.SplitRule.PROFILE_THEN_SPLIT):
        assert pools.full * size.full + pools.window * size.window <= budget + 1


@given(
    st.floats(1e9, 1e11), st.integers(1_000_000, 200_000_000), st.sampled_from(("0.5.4", "0.5.9", "0.5.14", "0.5.17"))
)
def test_states_by_ratio_stay_within_their_share(budget, state, version):
    pool = linear.state_pool(budget, state, release(version), ratio=0.9)
    assert pool.slots >= 0
    assert pool.charged <= budget * 0.9 / 1.9 + 2 * state


def test_a_pool_line_is_snapped_to_the_models_shape():
    size = cell_size(kimi())
    assert size is not None and size.basis == "geometry" and size.charged.value == 70_272


def test_a_shape_that_the_pool_line_contradicts_is_not_used():
    size = cell_size(kimi(family=Family.MHA, geometry=geometry("Qwen3-32B"), pools=PrintedPools(tokens=1000, gib=1.0)))
    assert size is not None and size.basis == "inferred"


def test_without_a_pool_line_the_shape_is_marked_as_assumed():
    size = cell_size(kimi(tokens=None))
    assert size is not None and size.basis == "assumed"


def test_a_config_json_gives_the_shape():
    found = read_config(
        {
            "text_config": {
                "num_hidden_layers": 4,
                "num_attention_heads": 8,
                "num_key_value_heads": 2,
                "hidden_size": 1024,
                "layer_types": ["full_attention", "sliding_attention", "linear_attention", "full_attention"],
                "sliding_window": 512,
            }
        }
    )
    assert found is not None
    assert (found.layers, found.swa_layers, found.linear_layers, found.head_dim) == (2, 1, 1, 128)
    assert read_config({}) is None


def test_releases_are_ordered_as_they_came():
    names = ["0.4.3", "0.4.3.post4", "0.5.2", "0.5.10.dev3", "0.5.10rc1", "0.5.10", "0.5.10.post2"]
    found = [release(name) for name in names]
    assert found == sorted(found)
    assert Release.read("0.0.0.dev1+g5f55db35e") is None


def test_a_range_is_sure_only_where_all_its_releases_agree():
    some = ReleaseRange.read(None, "0.5.7", "0.5.12")
    assert some.reaches("0.5.7") is True
    assert some.reaches("0.5.9") is None
    assert some.reaches("0.5.12") is False
    assert some.may("0.5.9", "0.5.10") and not some.may("0.5.14")


def test_an_unknown_latent_model_is_charged_for_its_draft_by_its_own_layers():
    for name in ("/models/unheard-of", "/models/Kimi-K2.5-INT4"):
        tokens = int(10.4252 * 2**30 // 71_424)
        base = kimi(
            tokens=tokens,
            gib=round((tokens + 1) * 70_272 / 2**30, 2),
            geometry=geometry_of(name),
            release=ReleaseRange.read("0.5.15"),
        )
        assert base.draft is not None
        found = size_inputs(dataclasses.replace(base, draft=dataclasses.replace(base.draft, before_pool=True)))
        assert found.budget is not None and found.budget.tokens is not None
        assert abs(found.budget.tokens.value - tokens) < 5
        assert found.limited_by is LimitedBy.MEMORY


def test_a_window_pool_sized_by_requests_stays_while_the_full_pool_takes_the_rest():
    full, window, requests_pool = 40_960, 409_600, 30_000
    budget = 20.0 - 30.0 * 0.15
    tokens = int((budget * 2**30 - requests_pool * window) // full)
    inputs = kimi(
        fraction=0.85,
        ranks=(RankMemory(id="", opening=30.0, after_weights=20.0, pool_end=4.45, end=4.0),),
        tp=1,
        family=Family.SWA,
        geometry=None,
        draft=None,
        release=ReleaseRange.read("0.5.17"),
        radix_cache=False,
        max_running_requests=16,
        swa_ratio=0.8,
        tokens=tokens,
        pools=PrintedPools(
            tokens=tokens,
            gib=round(budget, 2),
            figures=4,
            full_gib=round(tokens * full / 2**30, 2),
            swa_tokens=requests_pool,
            swa_gib=round(requests_pool * window / 2**30, 2),
        ),
    )
    sizing = size_inputs(inputs)
    assert sizing.budget is not None and sizing.budget.error_percent is not None
    assert abs(sizing.budget.error_percent) < 0.5
    assert sizing.limited_by is LimitedBy.REQUEST_SLOTS
    more = scenario_of(sizing, Change(mem_fraction_static=0.9))
    assert more.tokens is not None and more.tokens.after == pytest.approx(tokens + 1.5 * 2**30 / full, rel=0.01)
    assert scenario_of(sizing, Change(swa_full_tokens_ratio=0.5)).refused is not None


def test_a_prefill_node_needs_no_room_for_decode_graphs_since_0_5_15():
    node = Machine(card=143_771, tp=8, dp=8, dp_attention=True, chunk=8192, graph_batch=512, disaggregation="prefill")
    assert automatic(node, release("0.5.15")) > automatic(node, release("0.5.14"))
    decode = dataclasses.replace(node, disaggregation="decode", decode_requests=64)
    assert automatic(decode, release("0.5.15")) == round(
        (143_771 - 512 - 1.5 * 2048 - 128 * 8 - 2 * 512 - 4.5 * 512 * 8) / 143_771, 3
    )


def test_a_draft_is_set_aside_for_until_0_5_13():
    node = Machine(card=81_559, tp=4, speculative="EAGLE")
    assert automatic(node, release("0.5.13")) < automatic(node, release("0.5.9")) < automatic(node, release("0.5.14"))
