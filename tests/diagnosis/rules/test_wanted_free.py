"""What is wanted free is the same for a start and for its changes, and is called unknown where it is."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.ledger.what_if import Change, scenario
from kvdiag.diagnosis.text import what_if_lines
from kvdiag.diagnosis.texts import Log
from reports.scenario_words import shown_scenario
from reports.what_if import answer

CORPUS = Path(__file__).parents[2] / "corpus"
SHARED, UNDER, CUT = (
    "qwen25-15b-gb10-low-free-mem",
    "qwen3-4b-ipynb-output-strings",
    "qwen36-27b-tp3-adaptive-spec-graph-ladder",
)


def launch_of(case: str) -> dict[str, Any]:
    text = (CORPUS / case / "log.txt").read_bytes()
    return diagnose(Log("log", io.BytesIO(text))).document["launches"][-1]


@pytest.mark.parametrize("asked", [{}, {"mem_fraction_static": "0.243"}])
def test_a_start_and_its_changes_are_measured_alike_on_a_shared_memory(asked: dict[str, str]) -> None:
    launch = launch_of(SHARED)
    found, _ = answer(launch, asked)
    shown = shown_scenario(found, is_observed=not asked)
    free = next(outcome for outcome in shown.outcomes if outcome.key == "free")
    assert "wanted 23.9" in free.note and "23.9 GiB wanted where host and GPU share one memory" in shown.text
    told = "\n".join(what_if_lines(scenario(launch, Change.read(asked)).to_document()))
    assert "Wanted free at the end: 23.93 GiB, 5.00 GiB of them for the launch itself" in told


def test_a_start_under_what_is_wanted_is_named_with_the_change() -> None:
    launch = launch_of(UNDER)
    assert "2.67 GiB free is less than the 3.66 GiB wanted, but more than half of it" in launch["verdict"]
    (lever,) = [x for x in launch["levers"] if x["lever"] == "fp8-kv"]
    assert "2.48 GiB free at the end is under the 3.66 GiB wanted, as the 2.67 GiB of this start are" in lever["costs"]


def test_health_by_an_assumed_measure_is_not_certain() -> None:
    (found,) = [f for f in launch_of(CUT)["findings"] if f["rule"] == "no-fault"]
    assert found["confidence"] == "likely"
    assert "before the server is ready" in found["summary"]
    wanted = "5.00 GiB are wanted by the card's size, which the log does not tell"
    assert wanted in found["summary"] and any(wanted in c["because"] for c in launch_of(CUT)["cleared"])


def test_a_card_that_no_line_names_may_be_one_whose_memory_the_host_shares() -> None:
    """A GB10 with 113 GiB free and 24 at the end is left alone; an H200, which has more, is not."""

    def ready(card: float, free: float) -> Any:
        log = (
            f"[2026-01-01 10:00:00] Load weight begin. avail mem={card:.2f} GB\n"
            f"[2026-01-01 10:01:00] Load weight end. type=A, avail mem={card - 50:.2f} GB, mem usage=50.00 GB.\n"
            f"[2026-01-01 10:01:01] KV Cache is allocated. #tokens: 200000, K size: 20.00 GB, V size: 18.00 GB\n"
            f"[2026-01-01 10:01:02] max_total_num_tokens=200000, chunked_prefill_size=8192, max_prefill_tokens=16384,"
            f" max_running_requests=2048, context_len=131072, available_gpu_mem={free:.2f} GB\n"
            "[2026-01-01 10:01:20] The server is fired up and ready to roll!\n"
        )
        return diagnose(Log("log", io.BytesIO(log.encode()))).document["launches"][0]

    shared, apart = ready(113.3, 24.5), ready(138.9, 24.5)
    assert not [remedy for finding in shared["findings"] for remedy in finding["remedies"]]
    assert "should leave 22.66 GiB, as no line names the card" in str(shared["cleared"])
    assert [r["flag"] for f in apart["findings"] for r in f["remedies"]] == ["--mem-fraction-static"]
