"""What-if: coherent for any launch the arithmetic can carry."""

import dataclasses
import json
import math
import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvdiag.diagnosis.cards import AMD, NVIDIA, is_amd, is_unified, known_capacity
from kvdiag.diagnosis.compare import compare
from kvdiag.diagnosis.ledger.sizing import DraftModel, Family, PrintedPools, RankMemory, SizingInputs, size_inputs
from kvdiag.diagnosis.ledger.sizing.geometry import geometry_of
from kvdiag.diagnosis.ledger.sizing.release import ReleaseRange, release
from kvdiag.diagnosis.ledger.sizing.requests import running_requests
from kvdiag.diagnosis.ledger.sizing.stored import inputs_of_document
from kvdiag.diagnosis.ledger.what_if import Change, Starts, scenario, scenario_of
from tests.diagnosis.sizing.launches import STARTUPS, document, kimi, startup

GIB = 2**30


@st.composite
def launches(draw: st.DrawFn) -> SizingInputs:
    """A launch whose log is true to SGLang's arithmetic, as printed: two decimals, whole pages."""
    opening = draw(st.integers(1000, 14_000)) / 100
    after = round(opening * draw(st.floats(0.06, 0.97)), 2)
    fraction = draw(st.integers(20, 99)) / 100
    cell = draw(st.sampled_from((2048, 8192, 24_576, 70_272, 131_072, 327_680)))
    page = draw(st.sampled_from((1, 16, 64, 128)))
    family = draw(st.sampled_from((Family.MHA, Family.MLA, Family.SWA, Family.LINEAR)))
    states = draw(st.floats(0.05, 0.5)) if family is Family.LINEAR else 0.0
    cap = draw(st.sampled_from((None, None, None, 20_480)))
    budget = after - opening * (1 - fraction)
    kv = budget * (1 - states)
    each = draw(st.sampled_from((0, 0, 1152, 4096, 16_384)))
    budgeted = bool(each) and family is Family.MHA and draw(st.booleans())  # 0.5.14 and later: the draft loads first
    tokens = max(0, int(kv * GIB // (cell + (each if budgeted else 0)))) // page * page
    if cap is not None:
        tokens = min(tokens, cap // page * page)
    gib = round((tokens + page) * cell / GIB, 2)
    works = tokens > 0 and gib >= 0.01
    draft = None
    if each:
        draft = DraftModel(
            algorithm="EAGLE",
            weights=0.5,
            tokens=tokens,
            pool=max(0.01, round(tokens * each / GIB, 2)),
            figures=2,
            before_pool=budgeted,
        )
    pool_end = opening * (1 - fraction) - 0.02
    end = round(pool_end - tokens * each / GIB - draw(st.floats(0.0, 3.0)), 2)
    return SizingInputs(
        ranks=(
            RankMemory(
                id="TP0",
                opening=opening,
                after_weights=after,
                pool_end=round(pool_end, 2),
                end=end if works else None,
                lowest=end if works else None,
            ),
        ),
        fraction=fraction,
        release=ReleaseRange.read("0.5.17" if budgeted else "0.5.12" if family is Family.SWA else "0.5.9"),
        family=family,
        page_size=page,
        pools=PrintedPools(
            tokens=tokens if works else None,
            gib=gib if works else None,
            state_slots=64 if states and works else None,
            state_gib=round(budget * states, 2) if states and works else None,
        ),
        draft=draft if works else None,
        tokens=tokens if works else None,
        max_total_tokens=cap,
        running_requests=48 if works else None,
        context_length=8192,
    )


FRACTIONS = st.integers(1, 99).map(lambda n: n / 100)


@given(launches())
@settings(max_examples=150, deadline=None)
def test_no_change_returns_the_launch_itself(inputs):
    found = scenario_of(size_inputs(inputs), Change())
    if found.refused is None:
        assert found.tokens is not None and found.tokens.after == (inputs.tokens or found.tokens.after)
        assert found.free_gib is None or found.free_gib.after == pytest.approx(inputs.ranks[0].end)
        assert not found.flags


@given(launches(), FRACTIONS, FRACTIONS)
@settings(max_examples=150, deadline=None)
def test_a_higher_fraction_never_gives_fewer_tokens_or_more_free_memory(inputs, one, other):
    low, high = sorted((one, other))
    first, second = (scenario_of(size_inputs(inputs), Change(mem_fraction_static=f)) for f in (low, high))
    if first.refused is None and second.refused is None:
        assert first.tokens is not None and second.tokens is not None
        assert first.tokens.after <= second.tokens.after
        if first.free_gib is not None and second.free_gib is not None:
            assert first.free_gib.after >= second.free_gib.after - 1e-9


@given(launches(), FRACTIONS)
@settings(max_examples=150, deadline=None)
def test_no_answer_is_negative_or_outside_its_own_bounds(inputs, fraction):
    found = scenario_of(size_inputs(inputs), Change(mem_fraction_static=fraction, request_tokens=2048))
    for figure in (found.tokens, found.free_gib, found.requests, found.kv_gib):
        if figure is None or figure.after is None:
            continue
        low = figure.after if figure.low is None else figure.low
        high = figure.after if figure.high is None else figure.high
        assert low <= figure.after <= high
        if found.refused is None:
            assert figure.after >= 0
    json.dumps(found.to_document(), allow_nan=False)


@given(launches())
@settings(max_examples=150, deadline=None)
def test_named_fractions_start_and_keep_what_they_promise(inputs):
    sizing = size_inputs(inputs)
    named = sizing.fractions
    if named is None or sizing.wanted_free is None:
        return
    if named.starts_from is not None:
        assert 0 < named.starts_from <= 1
        assert sizing.budget is not None and named.starts_from > sizing.budget.smallest_fraction
    if named.keeps_wanted is not None:
        assert named.starts_from is not None and named.starts_from <= named.keeps_wanted <= 0.99
        found = scenario_of(sizing, Change(mem_fraction_static=named.keeps_wanted))
        assert found.refused is None and found.free_gib is not None
        assert found.free_gib.high >= sizing.wanted_free - 0.01
        if named.keeps_wanted < 0.99:
            more = scenario_of(sizing, Change(mem_fraction_static=round(named.keeps_wanted + 0.002, 3)))
            assert more.refused is not None or more.free_gib is None or more.free_gib.low < sizing.wanted_free + 0.01


@given(launches(), st.floats(0, 20))
@settings(max_examples=100, deadline=None)
def test_the_fraction_for_free_memory_is_the_largest_that_leaves_it(inputs, wanted):
    sizing = size_inputs(inputs)
    found = scenario_of(sizing, Change(free_gib=wanted))
    if found.refused is not None or found.fraction is None:
        return
    assert found.free_gib is not None and found.free_gib.after >= wanted - 1e-6
    if found.fraction.after < 0.99 and found.starts_from is not None:
        more = scenario_of(sizing, Change(mem_fraction_static=round(found.fraction.after + 0.001, 3)))
        lower = more.refused is not None or more.free_gib.after < wanted
        assert lower or more.free_gib.after <= more.free_gib.before


@given(launches(), st.integers(1, 3_000_000))
@settings(max_examples=100, deadline=None)
def test_the_fraction_for_tokens_is_the_smallest_that_holds_them(inputs, wanted):
    sizing = size_inputs(inputs)
    found = scenario_of(sizing, Change(tokens=wanted))
    if found.refused is not None or found.fraction is None:
        assert found.refused
        return
    assert found.tokens is not None and found.tokens.after >= wanted
    less = round(found.fraction.after - 0.001, 3)
    if less > 0:
        before = scenario_of(sizing, Change(mem_fraction_static=less))
        assert before.tokens is None or before.tokens.after is None or before.tokens.after < wanted


@given(launches(), launches())
@settings(max_examples=150, deadline=None)
def test_the_steps_of_a_comparison_add_up_to_the_whole_difference(one, two):
    found = compare(document(one), document(two))
    if found["gib"]["difference"] is not None:
        assert math.isclose(sum(s["gib"] for s in found["steps"]), found["gib"]["difference"], abs_tol=1e-6)
    if found["tokens"]["difference"] is not None:
        assert sum(s["tokens"] for s in found["steps"]) == found["tokens"]["difference"]


@given(launches())
@settings(max_examples=100, deadline=None)
def test_a_launch_read_back_from_its_document_is_the_same(inputs):
    assert inputs_of_document(document(inputs)) == inputs


def test_what_if_works_from_the_stored_document_as_from_the_launch():
    for change in (Change(mem_fraction_static=0.9), Change(draft=False), Change(max_running_requests=128)):
        stored = scenario(document(kimi()), change)
        assert stored.tokens == scenario_of(size_inputs(kimi()), change).tokens


@pytest.mark.parametrize("figures", STARTUPS, ids=[f"{n}" for n in range(len(STARTUPS))])
def test_no_change_returns_every_real_startup(figures):
    found = scenario_of(size_inputs(startup(figures)), Change())
    assert found.refused is None
    assert found.tokens is not None and found.tokens.after == figures["kv_tokens"]


def test_more_requests_cost_a_longer_request_table_and_no_tokens():
    found = scenario_of(size_inputs(kimi()), Change(max_running_requests=148))
    assert found.tokens is not None and found.tokens.after == 159_277
    assert found.free_gib is not None
    assert found.free_gib.after == pytest.approx(7.43 - 100 * (131_072 + 4) * 4 / GIB, abs=1e-4)


def test_without_its_draft_a_launch_before_0_5_14_keeps_its_tokens_and_frees_the_drafts_memory():
    found = scenario_of(size_inputs(kimi()), Change(draft=False))
    assert found.tokens is not None and found.tokens.after == 159_277
    assert found.free_gib is not None and found.free_gib.after == pytest.approx(7.43 + 0.95 + 0.60, abs=0.01)


def test_a_draft_that_the_log_does_not_have_cannot_be_added():
    found = scenario_of(size_inputs(dataclasses.replace(kimi(), draft=None)), Change(draft=True))
    assert found.refused is not None and "no draft" in found.refused


def test_fewer_ranks_than_the_weights_need_are_refused():
    found = scenario_of(size_inputs(kimi()), Change(tp_size=4))
    assert found.starts is Starts.NO
    assert found.refused is not None and "they would take up to" in found.refused


def test_a_ratio_of_a_pool_that_is_not_there_is_refused():
    for change in (Change(swa_full_tokens_ratio=0.5), Change(mamba_full_memory_ratio=0.5), Change(cuda_graph_max_bs=8)):
        found = scenario_of(size_inputs(kimi()), change)
        assert found.refused and found.starts is Starts.UNKNOWN


def test_more_tokens_than_any_fraction_holds_are_not_feasible():
    found = scenario_of(size_inputs(kimi()), Change(tokens=2_000_000))
    assert found.starts is Starts.NO_FRACTION
    assert found.refused is not None and "no feasible fraction" in found.refused


def test_a_cap_answers_for_the_pool_whatever_the_fraction():
    found = scenario_of(size_inputs(kimi()), Change(max_total_tokens=100_000))
    assert found.tokens is not None and found.tokens.after == 100_000
    assert found.keeps_wanted is None


def test_what_memory_holds_beyond_a_cap_is_known_to_the_digits_of_its_readings():
    capped = kimi(tokens=10_000, gib=0.65, max_total_tokens=10_000)
    free = scenario_of(size_inputs(capped), Change(max_total_tokens=1_000_000)).tokens
    assert free is not None and free.low is not None and free.high is not None and free.after is not None
    assert (free.after - free.low, free.high - free.after) == (pytest.approx(86, abs=2), pytest.approx(86, abs=2))
    still = scenario_of(size_inputs(capped), Change(max_total_tokens=20_000)).tokens
    assert still is not None and (still.low, still.after, still.high) == (19_999, 20_000, 20_000)


def test_values_of_the_new_command_are_quoted_for_the_shell():
    arguments = {
        "model_path": {"value": "/models/a b; rm -rf $(x)", "origin": "given"},
        "mem_fraction_static": {"value": 0.88, "origin": "given"},
        "trust_remote_code": {"value": True, "origin": "given"},
    }
    found = scenario_of(size_inputs(kimi()), Change(mem_fraction_static=0.9), arguments)
    assert found.command is not None
    words = shlex.split(found.command)
    assert words[words.index("--model-path") + 1] == "/models/a b; rm -rf $(x)"
    assert words[words.index("--mem-fraction-static") + 1] == "0.9"
    assert [(f.flag, f.before, f.after) for f in found.flags] == [("--mem-fraction-static", "0.88", "0.9")]


@pytest.mark.parametrize(
    "values",
    [
        {"mem_fraction_static": "1.2"},
        {"mem_fraction_static": "nan"},
        {"kv_cache_dtype": "int3"},
        {"tp_size": "2.5"},
        {"tokens": "-1"},
        {"draft": "maybe"},
        {"mem_fraction_static": "0.9", "tokens": "1000"},
        {"colour": "blue"},
    ],
)
def test_a_value_that_cannot_be_meant_is_named(values):
    with pytest.raises(ValueError, match=r"\w"):
        Change.read(values)


def test_a_change_is_read_from_a_form_with_empty_fields():
    change = Change.read({"mem_fraction_static": "0.9", "tokens": "", "draft": "off", "max_total_tokens": "200,000"})
    assert change == Change(mem_fraction_static=0.9, draft=False, max_total_tokens=200_000)


def test_without_the_command_only_flags_that_steer_memory_or_name_the_model_are_repeated():
    arguments = {
        "model_path": {"value": "/models/a", "origin": "given", "lines": [3]},
        "mem_fraction_static": {"value": 0.88, "origin": "given", "lines": [3]},
        "kt_method": {"value": "AMXINT4", "origin": "given", "lines": [3]},
        "page_size": {"value": 64, "origin": "adjusted", "lines": [3, 7]},
    }
    found = scenario_of(size_inputs(kimi()), Change(mem_fraction_static=0.9), arguments)
    assert found.command is not None and "kt-method" not in found.command and "page-size" not in found.command
    with_command = {**arguments, "tp_size": {"value": 8, "origin": "given", "lines": [1, 3]}}
    found = scenario_of(size_inputs(kimi()), Change(mem_fraction_static=0.9), with_command)
    assert found.command is not None and "--tp-size 8" in found.command and "--model-path" not in found.command


def llama(tp: int = 4) -> SizingInputs:
    """Llama-3.1-70B, bf16, on 80 GB cards: 33.0 GiB of weights a card and 81,920 B a token at four ranks."""
    usage, cell = 132.0 / tp, 327_680 // tp
    opening = 78.6
    tokens = int((opening - usage - opening * 0.12) * GIB // cell)
    pool = (tokens + 1) * cell / GIB
    after = opening - usage
    ranks = tuple(
        RankMemory(
            id=f"TP{n}",
            opening=opening,
            after_weights=after,
            usage=usage,
            pool_end=after - pool,
            end=after - pool - 1.5,
            lowest=after - pool - 1.5,
        )
        for n in range(tp)
    )
    return SizingInputs(
        ranks=ranks,
        fraction=0.88,
        release=ReleaseRange.read("0.5.12"),
        family=Family.MHA,
        geometry=geometry_of("meta-llama/Llama-3.1-70B-Instruct"),
        kv_dtype="bfloat16",
        tp=tp,
        pools=PrintedPools(tokens=tokens, gib=round(pool, 2), figures=2),
        tokens=tokens,
        running_requests=2048,
        max_running_requests=2048,
        context_length=131_072,
    )


def test_more_ranks_give_at_most_what_weights_that_all_divide_would_leave() -> None:
    four, eight = size_inputs(llama(4)), size_inputs(llama(8))
    found = scenario_of(four, Change(tp_size=8))
    assert found.tokens is not None and eight.inputs.tokens is not None
    assert found.tokens.bound == "at most"
    assert found.tokens.after == pytest.approx(eight.inputs.tokens, rel=0.002)
    # at the least, no weight divides: half a token's bytes in the same budget
    assert found.tokens.low == pytest.approx(2 * (four.inputs.tokens or 0), rel=0.002)
    assert found.requests is not None and found.requests.bound == "at most"
    assert any("at most" in line for line in found.equations)


def test_fewer_ranks_give_at_least_what_weights_that_all_divide_would_leave() -> None:
    eight, four = size_inputs(llama(8)), size_inputs(llama(4))
    found = scenario_of(eight, Change(tp_size=4))
    assert found.tokens is not None and four.inputs.tokens is not None
    assert found.tokens.bound == "at least"
    assert found.tokens.after == pytest.approx(four.inputs.tokens, rel=0.002)
    assert found.tokens.high is not None and found.tokens.high > found.tokens.after
    document = found.to_document()["tokens"]
    assert document["bound"] == "at least"


def test_a_request_table_that_sglang_counts_from_the_tokens_grows_with_them() -> None:
    inputs = dataclasses.replace(llama(4), max_running_requests=None, running_requests=0, context_length=65_536)
    rows = running_requests(inputs.tokens or 0, 65_536, release("0.5.12")).limit
    inputs = dataclasses.replace(inputs, running_requests=rows)
    found = scenario_of(size_inputs(inputs), Change(mem_fraction_static=0.90))
    assert found.tokens is not None and found.free_gib is not None and found.tokens.after is not None
    more = running_requests(int(found.tokens.after), 65_536, release("0.5.12")).limit
    table = (more - rows) * (65_536 + 4) * 4 / GIB
    assert more > rows
    assert found.free_gib.after == pytest.approx((found.free_gib.before or 0) - 0.02 * 78.6 - table, abs=0.01)


def test_a_pool_whose_tokens_the_log_does_not_print_is_not_taken_for_none() -> None:
    """What a change moves is set against the pool that is there, whether its count was printed or not."""
    known = llama()
    hidden = dataclasses.replace(known, tokens=None, pools=dataclasses.replace(known.pools, tokens=None, gib=None))
    told, silent = (scenario_of(size_inputs(x), Change(mem_fraction_static=0.8)) for x in (known, hidden))
    assert told.free_gib is not None and silent.free_gib is not None
    assert silent.refused is None
    assert silent.free_gib.after == pytest.approx(told.free_gib.after, abs=0.1)


# --- Another card -----------------------------------------------------------------------------------------------------


def on_cards(capacity: float | None = 95.59, **more: object) -> SizingInputs:
    """Kimi's launch on cards whose total the log tells."""
    inputs = kimi(**more)  # type: ignore[arg-type]
    return dataclasses.replace(inputs, ranks=tuple(dataclasses.replace(r, capacity=capacity) for r in inputs.ranks))


def test_a_larger_card_adds_its_fraction_to_the_pool_and_the_rest_to_what_stays_free() -> None:
    found = scenario_of(size_inputs(on_cards()), Change(card="H200"))
    more = 143_771 / 1024 - 95.59
    assert found.refused is None and found.opening_gib is not None and found.tokens is not None
    assert found.opening_gib.after == pytest.approx(94.04 + more)
    cell = 70_272
    assert found.tokens.after == pytest.approx(159_277 + 0.88 * more * GIB / cell, abs=2)
    loose = 0.6 * GIB / cell
    assert found.tokens.low is not None and found.tokens.low < found.tokens.after - loose
    assert found.tokens.high is not None and found.tokens.high > found.tokens.after + loose
    moved = found.tokens.after - 159_277
    draft = 0.60 * GIB / (159_277 + 1)
    assert found.free_gib is not None
    assert found.free_gib.after == pytest.approx(7.43 + more - moved * (cell + draft) / GIB, abs=0.01)
    assert any("140.40 GiB, 1.55 of them gone before the weights" in each for each in found.validity)
    assert any("of the other card" in each for each in found.equations)
    assert found.flags == (), "a card is no flag"


def test_a_card_that_the_weights_do_not_fit_is_refused_and_one_that_they_just_fit_says_from_where() -> None:
    small = scenario_of(size_inputs(on_cards()), Change(card="L40S"))
    assert small.refused is not None and "the weights would take at least 72.3 GiB of the 43.44" in small.refused
    tight = scenario_of(size_inputs(on_cards()), Change(card="A100 80GB"))
    assert tight.refused is not None and "raise --mem-fraction-static above 0.92" in tight.refused
    raised = scenario_of(size_inputs(on_cards()), Change(card="A100 80GB", mem_fraction_static=0.95))
    assert raised.refused is None and raised.tokens is not None and 0 < (raised.tokens.after or 0) < 159_277


def test_the_free_memory_wanted_is_that_of_the_other_card() -> None:
    inputs = on_cards()
    small = tuple(dataclasses.replace(r, opening=22.0, after_weights=12.0, end=2.0, lowest=2.0, capacity=22.5)
                  for r in inputs.ranks)  # fmt: skip
    sizing = size_inputs(dataclasses.replace(inputs, ranks=small, tokens=None, pools=PrintedPools(), draft=None))
    assert sizing.wanted_free == pytest.approx(5 * 22.5 / 60)
    assert scenario_of(sizing, Change(card="H100")).wanted_free_gib == 5
    assert scenario_of(sizing, Change()).wanted_free_gib == pytest.approx(5 * 22.5 / 60)


def test_a_fraction_that_sglang_chose_by_the_card_is_pinned() -> None:
    found = scenario_of(size_inputs(on_cards(fraction_given=False)), Change(card="H200"))
    assert [(each.flag, each.after) for each in found.flags] == [("--mem-fraction-static", "0.88")]
    assert any("chose the fraction itself" in each for each in found.validity)


@pytest.mark.parametrize(
    ("inputs", "card", "why"),
    [
        (on_cards(unified_memory=True), "H200", "share one memory"),
        (on_cards(platform="npu"), "H200", "on npu"),
        (on_cards(), "MI300X", "of two makers"),
        (on_cards(platform="hip"), "H200", "of two makers"),
        (on_cards(None), "H200", "names neither its card"),
        (on_cards(90.0), "H200", "more memory was free"),
        (
            dataclasses.replace(
                on_cards(),
                ranks=(*on_cards().ranks, dataclasses.replace(on_cards().ranks[0], id="TP8", capacity=79.6)),
            ),
            "H200",
            "cards of several sizes",
        ),
    ],
)
def test_what_the_log_cannot_carry_to_another_card_is_refused(inputs: SizingInputs, card: str, why: str) -> None:
    found = scenario_of(size_inputs(inputs), Change(card=card))
    assert found.refused is not None and why in found.refused and found.tokens is None


@pytest.mark.parametrize(("name", "why"), [("GB10", "shares its memory"), ("H900", "no card whose size is known")])
def test_a_card_without_a_size_of_its_own_is_named(name: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Change.read({"card": name})


@pytest.mark.parametrize(
    "name",
    [
        "H200 <b>",
        "T4 `x`",
        "H200\x1b[31m",
        "H200\u202e",
        "H200\n# Heading",
        "H200\0",
        "A100" + "x" * 90,
        "xH200",
        "H2000",
    ],
)
def test_words_around_the_name_of_a_card_make_no_card(name: str) -> None:
    """What is asked for stands in the answer, so it is a card's name and nothing else."""
    with pytest.raises(ValueError, match="no card whose size is known"):
        Change.read({"card": name})


@pytest.mark.parametrize(
    "name",
    ["NVIDIA GH200 480GB", "NVIDIA RTX A1000", "NVIDIA T400 4GB", "Quadro T1000", "NVIDIA GeForce RTX 4090 Laptop GPU"],
)
def test_a_card_whose_name_contains_another_ones_is_not_taken_for_it(name: str) -> None:
    assert known_capacity(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "H100 94GB",
        "NVIDIA H100 96GB HBM3",
        "A100-SXM-64GB",
        "H20 141GB",
        "RTX 4090 48 GB",
        "RTX PRO 5000 Blackwell 72GB",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
    ],
)
def test_a_card_that_states_another_size_is_not_taken_for_the_usual_one(name: str) -> None:
    assert known_capacity(name) is None


@pytest.mark.parametrize(
    ("name", "mib"),
    [
        ("NVIDIA_H200", 143_771),
        ("NVIDIA_L4_24GB", 23_034),
        ("L40S 48GB", 46_068),
        ("H200 141GB", 143_771),
        ("B200 192GB", 183_359),
        ("MI355X 288GB", 294_896),
        ("NVIDIA H100 80GB HBM3", 81_559),
        ("NVIDIA A100-SXM4-40GB", 40_960),
        ("Tesla T4", 15_360),
        ("NVIDIA_GeForce_RTX_5090", 32_607),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 97_887),
        ("AMD Instinct MI300X", 196_592),
        ("AMD_Instinct_MI300X_OAM", 196_592),
    ],
)
def test_drivers_names_of_cards_are_known(name: str, mib: int) -> None:
    assert known_capacity(name) == mib << 20


@pytest.mark.parametrize("name", ["H200 H100", "H100/H200", "H100 NVL L40S", "MI300X MI300X"])
def test_the_names_of_two_cards_are_none(name: str) -> None:
    assert known_capacity(name) is None
    with pytest.raises(ValueError, match="no card whose size is known"):
        Change.read({"card": name})


@pytest.mark.parametrize(("name", "flag"), [("tp_size", "--tp-size"), ("dp_attention", "--dp-size")])
def test_more_ranks_than_any_model_is_divided_over_are_refused(name: str, flag: str) -> None:
    assert Change.read({name: "1024"})
    with pytest.raises(ValueError, match=f"{flag} is at most 1,024"):
        Change.read({name: "1000000000"})


def test_every_card_that_is_offered_has_a_size() -> None:
    sizes = {name: known_capacity(name) for name in (*NVIDIA, *AMD)}
    assert all(sizes.values())
    assert not any(is_unified(name) for name in sizes)
    assert [name for name in sizes if is_amd(name)] == list(AMD)
    assert sizes["A100 40GB"] != sizes["A100 80GB"] and sizes["V100 16GB"] != sizes["V100 32GB"]
    assert sizes["H100"] != sizes["H100 NVL"] and sizes["RTX PRO 6000 Blackwell"] != sizes["RTX 6000 Ada"]


@given(launches(), st.sampled_from((*NVIDIA, *AMD)))
@settings(deadline=None)
def test_no_answer_for_another_card_is_negative_or_outside_its_bounds(inputs: SizingInputs, card: str) -> None:
    ranks = tuple(dataclasses.replace(r, capacity=(r.opening or 0) + 0.7) for r in inputs.ranks)
    found = scenario_of(size_inputs(dataclasses.replace(inputs, ranks=ranks)), Change(card=card))
    if found.refused or found.tokens is None or found.tokens.after is None:
        return
    assert found.tokens.after >= 0
    assert (found.tokens.low or 0) <= found.tokens.after <= (found.tokens.high or math.inf)
