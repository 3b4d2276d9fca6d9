"""The verdict of each outcome, in plain words with direction and size, and the turn of the knob."""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.texts import Log

TESTS = Path(__file__).parents[1]
LOGS = TESTS / "diagnosis" / "rules" / "logs"


@cache
def launch_of(path: Path) -> dict[str, Any]:
    return diagnose(Log(path.name, io.BytesIO(path.read_bytes()))).document["launches"][-1]


def test_a_healthy_start_says_how_far_the_fraction_could_go() -> None:
    launch = launch_of(TESTS / "corpus" / "kimi-k25-8gpu" / "log.txt")
    assert launch["verdict"] == (
        "Ready, nothing to fix. 159,277 KV tokens on each of 8 GPUs, 7.43 GiB free. Memory limits the KV cache;"
        " 0.904 would fit about 193,800 tokens (+22 %) and leave about 5.0 GiB."
    )
    assert launch["turn"] == "leave"


def test_a_refused_start_says_to_raise_and_above_which_value() -> None:
    launch = launch_of(TESTS / "corpus" / "kimi-k25-8gpu-refused" / "log.txt")
    assert launch["verdict"].startswith("Failed while the KV pool is made. The weights leave no room for the KV pool")
    assert "must be above 0.7691" in launch["verdict"]
    assert "Raise --mem-fraction-static from 0.55 to 0.88" in launch["verdict"]
    assert launch["turn"] == "up"


@pytest.mark.parametrize(
    ("log", "said", "turn"),
    [
        ("mem-fraction-too-low", "Raise --mem-fraction-static from 0.6 to", "up"),
        ("thin-slack-after-capture", "Lower --mem-fraction-static from 0.92 to", "down"),
        ("decode-graph-oom", "Failed while graphs are captured", "down"),
        ("weights-exceed-gpu", "The weights do not fit on the GPU while they load", "none"),
        ("host-oom-kill", "the host or the container ran out of memory", "none"),
        ("not-memory", "not for want of memory", "none"),
        ("no-fault", "Ready, nothing to fix", "none"),
        ("weights-near-limit.silent", "The log ends while the KV pool is made", "none"),
        ("full-pool-exhausted.silent", "The log shows serving, and no start or end of it", "none"),
    ],
)
def test_every_outcome_has_a_sentence_and_a_turn(log: str, said: str, turn: str) -> None:
    launch = launch_of(LOGS / f"{log}.log")
    assert said in launch["verdict"]
    assert launch["turn"] == turn


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.log")), ids=lambda p: p.name)
def test_a_verdict_is_short_and_ends_as_a_sentence(path: Path) -> None:
    verdict = launch_of(path)["verdict"]
    assert verdict.endswith(".")
    assert len(verdict) < 500
    assert "\n" not in verdict
    assert "None" not in verdict
