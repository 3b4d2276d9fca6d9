"""The card at an overflow, drawn: places that add up, and nothing drawn of a message that does not account for it."""

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
    "card": [
        {"part": "pytorch", "gib": 125.27, "basis": "derived"},
        {"part": "private_pools", "gib": 3.23, "basis": "printed"},
        {"part": "reserved_unallocated", "gib": 1.01, "basis": "printed"},
        {"part": "outside", "gib": 10.354, "basis": "derived"},
        {"part": "free", "gib": 0.196, "basis": "printed"},
    ],
}


def launch(**changes: object) -> dict:
    return {"oom": [copy.deepcopy(ENTRY) | changes]}


def test_the_parts_lie_end_to_end_up_to_what_was_asked_for() -> None:
    found = overflow_of(launch())
    assert found is not None and found.asked is not None
    assert found.words == "TP3, GPU 3 when 0.66 GiB were asked for"
    for one, following in zip(found.parts, found.parts[1:], strict=False):
        assert following.x == pytest.approx(one.x + one.width, abs=0.01)
    assert found.asked.x == pytest.approx(found.parts[-1].x, abs=0.01)
    assert found.asked.x + found.asked.width == pytest.approx(100, abs=0.01)


def test_shares_are_of_the_card_whatever_was_asked_for() -> None:
    found = overflow_of(launch(tried_gib=200.0))
    assert found is not None
    assert found.parts[0].percent == 89.4
    assert found.parts[-1].x + found.parts[-1].width < 50


@pytest.mark.parametrize("changes", [{"card": []}, {"card": None}, {"capacity_gib": None}])
def test_a_message_that_does_not_account_for_the_card_is_not_drawn(changes: dict) -> None:
    assert overflow_of(launch(**changes)) is None


def test_the_first_message_that_accounts_for_its_card_is_drawn() -> None:
    made = launch(card=[])
    made["oom"].append(copy.deepcopy(ENTRY) | {"rank": "TP4", "gpu": 4, "line": 9})
    found = overflow_of(made)
    assert found is not None and found.name == "TP4, GPU 4" and found.others == 1


def test_what_was_asked_for_may_be_unknown() -> None:
    found = overflow_of(launch(tried_gib=None))
    assert found is not None and found.asked is None
    assert found.parts[-1].x + found.parts[-1].width == pytest.approx(100, abs=0.01)
