"""Provenance: where a release computes what the report shows."""

import pytest

from kvdiag.diagnosis.ledger.sizing.release import ReleaseRange
from kvdiag.diagnosis.provenance import QUANTITIES, explain_quantity, quantity, to_document, trail

READ = ("0.3.6", "0.4.3.post4", "0.4.9.post6", "0.5.6.post2", "0.5.9", "0.5.10", "0.5.12", "0.5.14", "0.5.19", "0.5.23")


@pytest.mark.parametrize("version", READ)
def test_every_release_names_where_tokens_budget_and_both_readings_are_computed(version):
    steps = {one.name: places for one, places in trail("max_total_num_tokens", ReleaseRange.read(version))}
    for name in (
        "max_total_num_tokens",
        "budget",
        "opening",
        "after_weights",
        "bytes_per_token",
        "mem_fraction_static",
    ):
        assert steps[name], name
    assert quantity("reserve").at(ReleaseRange.read(version))
    assert quantity("max_running_requests").at(ReleaseRange.read(version))


def test_the_trail_of_0_5_9_is_short_and_names_module_and_function():
    lines = explain_quantity("max_total_num_tokens", "0.5.9")
    assert lines is not None
    text = "\n".join(lines)
    assert "model_runner_kv_cache_mixin.py, profile_max_num_token()" in text
    assert "model_runner.py, init_torch_distributed()" in text
    assert len(lines) < 45


def test_a_name_of_sglangs_source_finds_the_quantity():
    assert quantity("pre_model_load_memory") is quantity("opening")
    assert quantity("--max-running-requests") is quantity("max_running_requests")
    assert quantity("nothing") is None and explain_quantity("nothing") is None


def test_a_version_that_cannot_be_read_gets_the_places_of_all_releases():
    lines = explain_quantity("budget", "latest")
    assert lines is not None and "no SGLang release" in lines[1]
    assert any("0.5.17 and later" in line for line in lines)


def test_every_quantity_rests_on_quantities_or_flags_only():
    names = {one.name for one in QUANTITIES} | {"page_size", "max_total_tokens"}
    assert all(set(one.rests_on) <= names for one in QUANTITIES)


def test_a_range_of_releases_names_every_place_it_may_be():
    found = {one["name"]: one for one in to_document(ReleaseRange.read(None, "0.5.9", "0.5.12"))}
    assert len(found["max_total_num_tokens"]["places"]) == 4
    assert list(found)[:2] == ["max_total_num_tokens", "opening"]
