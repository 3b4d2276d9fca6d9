"""What others hold of a card before the server starts."""

from __future__ import annotations

from kvdiag.diagnosis.rules.judgements.arguments import unified_device
from kvdiag.diagnosis.rules.judgements.surroundings import held_before_start, printed_card
from kvdiag.diagnosis.rules.rule import Case
from kvdiag.diagnosis.units import Bytes


def held_by_others(case: Case) -> Bytes | None:
    """What the log proves to be in use before loading and not by this server; None where it proves nothing.

    Of a memory that host and GPU share, the free figure leaves out the page cache before 0.5.4: there it proves none.
    """
    if unified_device(case) is None:
        return held_before_start(case)
    card, opening = printed_card(case), case.opening
    if card is None or opening is None or case.launch.releases.reaches("0.5.4") is not True:
        return None
    held = Bytes(card - opening.available)
    return held if held > max(case.thresholds.context_most, 0.1 * card) else None
