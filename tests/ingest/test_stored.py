"""The dashboard's columns, filled from the document."""

import json
from pathlib import Path

import pytest

from ingest.stored import columns_of

DOCUMENTS = Path(__file__).resolve().parent.parent / "documents"


def document(name: str) -> dict:
    return json.loads((DOCUMENTS / f"{name}.json").read_text())


def test_the_columns_describe_the_last_launch() -> None:
    columns = columns_of(document("kimi-k25-8gpu"))
    assert columns["kv_tokens"] == 159_277
    assert columns["gpu_count"] == 8
    assert columns["free_gib"] == 7.43 and columns["weights_gib"] == 72.33
    assert columns["release"] == "0.5.9" and columns["model"] == "/models/Kimi-K2.5-INT4"
    assert columns["started_at"] == "2026-11-29T09:14:02"


def test_a_figure_the_log_does_not_give_is_null_and_never_zero() -> None:
    launch = {"number": 1, "outcome": "incomplete", "ranks": [{"id": "TP0", "free_gib": None}], "findings": []}
    columns = columns_of({"schema": "kvdiag.report/1", "engine": "0.1.0", "launches": [launch]})
    for name in ("kv_tokens", "free_gib", "weights_gib", "ready_after_s"):
        assert columns[name] is None


def test_the_tightest_gpu_decides_what_is_free() -> None:
    launch = {"outcome": "ready", "ranks": [{"free_gib": 4.0}, {"free_gib": None}, {"free_gib": 1.5}]}
    assert columns_of({"schema": "s", "launches": [launch]})["free_gib"] == 1.5


@pytest.mark.parametrize(
    ("launch", "free"),
    [
        ({"outcome": "incomplete", "stage": "kv_cache"}, None),
        ({"outcome": "failed", "stage": "cuda_graph", "failure": {"stage": "cuda_graph"}}, None),
        ({"outcome": "failed", "ready_after_s": 60.0, "failure": {"stage": "serving"}}, 2.09),
        ({"outcome": "ready"}, 2.09),
    ],
)
def test_what_is_free_on_the_way_is_not_free_after_the_start(launch: dict, free: float | None) -> None:
    document = {"schema": "s", "launches": [{**launch, "ranks": [{"free_gib": 2.09}]}]}
    assert columns_of(document)["free_gib"] == free


def test_the_worst_severity_is_that_of_any_launch() -> None:
    launches = [{"findings": [{"severity": "critical"}]}, {"findings": [{"severity": "info"}]}]
    columns = columns_of({"schema": "s", "launches": launches})
    assert columns["worst_severity"] == "critical" and columns["finding_count"] == 2


def test_a_release_known_by_its_wording_is_a_range() -> None:
    launch = {"version": {"exact": None, "from": "0.4.2", "before": "0.4.5"}}
    assert columns_of({"schema": "s", "launches": [launch]})["release"] == "0.4.2 or later, before 0.4.5"


def test_a_document_without_launches_has_no_figures() -> None:
    columns = columns_of(document("not-sglang"))
    assert columns["launch_count"] == 0 and "kv_tokens" not in columns
