"""Reading a stored report document, whatever it lacks.

A document is `kvdiag.report/1` as JSON: any figure may be null, and older engines lack keys that newer ones write.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Document = dict[str, Any]
Launch = dict[str, Any]


def dig(value: Any, *keys: str | int) -> Any:
    """The value under a path of keys, None where any part of the path is missing."""
    for key in keys:
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and -len(value) <= key < len(value):
            value = value[key]
        else:
            return None
    return value


def listed(value: Any, *keys: str | int) -> list[Any]:
    """The list under a path of keys, empty where there is none."""
    found = dig(value, *keys)
    return found if isinstance(found, list) else []


@dataclass(frozen=True, slots=True, order=True)
class LineRef:
    """A physical line of one uploaded file.

    file    position of the file in the upload
    line    number from 1, as `sed -n Np` counts
    several True when the upload has more than one file, so that the file must be named
    """

    file: int
    line: int
    several: bool = False

    @property
    def anchor(self) -> str:
        """The fragment that leads to this line in the log viewer."""
        return f"F{self.file + 1}L{self.line}" if self.several else f"L{self.line}"

    @property
    def label(self) -> str:
        """What the link says."""
        return f"F{self.file + 1} L{self.line}" if self.several else f"L{self.line}"


def line_ref(value: Any) -> LineRef | None:
    """A line reference of either form: a bare number, or {"file", "line"} with several files."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return LineRef(0, value)
    if isinstance(value, dict) and isinstance(value.get("line"), int):
        return LineRef(int(value.get("file") or 0), value["line"], several=True)
    return None


def line_refs(values: Any) -> list[LineRef]:
    """The references of a list (or of one bare reference), each once, in their order."""
    if not isinstance(values, list):
        values = [values]
    return list(dict.fromkeys(ref for ref in map(line_ref, values) if ref))


def launch_number(asked: str) -> int | None:
    """The number of a launch in an address or a form; None for none, and for what is no number."""
    return int(asked) if asked.isdecimal() and len(asked) < 6 else None


def launches(document: Document) -> list[Launch]:
    """The launches of a document, in the order they started."""
    return [launch for launch in listed(document, "launches") if isinstance(launch, dict)]
