"""The thresholds of kvdiag's rules that a team holds otherwise.

Plain Python: the process that reads a log imports it, and has no database.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvdiag.diagnosis.rules.thresholds import Thresholds


def read(given: Mapping[str, str]) -> dict[str, float | int]:
    """The thresholds that differ from kvdiag's own, by name, from what was typed; empty ones are kvdiag's.

    Raises ValueError with a sentence on a value that cannot be meant.
    """
    held = Thresholds.read({name: value for name, value in given.items() if value.strip()})
    return {one.name: one.value for one in held.overridden()}


def of(settings: Mapping[str, Any]) -> Thresholds | None:
    """The thresholds among a team's settings; None for kvdiag's own.

    What a newer kvdiag does not know or take any more is left out, so that logs can be read nevertheless.
    """
    kept: dict[str, Any] = {}
    for name, value in (settings.get("rule_thresholds") or {}).items():
        try:
            Thresholds.read({**kept, name: value})
        except ValueError:
            continue
        kept[name] = value
    return Thresholds.read(kept) if kept else None
