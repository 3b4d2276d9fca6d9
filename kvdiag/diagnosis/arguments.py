"""The arguments of a launch, from the line SGLang prints of them; read without evaluating anything."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kvdiag.diagnosis.decoding import without_marks

Value = None | bool | int | float | str | list[object] | dict[str, object]
Origin = Literal["given", "default", "adjusted"]

MAX_ARGUMENTS = 2_000  # SGLang has some 400; a line with more is not its own
# What most values are: read without the parser of Python's literals.
_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,17})", re.ASCII)
_SIMPLE = re.compile(r"'[^'\\\n\r\0]*'|\"[^\"\\\n\r\0]*\"")
_CLOSES = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Argument:
    """One server argument: its effective value, where it comes from, and the (file, line) pairs that say so."""

    value: Value
    origin: Origin
    lines: tuple[tuple[int, int], ...] = ()


def read_arguments(body: str, is_cut: bool = False) -> dict[str, Value]:
    """The items of `ServerArgs(k=v, …)` or `{'k': v, …}`, given what follows the opening bracket; a cut tail is kept.

    A value that is no plain literal (an enum, a dataclass, a class) stays its text. Never evaluates.

    is_cut  where the set is not closed, its last item may have gone on, and is not taken
    """
    found: dict[str, Value] = {}
    for item in _items(body, is_cut):
        named = re.match(r"\s*(?:(\w+)\s*=|(['\"])(\w+)\2\s*:)\s*(.*)", item, re.S)
        if named:
            found[named[1] or named[3]] = read_value(named[4].strip())
        if len(found) >= MAX_ARGUMENTS:
            break
    return found


def _items(body: str, is_cut: bool) -> Iterator[str]:
    """The top-level parts between commas, up to the bracket that closes the set."""
    start, quote, stack, skip = 0, "", [], False
    for at, char in enumerate(body):
        if skip:
            skip = False
        elif quote:
            if char == "\\":
                skip = True
            elif char == quote:
                quote = ""
        elif char in "'\"":
            quote = char
        elif char in _CLOSES:
            stack.append(_CLOSES[char])
        elif char in ")]}":
            if not stack:
                yield body[start:at]
                return
            if char == stack[-1]:
                stack.pop()
        elif char == "," and not stack:
            yield body[start:at]
            start = at + 1
    if not is_cut:
        yield body[start:]


def read_value(text: str) -> Value:
    """One printed value: a Python literal where it is one, else its text."""
    if text in ("None", "null", ""):
        return None
    if _WHOLE.fullmatch(text):
        return int(text)
    if _SIMPLE.fullmatch(text):
        return text[1:-1]
    if text in ("True", "true"):
        return True
    if text in ("False", "false"):
        return False
    if len(text) < 20_000:
        try:
            return _plain(ast.literal_eval(text))
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            pass
    if text[:1] in "'\"":
        return text[1:].removesuffix(text[0])
    return text


def _plain(value: object) -> Value:
    """A literal as the document can hold it: tuples and sets become lists, bytes become text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return without_marks(value)  # which escapes spell
    if isinstance(value, int):
        return value if abs(value) < 1 << 63 else str(value)
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(item) for item in value), key=repr)
    if isinstance(value, dict):
        return {without_marks(str(key)): _plain(item) for key, item in value.items()}
    return str(value)
