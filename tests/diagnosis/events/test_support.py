"""The support matrix is the declarations' own, and the page of it is the one they give."""

from __future__ import annotations

from pathlib import Path

from kvdiag.diagnosis.events import DECLARATIONS
from kvdiag.diagnosis.support import matrix

PAGE = Path(__file__).parent.parent.parent.parent / "docs" / "support.md"


def test_the_page_is_what_the_command_prints() -> None:
    assert PAGE.read_text("utf-8").strip() == matrix().strip(), "bin/kvdiag support > docs/support.md"


def test_every_event_that_is_read_is_in_the_matrix() -> None:
    text = matrix()
    missing = [d.event.__name__ for d in DECLARATIONS if f"| {d.event.__name__} |" not in text]
    assert missing == []
