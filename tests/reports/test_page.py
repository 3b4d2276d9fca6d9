"""A report document arranged for the page: what it says, and that nothing is missed when figures are."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from django.template.loader import render_to_string
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.log_excerpt import excerpt, viewer_data
from reports.log_pieces import pieces_of
from reports.page import ReportPage
from reports.what_if_panel import panel_of
from tests.documents import NAMES, changed, document, with_ranks

CORPUS = Path(__file__).parent.parent / "corpus"
EVIL = "\"'><img src=x onerror=alert(1)><script>alert(2)</script>{{ 7|add:7 }}"
CODES = {"ready", "failed", "incomplete", "printed", "derived", "assumed", "target", "draft", "critical", "warning"}


def body_of(made: dict, number: int | None = None) -> str:
    """The page's body for one launch, rendered as the site does."""
    page = ReportPage(made, number or len(made["launches"]) or 1)
    context = {
        "page": page,
        "report_url": "/r/x/",
        "report_base": "/r/x",
        "can_log": True,
        "log_data": viewer_data(made),
        "log_items": excerpt(made),
    } | panel_of(page, {})
    return render_to_string("reports/body.html", context)


def test_the_page_opens_with_the_outcome_the_turn_and_the_verdict() -> None:
    page = ReportPage(document("kimi-k25-8gpu"))
    assert page.verdict_word == "Ready"
    assert page.turn == ("hold", "Leave the fraction")
    assert page.verdict_line.startswith("Memory limits the KV cache; nothing was lost.")


def test_warnings_are_counted_in_the_plural_but_for_one() -> None:
    made = document("kimi-k25-8gpu")
    assert "0 warnings" in ReportPage(made).none_of
    finding = made["launches"][0]["findings"][0] | {"severity": "warning"}
    for count, said in ((1, "1 warning<"), (2, "2 warnings<")):
        made["launches"][0]["findings"] = [finding] * count
        assert said in body_of(made)


def test_a_refused_start_says_raise_although_nothing_fits() -> None:
    page = ReportPage(document("llama-refused"))
    assert page.verdict_word == "Cannot start"
    assert page.turn == ("up", "Raise the fraction")
    assert [(key.name, key.figure) for key in page.keys][:3] == [
        ("Weights per GPU", "65.86"),
        ("Allowed at 0.80", "62.90"),
        ("Least fraction", "0.838"),
    ]


def test_an_overflow_in_capture_says_lower() -> None:
    assert ReportPage(document("llama-two-launches"), 1).turn == ("down", "Lower the fraction")


def test_tokens_that_no_pool_line_prints_lead_to_the_line_of_the_limits() -> None:
    made = json.loads((CORPUS / "phi4-lora-tp2-uneven-gpus" / "expected.json").read_text())
    (tokens,) = [key for key in ReportPage(made).keys if key.name == "KV cache tokens"]
    assert (tokens.basis, [ref.line for ref in tokens.lines]) == ("printed", [6])


def test_key_numbers_lead_to_their_lines() -> None:
    tokens, *_, requests, _ = ReportPage(document("kimi-k25-8gpu")).keys
    assert (tokens.figure, tokens.basis, [ref.anchor for ref in tokens.lines]) == ("159,277", "printed", ["L247"])
    assert (requests.figure, [ref.anchor for ref in requests.lines]) == ("1.2", ["L372"])


@pytest.mark.parametrize(("outcome", "figure"), [("incomplete", "unknown"), ("failed", "none")])
def test_a_pool_that_the_log_does_not_show_is_unknown_and_none_only_where_the_start_failed(
    outcome: str, figure: str
) -> None:
    made = document("llama-refused")
    made["launches"][0] |= {"outcome": outcome, "failure": None}
    (tokens,) = [key for key in ReportPage(made).keys if key.name == "KV cache tokens"]
    assert tokens.figure == figure


def test_the_rows_of_the_budget_add_up_to_the_first_reading() -> None:
    page = ReportPage(document("kimi-k25-8gpu"))
    assert sum(row.gib for row in page.rows if row.kind == "pool") == pytest.approx(page.budget.main.opening)


def test_the_static_budget_ends_between_the_pool_and_what_the_reserve_pays() -> None:
    kinds = [(row.kind, row.pool) for row in ReportPage(document("kimi-k25-8gpu")).rows if row.kind != "sub"]
    at = kinds.index(("line", ""))
    assert kinds[at - 1] == ("pool", "kv")
    assert kinds[at + 1] == ("pool", "draft")


def test_launches_are_told_apart_by_the_flag_that_differs() -> None:
    tabs = ReportPage(document("llama-two-launches")).tabs
    assert ["0.95" in tab.words for tab in tabs] == [True, False]
    assert "out of memory in capture" in tabs[0].words


def test_one_launch_has_no_tabs() -> None:
    assert ReportPage(document("kimi-k25-8gpu")).tabs == []


def test_a_finding_rests_on_marked_figures() -> None:
    [line] = [line for line in ReportPage(document("llama-refused")).findings[0].evidence if line.ref.line == 203]
    assert [(piece.kind, piece.text) for piece in line.pieces][-1] == ("mark", "78.62 GB")


def test_the_clock_of_a_line_is_set_apart() -> None:
    first, *rest = pieces_of("[2026-11-29 09:14:42 TP0] Load weight begin. avail mem=94.04 GB", 94.04)
    assert (first.kind, first.text) == ("ts", "[2026-11-29 09:14:42 TP0]")
    assert [piece.text for piece in rest if piece.kind == "mark"] == ["94.04 GB"]


def test_a_comma_after_a_figure_is_not_part_of_it() -> None:
    pieces = pieces_of("#tokens: 159277, KV size: 10.42 GB, slots: 1,024,", 159277, 1024)
    assert [piece.text for piece in pieces if piece.kind == "mark"] == ["159277", "1,024"]


def test_critical_and_warning_findings_start_open() -> None:
    findings = ReportPage(document("kimi-k25-8gpu")).findings
    assert [finding.open for finding in findings] == [True, False, False]
    assert all(finding.open for finding in ReportPage(document("llama-refused")).findings)


def test_a_remedy_that_an_earlier_finding_offers_is_a_link_to_it() -> None:
    made = document("llama-refused")
    first = made["launches"][0]["findings"][0]
    again = {**first, "rule": "weights-near-limit", "remedies": [{**first["remedies"][0], "as_under": first["rule"]}]}
    made["launches"][0]["findings"].append(again)
    (shown,) = next(f for f in ReportPage(made).findings if f.rule == "weights-near-limit").remedies
    assert shown.title and not (shown.diff or shown.effects or shown.cost or shown.note)
    assert f'The same change as under <a href="#finding-{first["rule"]}">' in body_of(made)


def test_two_findings_of_one_rule_have_anchors_of_their_own() -> None:
    made = document("kimi-k25-8gpu")
    made["launches"][0]["findings"].append(made["launches"][0]["findings"][1])
    anchors = [finding.anchor for finding in ReportPage(made).findings]
    assert len(set(anchors)) == len(anchors)


@pytest.mark.parametrize("name", NAMES)
def test_every_document_becomes_a_page(name: str) -> None:
    made = document(name)
    for number in [launch["number"] for launch in made["launches"]] or [1]:
        assert "<h1>" in body_of(made, number)


def test_a_lone_message_is_read_as_far_as_it_goes() -> None:
    body = body_of(document("lone-oom-line"))
    assert "Held by PyTorch" in body and "these figures are the allocator’s own" in body
    assert "No data because the log has fewer than two readings of free GPU memory." in body
    assert "23.65" in body
    assert 'href="#L1"' in body


def test_a_log_of_something_else_is_called_that() -> None:
    assert "This is not an SGLang log." in body_of(document("not-sglang"))


@settings(max_examples=40, deadline=None)
@given(st.integers(min_value=0, max_value=10**9), st.sampled_from(NAMES))
def test_a_page_comes_of_a_document_with_any_figures_missing(seed: int, name: str) -> None:
    lots = random.Random(seed)
    made = document(name)
    made["launches"] = [
        changed(launch, lambda leaf: None if lots.random() < 0.4 else leaf) for launch in made["launches"]
    ]
    assert "<h1>" in body_of(made)


@pytest.mark.parametrize("name", NAMES)
def test_words_of_a_log_never_become_markup(name: str) -> None:
    made = changed(document(name), lambda leaf: EVIL if isinstance(leaf, str) and leaf not in CODES else leaf)
    body = body_of(made)
    assert "<img" not in body
    assert "<script>alert" not in body
    assert "{{ 7|add:7 }}" in body or "onerror" not in body, "shown as it was printed"


def test_hundreds_of_ranks_fold_into_few_bars() -> None:
    page = ReportPage(with_ranks(512, odd=40))
    assert page.budget.ranks == 512
    assert len(page.budget.cards) < 16
    assert sum(card.count for card in page.budget.cards) == 512
    assert len(page.budget_figure["layout"]["yaxis"]["tickvals"]) <= 16


def test_the_page_of_512_ranks_is_not_longer_than_that_of_eight_by_much() -> None:
    assert len(body_of(with_ranks(512, odd=40))) < 2 * len(body_of(document("kimi-k25-8gpu")))


def test_the_launch_before_is_what_changes_are_told_against() -> None:
    made = document("kimi-k25-8gpu")
    again = document("kimi-k25-8gpu")["launches"][0] | {"number": 2}
    again["kv_cache"] = again["kv_cache"] | {"tokens": 160_000}
    made["launches"].append(again)
    tokens = ReportPage(made, 2).keys[0]
    assert (tokens.delta, tokens.tone) == ("+723 on the launch before", "good")


def test_the_machine_is_shown_where_a_table_tells_it() -> None:
    made = document("kimi-k25-8gpu")
    assert 'id="machine"' not in body_of(made)
    made["launches"][0]["machine"] = {
        "driver": "550.54.15",
        "runtime": "12.4",
        "driver_line": 3,
        "cards": [{"gpu": 0, "name": "H100 <80GB>", "total_gib": 79.6475, "used_gib": 1.2051, "lines": [8, 9]}],
        "processes": [{"gpu": 0, "pid": 4242, "program": "<b>python</b>", "used_gib": None, "line": 21}],
        "libraries": {"flashinfer": "0.2.1"},
    }
    body = body_of(made)
    assert "driver 550.54.15, runtime 12.4, 1 card" in body
    assert "H100 &lt;80GB&gt;" in body and "&lt;b&gt;python&lt;/b&gt;" in body
    assert "79.65" in body and "flashinfer 0.2.1" in body


def test_the_pools_row_has_the_count_that_was_printed() -> None:
    body = body_of(json.loads((CORPUS / "kimi-k25-8gpu" / "expected.json").read_text()))
    row = body.split('<i class="sw sw--kv" aria-hidden="true"></i>KV cache')[1].split("</tr>")[0]
    assert "159,277" in row and "159,215" not in row


def failed_on(rank: str) -> dict:
    """Eight ranks, one of which took less and failed."""
    made = with_ranks(8)
    launch = made["launches"][0]
    launch |= {"outcome": "failed", "oom": [], "findings": [{"rule": "weights-exceed-gpu", "severity": "critical"}]}
    launch["findings"][0] |= {"ranks": [rank], "summary": "The weights do not fit", "evidence": [], "remedies": []}
    failing = next(one for one in launch["ranks"] if one["id"] == rank)
    failing["entries"] = failing["entries"][:1]
    failing["free_gib"] = failing["opening_gib"] - failing["entries"][0]["gib"]
    return made


def test_the_rank_that_failed_is_the_first_card_and_its_start_is_told() -> None:
    page = ReportPage(failed_on("TP5"))
    assert page.budget.main.title == "TP5, which failed"
    assert page.budget.cards[1].count == 7
    assert page.budget_words == "TP5, which failed; 8 GPUs, 7 alike"
    assert page.step_rank == "TP5"
    assert "Memory budget of TP5, which failed" in body_of(failed_on("TP5"))
    ready = failed_on("TP5")
    ready["launches"][0]["outcome"] = "ready"
    page = ReportPage(ready)
    assert page.budget.main.count == 7 and page.step_rank != "TP5"


def test_the_strip_of_many_ranks_still_tells_the_odd_from_the_many() -> None:
    made = with_ranks(32, odd=32)
    launch = made["launches"][0]
    launch |= {"outcome": "failed"}
    launch["findings"] = [{"rule": "decode-graph-oom", "severity": "critical", "summary": "x", "ranks": ["TP31"]}]
    page = ReportPage(made)
    assert page.budget.main.ranks == ("TP31",)
    assert page.strip.odd == (31,)
    assert page.strip.told["groups"][0] == 31


def test_one_reading_alone_is_a_sentence_on_the_page() -> None:
    made = with_ranks(2)
    for rank in made["launches"][0]["ranks"]:
        rank |= {"entries": [], "earlier": [], "free_gib": rank["opening_gib"]}
    page = ReportPage(made)
    assert page.budget_figure is None and page.waterfall_figure is None
    body = body_of(made)
    assert "The log has one reading of free memory of TP0, TP1 only" in body
    assert "what each step of the start took is not in it." in body
    assert 'id="twin-budget"' not in body


def test_sizes_from_before_the_only_reading_are_on_the_page() -> None:
    made = with_ranks(2)
    taken = {"pool": "kv_cache", "model": "target", "gib": 2.74, "basis": "printed", "lines": [2]}
    for rank in made["launches"][0]["ranks"]:
        rank |= {"entries": [], "earlier": [taken], "free_gib": rank["opening_gib"]}
    body = body_of(made)
    assert "what lines before it print is below." in body
    assert "2.74 GiB was taken before the first reading (KV cache)" in body


@pytest.mark.parametrize(
    ("reached", "failed", "badge", "word"),
    [
        ("serving", "serving", "Died while serving", "Died while serving"),
        (None, "serving", "Died while serving", "Died while serving"),
        ("warmup", "serving", "Failed at warm-up", "Cannot start"),
        (None, "cuda_graph", "Failed at CUDA graph capture", "Cannot start"),
        (None, None, "Failed", "Failed"),
    ],
)
def test_how_a_launch_ended_is_said_as_its_failure_says(reached: str, failed: str, badge: str, word: str) -> None:
    made = document("kimi-k25-8gpu")
    made["launches"][0] |= {"outcome": "failed", "stage": reached, "failure": {"kind": "other", "stage": failed}}
    page = ReportPage(made)
    assert (page.state, page.verdict_word) == (badge, word)
