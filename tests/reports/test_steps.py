"""The start as steps and phases: who pays which seconds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reports.steps import held_up, steps_of, timeline_of
from tests.documents import document

CORPUS = Path(__file__).parent.parent / "corpus"


def launch() -> dict:
    return document("kimi-k25-8gpu")["launches"][0]


def test_each_step_has_the_seconds_of_its_own_phase() -> None:
    took = {step.name: step.seconds for step in steps_of(launch())}
    assert (took["Weights"], took["Draft weights"], took["CUDA graphs"]) == (252.37, 3.11, 38.12)
    assert took["Workspaces"] is None


def test_steps_stand_in_the_order_of_the_start() -> None:
    """The log's own order: what is taken after the last capture is not told before the first one."""
    report = json.loads((CORPUS / "kimi-k25-8gpu" / "expected.json").read_text())
    steps = steps_of(report["launches"][0])
    names = [step.name for step in steps]
    assert names.index("Draft weights") > names.index("CUDA graphs")
    assert names.index("Buffers") > names.index("Draft decode graphs")
    assert names[-2:] == ["Unexplained", "Ready"]
    assert steps[-2].gib == pytest.approx(0.0166, abs=0.001)
    assert steps[-2].free == pytest.approx(steps[-1].free, abs=0.01)


def test_what_is_left_unexplained_in_one_step_stands_where_it_was_lost() -> None:
    made = launch()
    entries = made["ranks"][0]["entries"]
    entries.insert(2, {"pool": "unexplained", "model": "target", "gib": 0.75, "basis": "derived", "lines": [300]})
    steps = steps_of(made)
    assert [step.name for step in steps][3] == "Unexplained" and steps[3].gib == 0.75


def test_two_captures_of_the_draft_keep_their_times_apart() -> None:
    made = launch()
    made["phases"] = [
        {"phase": "draft cuda_graph", "rank": "TP0", "seconds": 6.0, "first_line": 345, "last_line": 361},
        {"phase": "draft cuda_graph", "rank": "TP0", "seconds": 3.0, "first_line": 362, "last_line": 370},
    ]
    entries = made["ranks"][0]["entries"]
    entries.insert(-1, entries[-2] | {"gib": 0.1, "lines": [370]})
    took = [step.seconds for step in steps_of(made) if step.name == "Draft CUDA graphs"]
    assert took == [6.0, 3.0]


def test_the_time_between_timed_phases_is_shown_as_itself() -> None:
    phases = timeline_of(launch())
    assert phases[-1].name == "Between the timed steps"
    assert round(sum(phase.seconds for phase in phases), 2) == 362.0
    assert abs(sum(phase.width for phase in phases) - 100) < 0.1


def test_phases_of_other_ranks_do_not_add_up() -> None:
    made = launch()
    made["phases"] += [phase | {"rank": "TP1"} for phase in made["phases"]]
    assert timeline_of(made) == timeline_of(launch())


def test_the_rank_that_held_the_others_up_is_named() -> None:
    made = launch()
    made["phases"].append({"phase": "weights", "rank": "TP5", "seconds": 400.0, "slowest": True})
    assert held_up(made) == ["TP5 took longest in “weights”: 6 min 40 s"]


def test_a_log_without_times_has_no_timeline() -> None:
    assert timeline_of(document("llama-refused")["launches"][0]) == []
