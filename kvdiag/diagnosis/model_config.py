"""A model's config.json among the files of an upload: its shape goes before the table of public models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kvdiag.diagnosis.events.model_config import (
    ConfigLayer,
    ConfigLayers,
    ConfigOfMixedLayers,
    ConfigSection,
    ConfigText,
    ConfigValue,
)
from kvdiag.diagnosis.events.pattern import Event
from kvdiag.diagnosis.lines import LogLine

_NEEDED = ("num_hidden_layers", "num_attention_heads")
_MODEL = ("text_config", "llm_config", "language_config", "thinker_config")
"""Sections that describe the language model; the others are towers beside it."""
_LONGEST = 100_000  # characters of a config on one line


@dataclass
class _Config:
    """One file's config as far as it was read: values at the top, and those of each section.

    section  the one that is open, with how far its line is indented
    """

    top: dict[str, object] = field(default_factory=dict)
    sections: dict[str, dict[str, object]] = field(default_factory=dict)
    section: tuple[str, int] | None = None
    is_mixed: bool = False

    def values_at(self, line: LogLine) -> dict[str, object]:
        """Where a line's value belongs: to the open section while it is indented further than the section's line."""
        if self.section is not None and _indent(line) <= self.section[1]:
            self.section = None
        return self.top if self.section is None else self.sections.setdefault(self.section[0], {})

    def open(self, name: str, line: LogLine) -> None:
        """Begin a section; one within another belongs to that one, and a tower's own stays the tower's."""
        self.values_at(line)
        if self.section is None or self.section[0] in _MODEL:
            self.section = (name, _indent(line))

    def add_layers(self, kinds: list[str], line: LogLine) -> None:
        layers = self.values_at(line).setdefault("layer_types", [])
        if isinstance(layers, list):
            layers.extend(kinds)

    @property
    def model(self) -> dict[str, object]:
        """The language model's values."""
        for name in _MODEL:
            if all(key in self.sections.get(name, {}) for key in _NEEDED):
                return self.sections[name]
        return self.top


class ModelConfigs:
    """Takes the lines of a config.json out of the events, and tells its figures afterwards."""

    def __init__(self) -> None:
        self._configs: dict[int, _Config] = {}

    def take(self, events: Iterable[Event]) -> Iterator[Event]:
        """The other events, in their order."""
        for event in events:
            if not self._take(event):
                yield event

    def _take(self, event: Event) -> bool:
        """Whether an event is a config's."""
        known = ConfigValue | ConfigSection | ConfigLayers | ConfigLayer | ConfigOfMixedLayers | ConfigText
        if not isinstance(event, known):
            return False
        line = event.line
        found = self._configs.setdefault(line.file, _Config())
        match event:
            case ConfigValue(key=str(key), value=int(value)):
                found.values_at(line).setdefault(key, value)  # the first counts
            case ConfigSection(name=str(name)):
                found.open(name, line)
            case ConfigLayers():
                found.add_layers(re.findall(r"\w+", event.kinds or ""), line)
            case ConfigLayer(kind=str(kind)):
                found.add_layers([kind], line)
            case ConfigOfMixedLayers():
                found.is_mixed = True
            case ConfigText(body=str(body)):
                found.top.update(_parsed(body))
        return True

    @property
    def config(self) -> dict[str, object] | None:
        """The one config that tells a shape; None where there is none, or more than one."""
        found = [
            one.model for one in self._configs.values() if not one.is_mixed and all(key in one.model for key in _NEEDED)
        ]
        return found[0] if len(found) == 1 else None


def _parsed(body: str) -> dict[str, object]:
    """A config on one line; its language model's part where it has towers. {} where it is no JSON object."""
    if len(body) > _LONGEST:
        return {}
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    part = next((found[name] for name in _MODEL if isinstance(found.get(name), dict)), found)
    return {str(key): value for key, value in part.items()}


def _indent(line: LogLine) -> int:
    return len(line.shown) - len(line.shown.lstrip())
