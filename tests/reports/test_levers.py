"""Levers: what else could be turned, as rows that can be tried."""

from __future__ import annotations

from urllib.parse import parse_qs

import pytest

from reports import scenario_words
from reports.levers import levers_of

FRACTION = {
    "lever": "fraction",
    "what": "the largest fraction that keeps the wanted free memory",
    "flags": [{"flag": "--mem-fraction-static", "from": "0.88", "to": "0.904"}],
    "tokens": {"before": 159277, "after": 193763},
    "free_gib": {"before": 7.43, "after": 5.0431},
    "requests": {"before": 1, "after": 1},
    "costs": ["2.39 GiB less for activations and graphs"],
}


def shown(**changed: object):
    [lever] = levers_of({"levers": [FRACTION | changed]})
    return lever


def test_a_lever_says_what_it_brings_and_what_it_costs() -> None:
    lever = shown()
    assert (lever.tokens, lever.change, lever.free) == ("≈ 193,800", "+22 %", "≈ 5.04")
    assert lever.costs == ("2.39 GiB less for activations and graphs.",)


def test_a_lever_can_be_loaded_into_the_panel() -> None:
    assert parse_qs(shown().query) == {"wf.mem_fraction_static": ["0.904"]}


def test_what_stays_as_it_is_carries_no_about() -> None:
    lever = shown(tokens={"before": 159277, "after": 159277}, free_gib={"before": 7.43, "after": 7.43})
    assert (lever.tokens, lever.change, lever.free) == ("159,277", "", "7.43")


def test_flags_that_go_are_counted() -> None:
    gone = [{"flag": f"--speculative-{name}", "from": "x", "to": None} for name in ("algorithm", "num-steps", "topk")]
    assert shown(flags=gone).flags == ("without --speculative-algorithm and 2 more",)


@pytest.mark.parametrize("value", ["$(reboot)", "a b", "'; x"])
def test_a_lever_s_values_are_quoted_for_the_shell(value: str) -> None:
    [flag] = shown(flags=[{"flag": "--kv-cache-dtype", "from": None, "to": value}]).flags
    assert flag.startswith("--kv-cache-dtype '")


def test_a_lever_without_figures_still_stands() -> None:
    [lever] = levers_of({"levers": [{"lever": "x"}]})
    assert (lever.what, lever.tokens, lever.free, lever.query) == ("x", "", "", "")


def test_many_times_the_tokens_are_told_as_a_multiple() -> None:
    lever = {"lever": "x", "tokens": {"before": 20_480, "after": 914_131}, "flags": []}
    assert levers_of({"levers": [lever]})[0].change == "45 × as many"
    figure = {"before": 20_480, "after": 914_131}
    assert scenario_words._change(figure) == "45 × as many"
    assert scenario_words._change({"before": 100, "after": 122}) == "+22 %"
