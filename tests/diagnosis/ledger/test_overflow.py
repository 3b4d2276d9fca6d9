"""The card at an overflow: parts that add up to it, or none at all."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.text import render

OURS = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 672.00 MiB. GPU 0 has a total capacity of 140.06 GiB"
    " of which 200.75 MiB is free. {processes} has 139.86 GiB memory in use. Of the allocated memory {live} GiB is"
    " allocated by PyTorch, with 3.23 GiB allocated in private pools (e.g., CUDA Graphs), and 1.01 GiB is reserved by"
    " PyTorch but unallocated."
)
EARLY = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB (GPU 0; 14.76 GiB total capacity;"
    " 13.21 GiB already allocated; 151.75 MiB free; 13.45 GiB reserved in total by PyTorch)"
)


def card(line: str) -> dict[str, tuple[float, str]]:
    [oom] = diagnose(io.BytesIO(f"[2026-04-26 14:38:11 TP0] {line}\n".encode())).document["launches"][0]["oom"]
    return {share["part"]: (round(share["gib"], 2), share["basis"]) for share in oom["card"]}


def test_a_process_that_is_not_named_as_this_one_leaves_the_rest_outside() -> None:
    assert card(OURS.format(processes="Process 1939284", live="128.50")) == {
        "pytorch": (125.27, "derived"),
        "private_pools": (3.23, "printed"),
        "reserved_unallocated": (1.01, "printed"),
        "outside": (10.35, "derived"),
        "free": (0.20, "printed"),
    }


def test_this_process_is_told_from_others() -> None:
    found = card(OURS.format(processes="Including non-PyTorch memory, this process", live="120.00"))
    assert found["own"] == (18.85, "derived")  # 139.86 − 120.00 − 1.01
    assert "others" not in found and "outside" not in found


def test_other_processes_are_the_rest_of_the_card() -> None:
    line = OURS.format(processes="Including non-PyTorch memory, this process", live="120.00")
    found = card(line.replace("139.86 GiB memory in use", "130.00 GiB memory in use"))
    assert found["own"] == (8.99, "derived")
    assert found["others"] == (9.86, "derived")


def test_what_early_wordings_reserve_in_total_is_set_against_what_is_allocated() -> None:
    found = card(EARLY)
    assert found["reserved_unallocated"] == (0.24, "derived")
    assert found["outside"] == (1.16, "derived")


@pytest.mark.parametrize("live", ["150.00", "1.00", "139.90"])
def test_figures_that_contradict_each_other_account_for_nothing(live: str) -> None:
    assert card(OURS.format(processes="Process 1", live=live)) == {}


@settings(deadline=None)
@given(st.floats(3.3, 138.8))
def test_the_parts_add_up_to_the_card(live: float) -> None:
    [oom] = diagnose(io.BytesIO(OURS.format(processes="Process 7", live=f"{live:.2f}").encode())).document["launches"][
        0
    ]["oom"]
    assert sum(share["gib"] for share in oom["card"]) == pytest.approx(140.06, abs=0.025)
    assert all(share["gib"] >= 0 for share in oom["card"])


def test_the_terminal_shows_the_card_of_a_lone_trace() -> None:
    text = render(diagnose(io.BytesIO(OURS.format(processes="Process 7", live="128.50").encode())), "text")
    assert "Memory of GPU 0 when 0.66 GiB were asked for, GiB" in text
    assert "Outside PyTorch" in text and "10.35" in text
    markdown = render(diagnose(io.BytesIO(OURS.format(processes="Process 7", live="128.50").encode())), "markdown")
    assert "| Outside PyTorch | 10.35 | derived |" in markdown


@pytest.mark.parametrize(
    ("processes", "held"),
    [
        (
            "Process 11 has 3.24 GiB memory in use. Including non-PyTorch memory, this process has 88.83 GiB memory in"
            " use.",
            88.83,
        ),
        ("Process 11 has 92.07 GiB memory in use.", 92.07),
        ("Process 11 has 3.24 GiB memory in use. Process 12 has 88.83 GiB memory in use.", None),
    ],
)
def test_what_a_process_holds_is_its_own_and_no_other_ones(processes: str, held: float | None) -> None:
    text = (
        "[2026-03-01 10:00:00 TP0] CUDA out of memory. Tried to allocate 58.15 GiB. GPU 0 has a total capacity of"
        f" 139.81 GiB of which 47.69 GiB is free. {processes} Of the allocated memory 82.55 GiB is allocated by"
        " PyTorch, and 2.06 GiB is reserved by PyTorch but unallocated.\n"
    )
    (oom,) = diagnose(io.BytesIO(text.encode())).document["launches"][0]["oom"]
    assert oom["in_use_gib"] == held
