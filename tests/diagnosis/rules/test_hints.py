"""Printed advice that is wrong is contradicted by name, and advice that is right is left alone."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.rules.catalogue import read_cases
from kvdiag.diagnosis.texts import Log

CASES = {case.slug: case.text for case in read_cases(Path(__file__).parents[2] / "cases")}
FLAGS = ("--mem-fraction-static", "--cuda-graph-max-bs", "expandable_segments", "--mamba-full-memory-ratio")


def launches_of(slug: str) -> list[dict[str, Any]]:
    return diagnose(Log(slug, io.BytesIO(CASES[slug].encode()))).document["launches"]


def cleared_of(slug: str) -> list[dict[str, Any]]:
    return [cleared for launch in launches_of(slug) for cleared in launch["cleared"]]


@pytest.mark.parametrize(
    ("slug", "claim", "because"),
    [
        (
            "capture-illegal-access-hints-mislead",
            '"Possible solutions" under the failed capture',
            "14.20 GiB",
        ),
        ("prefill-graph-failed-0517-wrapped", '"set --cuda-graph-max-bs to a smaller value"', "bounds decode graphs"),
        ("decode-graph-oom-4ranks-chained", "hint at expandable_segments does not apply", "0.23 GiB lie reserved"),
        ("npu-out-of-memory-prefill", "hint at max_split_size_mb does not apply", "1.23 GiB lie reserved"),
        ("window-empty-086-087", '"try to increase --mem-fraction-static" does not help', "the launch overflows"),
        ("free-memory-fell-between-ranks-race", "misses the cause", "something took memory in between"),
        ("mamba-mem-refused-negative-rest", '"(1) reduce --max-running-requests"', "less than nothing"),
        ("slow-nfs-two-nodes-load-barrier", '"unexpected failures (e.g., OOM)"', "no rank of this log overflowed"),
        ("minimax-tp8-min-fraction-docker", '"a common cause is the OS OOM killer"', "this one is 1"),
        ("negative-profiled-value", "--max-total-tokens, which the line names", "below zero"),
        ("mamba-ping-pong-assert", '"try to increase --mamba-full-memory-ratio"', "204 pins"),
        ("prompt-longer-than-pool-400", "--allow-auto-truncate", "smaller than the context"),
        ("unbalanced-after-target-graphs-eagle", '"Some GPUs may be occupied by other processes"', "own pools"),
        ("captures-assert-00gb-rocm", '"please report a bug to PyTorch"', "reports an overflow"),
        ("kv-cache-full-bug-in-estimation-decode", '"There is a bug in memory estimation"', "grew into"),
    ],
)
def test_a_wrong_hint_is_contradicted_with_its_words_and_its_lines(slug: str, claim: str, because: str) -> None:
    found = [c for c in cleared_of(slug) if claim in c["claim"]]
    assert len(found) == 1
    assert because in found[0]["because"]
    assert found[0]["lines"]


@pytest.mark.parametrize(
    "slug", ["fragmented-3gib-reserved-decode", "gemma27b-24g-042-not-enough", "rank-exit-minus9-while-loading"]
)
def test_a_right_hint_is_left_alone(slug: str) -> None:
    claims = " ".join(c["claim"] for c in cleared_of(slug))
    assert not [flag for flag in (*FLAGS, "OOM killer") if flag in claims]


@pytest.mark.parametrize("slug", CASES)
def test_what_is_contradicted_is_not_offered(slug: str) -> None:
    for launch in launches_of(slug):
        refuted = " ".join(c["claim"] for c in launch["cleared"] if "does not" in c["claim"] or "do not" in c["claim"])
        offered = {(r["flag"], r["direction"]) for f in launch["findings"] for r in f["remedies"]}
        if "increase --mem-fraction-static" in refuted:
            assert ("--mem-fraction-static", "raise") not in offered
        if "Possible solutions" in refuted:
            assert not offered & {(flag, "lower") for flag in FLAGS[:2]}
        if "expandable_segments" in refuted:
            assert not [flag for flag, _ in offered if "ALLOC_CONF" in flag]
