"""One launch of a report document, arranged for the page: every section with what it shows, or why it has nothing.

Pure: a document in, values out. The site, a shared page and the offline file render the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from reports import words
from reports.document import dig, listed
from reports.parts.course import Course
from reports.parts.printed import Printed
from reports.parts.settings import Settings
from reports.parts.verdict import Verdict
from reports.ruler import FLAG


@dataclass
class ReportPage(Verdict, Course, Settings, Printed):
    """What the report page shows for one launch. Sections are worked out when the template asks for them."""

    @cached_property
    def sections(self) -> list[tuple[str, str, str]]:
        """The side list: (anchor, name, count)."""
        if not self.has_launch:
            return [("verdict", "Verdict", ""), ("log", "Log", words.tokens(self.line_count))]
        found = [
            ("verdict", "Verdict", ""),
            ("budget", "Memory budget", ""),
            ("findings", "Findings", str(len(self.findings))),
            ("whatif", "What if", ""),
            ("waterfall", "Waterfall and time", ""),
            ("serving", "Serving", ""),
            ("config", "Configuration", str(self.given_count) if self.given_count else ""),
            ("exceptions", "Exceptions", str(self.exception_count)),
            ("log", "Log", words.tokens(self.line_count)),
        ]
        hidden = set() if self.what_if else {"whatif"}
        return [entry for entry in found if entry[0] not in hidden]

    @cached_property
    def what_if(self) -> bool:
        """True when the budget can be redone for other settings."""
        redone = dig(self.launch, "kv_cache", "budget") or {}
        return redone.get("opening_gib") is not None and redone.get("after_weights_gib") is not None

    @cached_property
    def fractions_named(self) -> set[str]:
        """Fractions that a sentence of this launch may name, as they are spelled."""
        known = dig(self.launch, "kv_cache", "fractions") or {}
        values = [value for value in known.values() if isinstance(value, float) and value < 1]
        for finding in listed(self.launch, "findings"):
            for remedy in listed(finding, "remedies"):
                if remedy.get("flag") == FLAG:
                    values += [float(v) for v in (remedy.get("from"), remedy.get("to")) if _is_fraction(v)]
        return {spelled for value in values for spelled in (words.fraction(value), f"{value:g}", f"{value:.2f}")}


def _is_fraction(value: Any) -> bool:
    try:
        return 0 < float(value) < 1
    except (TypeError, ValueError):
        return False
