"""A remedy as a change of the launch command, quoted for the shell.

Values come from strangers' logs: whatever is copied from here is one word to the shell, or is not offered at all.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Any

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


def command_diff(remedy: dict[str, Any]) -> list[DiffLine]:
    """The lines of a remedy's change. Empty for what is no flag, such as an upgrade or a container's memory."""
    command = remedy.get("command")
    if isinstance(command, dict):
        old = _by_flag(command.get("from"))
        new = _by_flag(command.get("to"))
    else:
        flag = str(remedy.get("flag") or "")
        if not _FLAG.fullmatch(flag) and not _VARIABLE.fullmatch(flag):
            return []
        if remedy.get("to") in (None, "") and remedy.get("direction") in ("raise", "lower"):
            return []  # a direction without a value is words, not a command
        old = _spelled(flag, remedy.get("from")) if remedy.get("from") not in (None, "") else []
        new = _spelled(flag, remedy.get("to"))
        if remedy.get("direction") == "remove":
            new = []
    if not old and not new:
        return []
    variables = [parts for parts in (*old, *new) if _VARIABLE.fullmatch(str(parts[0]).split("=")[0])]
    program = CONTAINER if all(parts[0] in _CONTAINERS for parts in (*old, *new)) else LAUNCHER
    lines = [] if variables else [DiffLine("ctx", f"{program} \\")]
    kept = [parts for parts in old if parts in new]
    for kind, group in (("del", old), ("add", new)):
        for parts in group:
            if parts in kept:
                continue
            text = _assignment(parts) if parts in variables else f"{quoted(parts)} \\"
            lines.append(DiffLine(kind, text))
    return lines


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
    given = [
        (name, argument.get("value"))
        for name, argument in arguments.items()
        if isinstance(argument, dict) and argument.get("origin") == "given" and "mask" not in str(argument.get("value"))
    ]
    pieces = []
    for name, value in given:
        flag = "--" + str(name).replace("_", "-")
        if not _FLAG.fullmatch(flag) or value is None or value is False:
            continue
        pieces.append(flag if value is True else f"{flag} {_word(value)}")
    return " \\\n  ".join([LAUNCHER, *pieces]) if pieces else ""
