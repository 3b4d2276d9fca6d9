"""The findings, what was cleared, the checks, and what else could be turned."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from reports.document import dig, listed
from reports.finding_cards import ShownFinding, shown_findings
from reports.levers import ShownLever, levers_of
from reports.parts.launch import ShownLaunch


@dataclass
class Causes(ShownLaunch):
    """What the findings' section shows."""

    @cached_property
    def findings(self) -> list[ShownFinding]:
        return shown_findings(self.launch)

    @cached_property
    def cleared(self) -> list[dict[str, Any]]:
        found = [entry for entry in listed(self.launch, "cleared") if isinstance(entry, dict)]
        asked = dig(self.launch, "kv_cache", "requests") or {}
        if asked.get("state") == "cleared" and not any("max_running_requests" in str(e.get("claim")) for e in found):
            claim = f"max_running_requests={asked.get('reported')} does not limit the KV cache."
            found.append({"claim": claim, "because": str(asked.get("sentence") or ""), "lines": []})
        return found

    @cached_property
    def passed(self) -> list[dict[str, Any]]:
        return listed(self.launch, "checks", "passed")

    @cached_property
    def not_applicable(self) -> list[dict[str, Any]]:
        return listed(self.launch, "checks", "not_applicable")

    @cached_property
    def not_run(self) -> list[dict[str, Any]]:
        return listed(self.launch, "not_run")

    @cached_property
    def levers(self) -> list[ShownLever]:
        return levers_of(self.launch)
