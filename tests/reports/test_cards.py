"""The cards of hundreds of ranks are made quicker, and say the same."""

from __future__ import annotations

import pytest

from reports.budget import brief_card, card_of
from reports.document import launches, listed
from tests.documents import NAMES, document

ENDED = "Free when ready"


@pytest.mark.parametrize("name", NAMES)
def test_a_brief_card_has_the_sizes_of_the_full_one(name: str) -> None:
    for launch in launches(document(name)):
        for rank in listed(launch, "ranks"):
            brief, full = brief_card(rank, ended=ENDED), card_of(rank, ended=ENDED)
            assert (brief is None) == (full is None)
            if brief and full:
                assert [(share.pool, pytest.approx(share.gib)) for share in brief.shares] == [
                    (share.pool, share.gib) for share in full.shares
                ]
                assert (brief.ranks, brief.free, brief.measured) == (full.ranks, full.free, full.measured)
                assert brief.opening == pytest.approx(full.opening)
