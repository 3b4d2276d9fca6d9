"""The arguments of a launch, from SGLang's own line and from a pasted command; read without evaluating anything."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Value = None | bool | int | float | str | list[object] | dict[str, object]
Origin = Literal["given", "default", "adjusted"]

MAX_ARGUMENTS = 2_000  # SGLang has some 400; a line with more is not its own
_CLOSES = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Argument:
    """One server argument: its effective value, where it comes from, and the (file, line) pairs that say so."""

    value: Value
    origin: Origin
    lines: tuple[tuple[int, int], ...] = ()


# Short and former spellings of a flag, to the field name of the server_args line.
_ALIASES = {
    "model": "model_path",
    "tp": "tp_size",
    "tensor_parallel_size": "tp_size",
    "tensor_parallel": "tp_size",
    "dp": "dp_size",
    "data_parallel_size": "dp_size",
    "pp": "pp_size",
    "pipeline_parallel_size": "pp_size",
    "ep": "ep_size",
    "expert_parallel_size": "ep_size",
    "dcp": "dcp_size",
    "ctx_length": "context_length",
    "max_model_len": "context_length",
    "cuda_graph_max_bs_decode": "cuda_graph_max_bs",
    "max_num_reqs": "max_num_reqs",
    "mem_fraction": "mem_fraction_static",
    "dist_init_addr": "dist_init_addr",
    "speculative_algo": "speculative_algorithm",
    "quant": "quantization",
}


def read_arguments(body: str) -> dict[str, Value]:
    """The items of `ServerArgs(k=v, …)` or `{'k': v, …}`, given what follows the opening bracket; a cut tail is kept.

    A value that is no plain literal (an enum, a dataclass, a class) stays its text. Never evaluates.
    """
    found: dict[str, Value] = {}
    for item in _items(body):
        named = re.match(r"\s*(?:(\w+)\s*=|(['\"])(\w+)\2\s*:)\s*(.*)", item, re.S)
        if named:
            found[named[1] or named[3]] = read_value(named[4].strip())
        if len(found) >= MAX_ARGUMENTS:
            break
    return found


def _items(body: str) -> Iterator[str]:
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
    yield body[start:]


def read_value(text: str) -> Value:
    """One printed value: a Python literal where it is one, else its text."""
    if text in ("None", "null", ""):
        return None
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
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if abs(value) < 1 << 63 else str(value)
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(item) for item in value), key=repr)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return str(value)


def read_command(command: str) -> dict[str, Value]:
    """The flags of a launch command by field name; a flag without a value is True. Values are typed as they look."""
    try:
        words = shlex.split(command, comments=False)
    except ValueError:
        words = command.split()
    found: dict[str, Value] = {}
    name: str | None = None
    for word in words:
        if word.startswith("--") and len(word) > 2:
            flag, equals, value = word[2:].partition("=")
            name = field_name(flag)
            found[name] = _typed(value) if equals else True
            name = None if equals else name
        elif word in (">", ">>", "|", "2>&1", "&", "&&", ";", "||"):
            break
        elif name is not None:
            now = found.get(name)
            typed = _typed(word)
            found[name] = typed if now is True else [*now, typed] if isinstance(now, list) else [now, typed]
        if len(found) >= MAX_ARGUMENTS:
            break
    return found


def field_name(flag: str) -> str:
    """The server_args field of a flag."""
    name = flag.strip().lstrip("-").replace("-", "_")
    return _ALIASES.get(name, name)


def _typed(word: str) -> Value:
    if re.fullmatch(r"-?\d{1,18}", word):
        return int(word)
    if re.fullmatch(r"-?\d*\.\d+|-?\d+\.\d*", word) and len(word) < 30:
        return float(word)
    return {"true": True, "false": False, "none": None}.get(word.lower(), word)
