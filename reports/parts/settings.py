"""The arguments of a launch, and the machine it ran on where a table beside the log shows it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from reports import words
from reports.commands import full_command
from reports.configuration import Argument, argument_groups
from reports.document import dig, listed
from reports.parts.launch import ShownLaunch


@dataclass
class Settings(ShownLaunch):
    """What the configuration's panel shows."""

    @cached_property
    def arguments(self) -> list[tuple[str, str, list[Argument]]]:
        return argument_groups(self.launch)

    @cached_property
    def given_count(self) -> int:
        return next((len(found) for key, _, found in self.arguments if key == "given"), 0)

    @cached_property
    def command(self) -> str:
        return full_command(dig(self.launch, "arguments") or {})

    @cached_property
    def machine(self) -> dict[str, Any] | None:
        """Driver, cards, processes and libraries as vendors' tools printed them; None without such a table."""
        found = dig(self.launch, "machine")
        return found if isinstance(found, dict) else None

    @cached_property
    def machine_words(self) -> str:
        """As "driver 550.54.15, runtime 12.4, 2 cards"."""
        told = self.machine or {}
        parts = [f"{name} {told[key]}" for name, key in (("driver", "driver"), ("runtime", "runtime")) if told.get(key)]
        cards = len(listed(told, "cards"))
        return ", ".join([*parts, *([words.plural(cards, "card")] if cards else [])])

    @cached_property
    def changed_since(self) -> list[str]:
        """Arguments that differ from the launch before."""
        if self.before is None:
            return []
        now, then = dig(self.launch, "arguments") or {}, dig(self.before, "arguments") or {}
        return [name for name in now if name in then and dig(now, name, "value") != dig(then, name, "value")]
