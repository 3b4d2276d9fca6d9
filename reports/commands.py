"""A remedy as a change of the launch command, quoted for the shell.

Values come from strangers' logs: whatever is copied from here is one word to the shell, or is not offered at all.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Any

from kvdiag.diagnosis.commands import field_name

LAUNCHER = "python -m sglang.launch_server"
CONTAINER = "docker run"
_CONTAINERS = ("--shm-size", "--ipc")
_FLAG = re.compile(r"--[a-zA-Z0-9][a-zA-Z0-9_-]*")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of a command diff: ctx, del or add."""

    kind: str
    text: str


def quoted(words: list[Any]) -> str:
    """Arguments as one shell-safe string; control characters are dropped, as no flag takes them."""
    return " ".join(_word(word) for word in words)


def _word(value: Any) -> str:
    text = "".join(letter for letter in str(value) if letter.isprintable())
    return text if _FLAG.fullmatch(text) else shlex.quote(text)


@dataclass(frozen=True, slots=True)
class _Change:
    """What a remedy takes from a command and what it puts there, each flag with its values."""

    taken: list[list[Any]]
    given: list[list[Any]]

    @property
    def both(self) -> list[list[Any]]:
        return [*self.taken, *self.given]


def _change_of(remedy: dict[str, Any]) -> _Change:
    command = remedy.get("command")
    if isinstance(command, dict):
        old = _by_flag(command.get("from"))
        new = _by_flag(command.get("to"))
    else:
        flag = str(remedy.get("flag") or "")
        if not _FLAG.fullmatch(flag) and not _VARIABLE.fullmatch(flag):
            return _Change([], [])
        if remedy.get("to") in (None, "") and remedy.get("direction") in ("raise", "lower"):
            return _Change([], [])  # a direction without a value is words, not a command
        old = _spelled(flag, remedy.get("from")) if remedy.get("from") not in (None, "") else []
        new = _spelled(flag, remedy.get("to"))
        if remedy.get("direction") == "remove":
            new = []
    return _Change([parts for parts in old if parts not in new], [parts for parts in new if parts not in old])


def command_diff(remedy: dict[str, Any]) -> list[DiffLine]:
    """The lines of a remedy's change. Empty for what is no flag, such as an upgrade or a container's memory."""
    change = _change_of(remedy)
    lines = [DiffLine("ctx", CONTAINER)] if change.both and _is_container(change) else []
    for kind, group in (("del", change.taken), ("add", change.given)):
        lines += [DiffLine(kind, _assignment(parts) if _is_variable(parts) else quoted(parts)) for parts in group]
    return lines


def command_to_copy(remedies: list[dict[str, Any]], arguments: dict[str, Any]) -> str:
    """What is copied of changes: the whole launch command with them, ready to run, where the log shows all of it; else
    what they put into a command, on one line. Empty when they only take something from a command that is not known.
    """
    changes = [change for change in map(_change_of, remedies) if change.both]
    exports = [_assignment(parts) for change in changes for parts in change.given if _is_variable(parts)]
    flags = [change for change in changes if not all(map(_is_variable, change.both))]
    whole = ""
    if flags and not any(map(_is_container, flags)) and _is_whole(arguments):
        whole = full_command(_changed(arguments, flags))
    put = [quoted(parts) for change in flags for parts in change.given if not _is_variable(parts)]
    return "\n".join([*exports, *([whole or " ".join(put)] if whole or put else [])])


def _is_variable(parts: list[Any]) -> bool:
    return bool(_VARIABLE.fullmatch(str(parts[0]).split("=")[0]))


def _is_container(change: _Change) -> bool:
    return all(parts[0] in _CONTAINERS for parts in change.both)


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    """What was given by hand, by name."""
    given = {name: one for name, one in arguments.items() if isinstance(one, dict) and one.get("origin") == "given"}
    return {name: one.get("value") for name, one in given.items()}


def _is_whole(arguments: dict[str, Any]) -> bool:
    """True when the command that was given can be run again: it names the model, and no secret is missing from it."""
    given = _given(arguments)
    return bool(given.get("model_path")) and not any("mask" in str(value) for value in given.values())


def _changed(arguments: dict[str, Any], changes: list[_Change]) -> dict[str, Any]:
    """The arguments after some changes."""
    after = dict(arguments)
    for change in changes:
        put = {parts[0] for parts in change.given}
        for parts in change.taken:
            if parts[0] not in put:  # what gets another value keeps its place
                after.pop(field_name(str(parts[0])), None)
        for parts in change.given:
            if not _is_variable(parts):
                values = parts[1:]
                value = True if not values else values[0] if len(values) == 1 else values
                after[field_name(str(parts[0]))] = {"value": value, "origin": "given"}
    return after


def _spelled(flag: str, value: Any) -> list[list[Any]]:
    """A flag as it stands in a command: a switch alone when it is on, and not at all when it is off."""
    if value in (None, "") or (flag.startswith("--") and str(value) == "True"):
        return [[flag]]
    return [] if flag.startswith("--") and str(value) in ("False", "None") else [[flag, value]]


def _assignment(parts: list[Any]) -> str:
    name, _, value = str(parts[0]).partition("=")
    value = str(parts[1]) if len(parts) > 1 else value
    return f"export {name}={shlex.quote(value)}"


def _by_flag(arguments: Any) -> list[list[Any]]:
    """["--tp", "8", "--x"] → [["--tp", "8"], ["--x"]]."""
    if not isinstance(arguments, list):
        arguments = shlex.split(arguments) if isinstance(arguments, str) else []
    groups: list[list[Any]] = []
    for argument in arguments:
        if groups and not str(argument).startswith("--") and str(groups[-1][0]).startswith("--"):
            groups[-1].append(argument)
        else:
            groups.append([argument])
    return groups


def full_command(arguments: dict[str, Any]) -> str:
    """The launch command of what was given, a flag a line. Empty when nothing is known to be given."""
    given = [(name, value) for name, value in _given(arguments).items() if "mask" not in str(value)]
    pieces = []
    for name, value in given:
        flag = "--" + str(name).replace("_", "-")
        if not _FLAG.fullmatch(flag) or value is None or value is False:
            continue
        values = value if isinstance(value, list) else [value]
        pieces.append(flag if value is True else quoted([flag, *values]))
    return " \\\n  ".join([LAUNCHER, *pieces]) if pieces else ""
