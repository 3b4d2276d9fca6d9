"""Server arguments by where they come from: given, changed by SGLang, default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reports.document import Launch, dig


@dataclass(frozen=True, slots=True)
class Argument:
    """A server argument: its value, and the value before SGLang changed it where the log tells."""

    name: str
    value: str
    before: str = ""


def argument_groups(launch: Launch) -> list[tuple[str, str, list[Argument]]]:
    """The arguments of a launch as (key, words, arguments); a group without any is left out."""
    groups: dict[str, list[Argument]] = {"given": [], "adjusted": [], "default": []}
    for name, argument in (dig(launch, "arguments") or {}).items():
        if not isinstance(argument, dict):
            continue
        before = spelled(argument["from"]) if "from" in argument else ""
        shown = Argument(str(name), spelled(argument.get("value")), before)
        groups.setdefault(str(argument.get("origin") or "default"), []).append(shown)
    names = {"given": "Set by you", "adjusted": "Changed by the engine", "default": "Default"}
    return [(key, names.get(key, key), found) for key, found in groups.items() if found]


def spelled(value: Any) -> str:
    """An argument's value as Python prints it, so that it can be found in the log."""
    return value if isinstance(value, str) else repr(value)
