"""The what-if panel: complete from the server, at the observed values or where the address puts it."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from ingest.models import State, StoredReport, Upload
from ingest.stored import columns_of
from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.ledger.what_if import Change
from kvdiag.diagnosis.texts import Log
from reports import words
from reports.finding_cards import shown_findings
from reports.knobs import asked_of, knobs_of, turned
from reports.page import ReportPage
from reports.scenario_words import refused_scenario, shown_scenario
from reports.what_if import answer
from reports.what_if_panel import panel_of
from tests.documents import document

REFUSED = Path(__file__).parents[1] / "corpus" / "kimi-k25-8gpu-refused" / "log.txt"


def launch(name: str = "kimi-k25-8gpu") -> dict[str, Any]:
    return document(name)["launches"][0]


def shown(**asked: str) -> Any:
    found, status = answer(launch(), asked)
    assert status == 200
    return shown_scenario(found, is_observed=not asked)


def told(scenario: Any) -> dict[str, tuple[str, str]]:
    return {outcome.key: (outcome.figure, outcome.note) for outcome in scenario.outcomes}


def test_observed_figures_are_no_guesses() -> None:
    scenario = shown()
    assert scenario.text.startswith("As observed. ")
    assert told(scenario)["tokens"] == ("159,277", "as observed")
    assert "≈" not in "".join(figure for figure, _ in told(scenario).values())
    assert scenario.diff == ()


def test_a_changed_figure_is_about_and_says_how_far_it_moved() -> None:
    figure, note = told(shown(mem_fraction_static="0.9"))["tokens"]
    assert figure.startswith("≈ 188,0")
    assert note.startswith("+18 %")


def test_what_cannot_start_has_no_figure() -> None:
    scenario = shown(mem_fraction_static="0.5")
    assert scenario.tone == "critical"
    assert told(scenario) == {
        "tokens": ("none", "it does not start"),
        "requests": ("none", ""),
        "free": ("none", ""),
    }


def test_what_the_log_cannot_tell_is_not_said_to_fail() -> None:
    scenario = shown(swa_full_tokens_ratio="0.5")
    assert scenario.tone == "warning"
    assert told(scenario)["tokens"] == ("not known", "the log does not tell")
    assert [note["text"] for note in scenario.figure["layout"]["annotations"]][1] == "What if: not known"


def test_the_change_of_the_command_takes_both_sides() -> None:
    lines = [(line.kind, line.text) for line in shown(kv_cache_dtype="fp8_e4m3").diff]
    assert ("add", "--kv-cache-dtype fp8_e4m3") in lines


def test_what_is_copied_of_a_scenario_can_be_run() -> None:
    assert shown(kv_cache_dtype="fp8_e4m3").copied == "--kv-cache-dtype fp8_e4m3"
    made = document("kimi-k25-8gpu")
    del made["launches"][0]["arguments"]["api_key"]  # with a secret masked, the command is not whole
    asked = {"wf.kv_cache_dtype": "fp8_e4m3"}
    copied = panel_of(ReportPage(made), asked)["scenario"].copied
    assert copied.startswith("python -m sglang.launch_server \\\n  --model-path /models/Kimi-K2.5-INT4 \\\n")
    assert copied.endswith("--kv-cache-dtype fp8_e4m3")
    of_a_link = panel_of(ReportPage(made), asked, made["launches"][0], dict)["scenario"].copied
    assert of_a_link == "--kv-cache-dtype fp8_e4m3"


def test_settings_that_cannot_be_meant_give_a_sentence_and_no_figure() -> None:
    scenario = panel_of(ReportPage(document("kimi-k25-8gpu")), {"wf.mem_fraction_static": "7"})["scenario"]
    assert scenario == refused_scenario(scenario.text)
    assert scenario.text.endswith(".")
    assert {figure for figure, _ in told(scenario).values()} == {"not known"}


def test_what_no_fraction_gives_is_not_called_a_start_that_fails() -> None:
    found, _ = answer(document("kimi-k25-8gpu")["launches"][0], {"tokens": "2000000"})
    scenario = shown_scenario(found, is_observed=False)
    assert scenario.tone == "critical" and "No feasible fraction" in scenario.text
    assert told(scenario)["tokens"] == ("none", "no fraction does it")
    assert "no fraction does it" in str(scenario.figure)


def test_of_an_address_only_what_differs_is_asked() -> None:
    knobs = knobs_of(launch())
    given = {knob.field: knob.observed for knob in knobs} | {"wf.mem_fraction_static": "0.880", "launch": "1"}
    assert asked_of(given, knobs) == {}
    assert asked_of(given | {"wf.kv_cache_dtype": "fp8_e4m3", "wf.unheard_of": "1"}, knobs) == {
        "kv_cache_dtype": "fp8_e4m3"
    }


def test_knobs_stand_where_the_scenario_puts_them() -> None:
    knobs = {knob.name: knob for knob in turned(knobs_of(launch()), {"mem_fraction_static": "0.9"})}
    assert (knobs["mem_fraction_static"].now, knobs["mem_fraction_static"].shown_now) == ("0.9", "0.90")
    assert knobs["kv_cache_dtype"].now == knobs["kv_cache_dtype"].observed


@pytest.fixture
def address(db: None) -> str:
    made = document("kimi-k25-8gpu")
    upload = Upload.objects.create(state=State.READY, phase="ready")
    StoredReport.objects.create(upload=upload, engine=made["engine"], **columns_of(made))
    return f"/r/{upload.public_id}/"


def test_the_page_is_complete_without_a_script(client: Client, address: str) -> None:
    page = client.get(address).content.decode()
    panel = page[page.index('id="whatif"') : page.index('id="waterfall"')]
    assert ">159,277<" in panel and "…" not in panel
    assert '<svg class="still' in panel


def test_the_address_holds_the_scenario(client: Client, address: str) -> None:
    page = client.get(address, {"wf.mem_fraction_static": "0.9"}).content.decode()
    panel = page[page.index('id="whatif"') : page.index('id="waterfall"')]
    assert "≈ 188,0" in panel
    assert 'value="0.9"' in panel


def test_the_form_leads_to_the_address_of_its_scenario_alone(client: Client, address: str) -> None:
    sent = {knob.field: knob.observed for knob in knobs_of(launch())} | {"launch": "1", "knobs": "set"}
    answer = client.get(address, sent | {"wf.mem_fraction_static": "0.9"})
    assert answer.status_code == 302
    assert answer["Location"] == f"{address}?launch=1&wf.mem_fraction_static=0.9#whatif"


def test_the_script_is_told_the_same_words(client: Client, address: str) -> None:
    body = client.get(f"{address}what-if", {"launch": "1", "mem_fraction_static": "0.9"}).json()
    assert body["shown"] == json.loads(json.dumps(shown(mem_fraction_static="0.9").to_json()))
    assert body["figure"]["data"]


def test_more_ranks_are_told_as_at_most_with_the_least_beside_it() -> None:
    figure, note = told(shown(tp_size="16"))["tokens"]
    assert figure.startswith("at most ")
    assert " to " in note


def test_another_card_is_offered_where_the_log_knows_its_own_and_drawn_at_its_size() -> None:
    plain, known = launch(), launch()
    inputs = plain["kv_cache"].setdefault("inputs", {})
    for rank in known["ranks"]:
        rank["capacity_gib"] = 95.59
    knob = next(knob for knob in knobs_of(plain) if knob.name == "card")
    offered = [value for value, _ in knob.options]
    assert offered[0] == "" and "H200" in offered and "MI300X" not in offered
    assert asked_of({"wf.card": "H200"}, [knob]) == {"card": "H200"}
    found, status = answer(known, {"card": "H200"})
    assert status == 200 and not found["refused"]
    assert found["figure"]["layout"]["xaxis"]["range"][1] > 138
    ends = [bar["base"][0] + bar["x"][0] for bar in found["figure"]["data"] if bar["kv"]["name"].startswith("What if")]
    assert max(ends) == pytest.approx(found["opening_gib"]["after"], abs=0.02)
    inputs["platform"] = "hip"
    knob = next(knob for knob in knobs_of(plain) if knob.name == "card")
    assert [value for value, _ in knob.options][1:] == ["MI300X", "MI325X", "MI355X"]
    inputs["unified_memory"] = True
    assert not any(knob.name == "card" for knob in knobs_of(plain))
    unknown = launch()
    unknown["gpu"]["capacity_gib"] = None
    assert not any(knob.name == "card" for knob in knobs_of(unknown)), "this log does not tell"


def drawn(found: dict[str, Any], row: str = "What if") -> dict[str, float]:
    """The bars of a row by what the hover calls them."""
    bars = {bar["kv"]["name"]: bar["x"][0] for bar in found["figure"]["data"]}
    return {name.removeprefix(f"{row} · "): gib for name, gib in bars.items() if name.startswith(row)}


@pytest.mark.parametrize(
    "asked",
    [
        {"tp_size": "16"},
        {"max_running_requests": "5000"},
        {"mem_fraction_static": "0.9"},
        {"kv_cache_dtype": "fp8_e4m3"},
        {"draft": "off"},
    ],
)
@pytest.mark.parametrize("name", ["kimi-k25-8gpu", "llama-two-launches"])
def test_the_bar_and_the_figures_are_of_the_same_numbers(name: str, asked: dict[str, str]) -> None:
    one = document(name)["launches"][-1]
    found, _ = answer(one, asked)
    if found["refused"] or found["free_gib"] is None:
        return
    before, after = drawn(found, "Observed"), drawn(found)
    assert after["Free when ready"] == pytest.approx(found["free_gib"]["after"], abs=0.002)
    assert sum(after.values()) == pytest.approx(sum(before.values()), abs=0.002)
    for pool in ("Unexplained",) if "draft" in asked else ("Unexplained", "CUDA graphs"):
        assert after.get(pool) == before.get(pool), "what the change does not move stays"


def test_more_ranks_halve_the_weights_of_the_bar() -> None:
    found, _ = answer(launch(), {"tp_size": "16"})
    before, after = drawn(found, "Observed"), drawn(found)
    assert after["Weights"] == pytest.approx(before["Weights"] / 2, abs=0.2)
    assert after["KV cache"] == pytest.approx(found["kv_gib"]["after"], abs=0.02)


def test_a_larger_request_table_is_drawn_by_its_own_name() -> None:
    found, _ = answer(launch(), {"max_running_requests": "5000"})
    before, after = drawn(found, "Observed"), drawn(found)
    taken = found["free_gib"]["before"] - found["free_gib"]["after"]
    assert after["Request table"] - before.get("Request table", 0.0) == pytest.approx(taken, abs=0.01)


def test_a_start_whose_end_the_log_does_not_show_is_drawn_all_the_same() -> None:
    found, _ = answer(document("llama-refused")["launches"][0], {"mem_fraction_static": "0.9"})
    after = drawn(found)
    assert after["KV cache"] == pytest.approx(found["kv_gib"]["after"], abs=0.01)
    assert "Left for the rest of the start" in after


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"request_tokens": "0"}, "The number of tokens in one request is a positive whole number."),
        ({"request_tokens": "99999999"}, "The number of tokens in one request is at most 131,072, the context length."),
        ({"mem_fraction_static": "abc"}, "--mem-fraction-static is a number, not 'abc'."),
        ({"hicache_ratio": "-1"}, "--hicache-ratio is a positive number."),
        ({"dp_attention": "1.5"}, "--dp-size is a whole number."),
        ({"free_gib": "x"}, "The free memory wanted is a number, not 'x'."),
    ],
)
def test_an_error_names_what_the_reader_sees(asked: dict[str, str], said: str) -> None:
    assert answer(launch(), asked) == ({"error": said}, 400)


def test_no_error_names_a_field_of_the_code() -> None:
    for field in dataclasses.fields(Change):
        for value in ("abc", "-1", "0", "1.5", "1e99"):
            found, _ = answer(launch(), {field.name: value})
            assert "_" not in found.get("error", "").replace(f"'{value}'", "").replace("fp8_", "").replace("fp4_", "")


def test_a_longer_request_is_taken_where_the_context_grows_too() -> None:
    _, status = answer(launch(), {"request_tokens": "140000", "context_length": "150000"})
    assert status == 200


def test_a_field_takes_a_request_as_long_as_the_scenarios_context() -> None:
    def longest(**asked: str) -> int:
        return next(knob.high for knob in turned(knobs_of(launch()), asked) if knob.name == "request_tokens")

    assert longest() == 131_072
    assert (longest(context_length="150000"), longest(context_length="8192")) == (150_000, 8_192)
    assert longest(context_length="much") == 131_072


def test_below_an_error_no_figure_stands(client: Client, address: str) -> None:
    reply = client.get(f"{address}what-if", {"launch": "1", "mem_fraction_static": "abc"})
    outcomes = reply.json()["shown"]["outcomes"]
    assert reply.status_code == 400
    assert {(each["figure"], each["note"]) for each in outcomes} == {("not known", "")}


@pytest.mark.parametrize("asked", [{"max_total_tokens": "10"}, {"context_length": "200000"}])
def test_a_pool_that_holds_no_request_is_not_good(asked: dict[str, str]) -> None:
    scenario = shown(**asked)
    assert scenario.tone == "warning"
    assert "not one request of" in scenario.text
    assert told(scenario)["requests"][0] == "≈ 0"


def test_what_a_model_was_trained_for_is_said_where_the_log_tells_it() -> None:
    def limits(one: dict[str, Any]) -> str:
        return " ".join(answer(one, {"context_length": "150000"})[0]["cautions"])

    given, own = launch(), launch()
    given["arguments"]["context_length"] = {"value": 131072, "origin": "given"}
    own["arguments"]["context_length"] = {"value": None, "origin": "default"}
    assert "longer than the observed context of 131,072; whether the model was trained for it is not" in limits(given)
    assert "a longer context than the model was trained for" in limits(own)


@pytest.mark.parametrize("step", range(905, 955, 3))
def test_the_free_memory_is_one_figure_in_note_and_outcome(step: int) -> None:
    found, _ = answer(launch(), {"mem_fraction_static": f"0.{step}"})
    free = words.gib(found["free_gib"]["after"])
    noted = [caution.split(" GiB")[0] for caution in found["cautions"] if "free at the end" in caution]
    assert noted == [free] * len(noted)
    assert found["equations"][2].endswith(f"= {free} GiB")


def test_an_end_that_is_nothing_leaves_a_bound() -> None:
    one = diagnose(Log("log.txt", io.BytesIO(REFUSED.read_bytes()))).document["launches"][-1]
    found, _ = answer(one, {"tp_size": "16"})
    figure, note = told(shown_scenario(found, is_observed=False))["tokens"]
    assert (figure, note) == ("at most 237,800", "")
    raised = next(
        remedy for finding in one["findings"] for remedy in finding["remedies"] if remedy["flag"] == "--tp-size"
    )
    assert "low" not in raised["effect"]["kv_tokens"]
    shown_ones = [
        remedy for finding in shown_findings(one) for remedy in finding.remedies if "--tp-size" in remedy.title
    ]
    assert [(each.after, each.span) for each in shown_ones[0].effects] == [("at most 237,800", "")]
