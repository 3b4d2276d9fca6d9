"""The launch command with changed flags; every value quoted for the shell, since it comes from a stranger's log."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from kvdiag.diagnosis.defaults import defaults_of
from kvdiag.diagnosis.ledger.sizing.inputs import SizingInputs
from kvdiag.diagnosis.ledger.what_if.answer import FlagChange
from kvdiag.diagnosis.ledger.what_if.change import Change
from kvdiag.diagnosis.release import ReleaseRange

_PROGRAM = "python -m sglang.launch_server"
_IDENTITY = (
    "model_path",
    "tokenizer_path",
    "served_model_name",
    "trust_remote_code",
    "host",
    "port",
    "dtype",
    "quantization",
    "reasoning_parser",
    "tool_call_parser",
    "chat_template",
)
_SPECULATIVE = (
    "speculative_algorithm",
    "speculative_draft_model_path",
    "speculative_num_steps",
    "speculative_eagle_topk",
    "speculative_num_draft_tokens",
)


def flag_changes(
    change: Change, inputs: SizingInputs, fraction: float | None, arguments: Mapping[str, Any]
) -> tuple[FlagChange, ...]:
    """The flags a change touches, in the launch's own spelling; a flag that keeps its value is no change."""
    graph = "cuda_graph_max_bs_decode" if inputs.release.reaches("0.5.14") is True else "cuda_graph_max_bs"
    wanted: list[tuple[str, Any]] = [
        ("mem_fraction_static", fraction if fraction is not None else change.mem_fraction_static),
        ("kv_cache_dtype", change.kv_cache_dtype),
        ("tp_size", change.tp_size),
        ("dp_size", change.dp_attention),
        ("enable_dp_attention", True if change.dp_attention and change.dp_attention > 1 else None),
        ("max_running_requests", change.max_running_requests),
        ("context_length", change.context_length),
        ("swa_full_tokens_ratio", change.swa_full_tokens_ratio),
        ("mamba_full_memory_ratio", change.mamba_full_memory_ratio),
        ("max_mamba_cache_size", change.max_mamba_cache_size),
        (graph, change.cuda_graph_max_bs),
        ("enable_hierarchical_cache", True if change.hicache_ratio or change.hicache_size_gb else None),
        ("hicache_ratio", change.hicache_ratio),
        ("hicache_size", change.hicache_size_gb),
    ]
    changes = []
    for name, value in wanted:
        before = value_of(arguments, name)
        if value is not None and not _same(before, value):
            changes.append(FlagChange(flag(name), shown(before), shown(value)))
    if moves_own_fraction(change, inputs) and fraction is None:
        changes.append(FlagChange("--mem-fraction-static", None, shown(inputs.fraction)))
    if change.max_total_tokens is not None:
        before, after = value_of(arguments, "max_total_tokens"), change.max_total_tokens or None
        if not _same(before, after):
            changes.append(FlagChange("--max-total-tokens", shown(before), shown(after)))
    if change.draft is False and inputs.draft is not None:
        for name in _SPECULATIVE:
            before = value_of(arguments, name)
            if before is not None:
                changes.append(FlagChange(flag(name), shown(before), None))
    return tuple(changes)


def moves_own_fraction(change: Change, inputs: SizingInputs) -> bool:
    """Whether a change would move a fraction that SGLang chose itself, by ranks, draft or graphs; it is then pinned."""
    own = inputs.fraction is not None and (inputs.fraction_given is False or inputs.fraction_basis is not None)
    ranks = change.tp_size not in (None, inputs.tp) or change.dp_attention is not None
    return own and (ranks or change.card is not None or change.draft is False or change.cuda_graph_max_bs is not None)


def command_line(
    arguments: Mapping[str, Any], changes: Sequence[FlagChange], releases: ReleaseRange | None = None
) -> str | None:
    """The given flags with the changes in place; None when the log does not show which flags were given.

    A log with the command shows them. Without it, what SGLang resolved looks given too, so only flags that steer
    memory or name the model are repeated.
    """
    given = {
        name: value_of(arguments, name) for name in arguments if origin_of(arguments, name) in ("given", "adjusted")
    }
    twice = {name for name in given if len(_lines(arguments, name)) != 1}  # in the command and in SGLang's own line
    if any(origin_of(arguments, name) == "given" for name in twice):
        given = {name: value for name, value in given.items() if name in twice}
    else:
        known = releases or ReleaseRange()
        given = {
            name: value
            for name, value in given.items()
            if origin_of(arguments, name) == "given"
            and (name in _IDENTITY or defaults_of(name, known) is not None)
            and not isinstance(value, list | tuple | dict)
        }
    if not given:
        return None
    by_flag = {change.flag: change for change in changes}
    words = []
    for name, value in given.items():
        changed = by_flag.pop(flag(name), None)
        words.extend(_words(flag(name), value if changed is None else changed.after))
    for change in by_flag.values():
        if change.after is not None:
            words.extend(_words(change.flag, change.after))
    return " ".join([_PROGRAM, *words])


def _lines(arguments: Mapping[str, Any], name: str) -> tuple[Any, ...]:
    """The lines that say an argument's value: the command's and SGLang's own, in either form of the launch."""
    found = arguments.get(name)
    lines = found.get("lines") if isinstance(found, Mapping) else getattr(found, "lines", None)
    return tuple(lines) if isinstance(lines, list | tuple) else ()


def flag(name: str) -> str:
    """The command-line spelling of a field."""
    return "--" + name.replace("_", "-")


def shown(value: Any) -> str | None:
    """A value as one writes it behind a flag; "" for a switch that is on, None for one that is off or unset."""
    if value is None or value is False:
        return None
    if value is True:
        return ""
    if isinstance(value, float):
        return f"{value:g}" if abs(value) < 1e6 else repr(value)
    return str(value)


def value_of(arguments: Mapping[str, Any], name: str) -> Any:
    """An argument's value, from the document's form or the engine's."""
    found = arguments.get(name)
    if isinstance(found, Mapping):
        return found.get("value")
    return getattr(found, "value", found)


def origin_of(arguments: Mapping[str, Any], name: str) -> str | None:
    """Where an argument comes from: given, default or adjusted."""
    found = arguments.get(name)
    origin = found.get("origin") if isinstance(found, Mapping) else getattr(found, "origin", None)
    return origin if isinstance(origin, str) else None


def _same(before: Any, after: Any) -> bool:
    if isinstance(before, int | float) and isinstance(after, int | float) and not isinstance(before, bool):
        return abs(before - after) < 1e-9
    return bool(before == after)


def _words(name: str, value: Any) -> list[str]:
    if value is None or value is False:
        return []
    if value is True or value == "":
        return [shlex.quote(name)]
    if isinstance(value, list | tuple):
        return [shlex.quote(name), *(shlex.quote(shown(item) or "") for item in value)]
    return [shlex.quote(name), shlex.quote(shown(value) or "")]
