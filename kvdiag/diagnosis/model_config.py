"""A model's config.json among the files of an upload: its shape goes before the table of public models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kvdiag.diagnosis.events.model_config import ConfigOfMixedLayers, ConfigValue
from kvdiag.diagnosis.events.pattern import Event

_NEEDED = ("num_hidden_layers", "num_attention_heads")


class ModelConfigs:
    """Takes the lines of a config.json out of the events, and tells its figures afterwards."""

    def __init__(self) -> None:
        self._values: dict[int, dict[str, object]] = {}
        self._mixed: set[int] = set()

    def take(self, events: Iterable[Event]) -> Iterator[Event]:
        """The other events, in their order."""
        for event in events:
            if isinstance(event, ConfigValue):
                if event.key and event.value is not None:  # the first counts: a tower's own config stands behind
                    self._values.setdefault(event.line.file, {}).setdefault(event.key, event.value)
            elif isinstance(event, ConfigOfMixedLayers):
                self._mixed.add(event.line.file)
            else:
                yield event

    @property
    def config(self) -> dict[str, object] | None:
        """The one config whose layers are all alike; None where there is none, or more than one."""
        found = [
            values
            for file, values in self._values.items()
            if file not in self._mixed and all(key in values for key in _NEEDED)
        ]
        return found[0] if len(found) == 1 else None
