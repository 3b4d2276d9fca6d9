"""The card at an overflow: parts that add up, and no drawing of figures that do not."""

from __future__ import annotations

import copy

import pytest

from reports.overflow import overflow_of

ENTRY = {
    "line": 1,
    "rank": "TP3",
    "gpu": 3,
    "tried_gib": 0.65625,
    "capacity_gib": 140.06,
    "free_gib": 0.196,
    "in_use_gib": 139.86,
    "allocated_gib": 128.5,
    "reserved_unallocated_gib": 1.01,
    "private_pools_gib": 3.23,
}


def launch(**changes: object) -> dict:
    return {"oom": [copy.deepcopy(ENTRY) | changes]}


def test_the_parts_add_up_to_the_card() -> None:
    found = overflow_of(launch())
    assert found is not None
    assert sum(part.gib for part in found.parts) == pytest.approx(140.06)
    sizes = {part.name: round(part.gib, 3) for part in found.parts}
    assert sizes == {
        "Held by PyTorch": 125.27,
        "In private pools": 3.23,
        "Reserved, not allocated": 1.01,
        "Outside PyTorch": 10.354,
        "Free": 0.196,
    }
    assert {part.name: part.basis for part in found.parts}["Outside PyTorch"] == "derived"
    assert found.words == "TP3, GPU 3 when 0.66 GiB were asked for"


def test_what_was_asked_for_reaches_over_the_end_of_the_card() -> None:
    found = overflow_of(launch(tried_gib=20.0))
    assert found is not None and found.asked is not None
    assert found.asked.x + found.asked.width == pytest.approx(100, abs=0.01)
    assert found.parts[-1].x + found.parts[-1].width < 90


def test_figures_that_do_not_fit_into_the_card_are_not_drawn() -> None:
    assert overflow_of(launch(allocated_gib=150.0)) is None
    assert overflow_of(launch(private_pools_gib=130.0)) is None


@pytest.mark.parametrize("name", ["capacity_gib", "free_gib", "allocated_gib"])
def test_a_message_without_its_figures_is_not_drawn(name: str) -> None:
    assert overflow_of(launch(**{name: None})) is None


def test_a_part_that_is_not_printed_is_no_zero() -> None:
    found = overflow_of(launch(private_pools_gib=None, reserved_unallocated_gib=None))
    assert found is not None
    assert [part.name for part in found.parts] == ["Held by PyTorch", "Outside PyTorch", "Free"]


def test_the_first_message_that_accounts_for_its_card_is_drawn() -> None:
    made = launch(allocated_gib=None)
    made["oom"].append(copy.deepcopy(ENTRY) | {"rank": "TP4", "gpu": 4, "line": 9})
    found = overflow_of(made)
    assert found is not None and found.name == "TP4, GPU 4" and found.others == 1
