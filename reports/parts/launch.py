"""The launch that a page shows, and what its header says of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from kvdiag.diagnosis.left_out import left_out
from reports import words
from reports.document import Document, Launch, dig, launches, listed
from reports.header import facts_of
from reports.launch_tabs import Tab, near, state_words, tabs_of


@dataclass
class ShownLaunch:
    """One launch of a document, the last one where the number is none of theirs."""

    document: Document
    number: int = 1
    name: str = ""
    launch: Launch = field(init=False)

    def __post_init__(self) -> None:
        found = launches(self.document)
        chosen = [launch for launch in found if launch.get("number") == self.number]
        self.launch = chosen[0] if chosen else (found[-1] if found else {})
        self.number = self.launch.get("number") or 1

    @cached_property
    def has_launch(self) -> bool:
        return bool(self.launch)

    @cached_property
    def files(self) -> list[dict[str, Any]]:
        return listed(self.document, "upload", "files")

    @cached_property
    def title(self) -> str:
        if self.name:
            return self.name
        model = words.base_name(dig(self.launch, "model", "path"))
        names = [str(file.get("name")) for file in self.files if file.get("name")]
        return model or (names[0] if names else "Report")

    @cached_property
    def outcome(self) -> str:
        outcome = self.launch.get("outcome")
        return outcome if outcome in ("ready", "failed", "incomplete") else "incomplete"

    @cached_property
    def state(self) -> str:
        """The outcome in words for the header: "Ready in 6 min 02 s"."""
        return state_words(self.launch)

    @cached_property
    def facts(self) -> list[tuple[str, str]]:
        return facts_of(self.launch)

    @cached_property
    def tabs(self) -> list[Tab]:
        return tabs_of(launches(self.document), self.launch, self.files)

    @cached_property
    def near_tabs(self) -> list[Tab]:
        return near(self.tabs)

    @cached_property
    def left_out(self) -> str:
        """What the report leaves out of a log with very many starts or ranks, in whole sentences."""
        return left_out(self.document)

    @cached_property
    def before(self) -> Launch | None:
        """The launch before this one in the same upload."""
        found = launches(self.document)
        at = next((index for index, launch in enumerate(found) if launch is self.launch), 0)
        return found[at - 1] if at > 0 else None

    @cached_property
    def line_count(self) -> int:
        return sum(file.get("lines") or 0 for file in self.files)
