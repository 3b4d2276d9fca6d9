"""Where each argument of a launch comes from: given by the user, a default, or adjusted by SGLang.

A command in the log settles it: what it names is given, unless SGLang prints another value (then it is adjusted).
Without a command a value is compared with the defaults of the releases that the log may come from:

- it is one of them: default
- the default is None and SGLang computes the field: adjusted, as nothing in the log tells a computed value from a given
  one; but a fraction with at most two decimals is given in the releases whose rule yields three
- the default is a constant, and SGLang is known to change it under the other arguments: adjusted
- else it is given
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kvdiag.diagnosis.arguments import Argument, Origin, Value, read_arguments
from kvdiag.diagnosis.commands import block_of_flags, command_text, read_command
from kvdiag.diagnosis.defaults import COMPUTED, defaults_of, is_unset, names_of
from kvdiag.diagnosis.events.server_args import ArgumentAdjusted, FlagLine, ServerArgsFragment
from kvdiag.diagnosis.release import ReleaseRange

if TYPE_CHECKING:
    from kvdiag.diagnosis.launches import Launch

Place = tuple[int, int]

# Fractions that the rule by tensor-parallel size gives, up to 0.4.6.
_BY_TP = (0.79, 0.81, 0.82, 0.83, 0.85, 0.87, 0.88)


@dataclass
class Sources:
    """What a launch's log says of its arguments, with the lines.

    given    of the command
    printed  of SGLang's own line, or of a piece of it
    """

    given: dict[str, Value] = field(default_factory=dict)
    given_at: tuple[Place, ...] = ()
    printed: dict[str, Value] = field(default_factory=dict)
    printed_at: tuple[Place, ...] = ()

    def name_given(self, name: str) -> str | None:
        """Under which of its names the command gives a setting."""
        return next((n for n in names_of(name) if n in self.given), None)


def read_sources(launch: Launch, alone: bool = True) -> Sources:
    """The command and the printed arguments of a launch. A command of another launch is left aside.

    alone  whether no other launch is in the upload: flags without a command's head are taken only then
    """
    found = Sources()
    for args in launch.server_args[:1]:
        found.printed = read_arguments(args.body or "", is_cut=True)
        found.printed_at = (args.line.place,)
    if not found.printed:
        for part in launch.each(ServerArgsFragment):
            found.printed.update(read_arguments(part.body or "", part.line.is_cut))
            found.printed_at = (*found.printed_at, part.line.place)
    for command in launch.commands:
        flags = read_command(*command_text(command))
        if flags and not _of_another_launch(flags, found.printed):
            found.given.update(flags)
            found.given_at = (command.line.place,)
    if alone and not found.printed and not launch.commands:
        block = launch.each(FlagLine)
        flags = read_command(block_of_flags(block) or "")
        if flags:
            found.given.update(flags)
            found.given_at = (block[0].line.place,)
    return found


def _of_another_launch(given: Mapping[str, Value], printed: Mapping[str, Value]) -> bool:
    """Whether a command contradicts what was printed in a way that SGLang's own adjustments never do."""
    fraction, used = given.get("mem_fraction_static"), printed.get("mem_fraction_static")
    if isinstance(fraction, int | float) and isinstance(used, int | float) and used > fraction + 1e-9:
        return True
    model, loaded = given.get("model_path"), printed.get("model_path")
    if isinstance(model, str) and isinstance(loaded, str):
        return model.rstrip("/").rsplit("/", 1)[-1].lower() != loaded.rstrip("/").rsplit("/", 1)[-1].lower() and not (
            "snapshots" in loaded or "$" in model
        )
    return False


def collect_arguments(launch: Launch, sources: Sources, releases: ReleaseRange) -> dict[str, Argument]:
    """All arguments with where each comes from."""
    found: dict[str, Argument] = {}
    alike: dict[tuple[object, ...], Argument] = {}  # most of four hundred are None or False by default
    for name, value in sources.printed.items():
        origin, lines = _origin(name, value, sources, releases)
        argument = Argument(value, origin, lines)
        is_plain = value is None or isinstance(value, bool)
        found[name] = alike.setdefault((value, origin, lines), argument) if is_plain else argument
    for name, value in sources.given.items():
        if not any(n in sources.printed for n in names_of(name)):
            found[name] = Argument(value, "given", sources.given_at)
    for change in launch.each(ArgumentAdjusted):
        if change.value is None or change.argument == "SGLANG_SYMM_MEM_PREALLOC_GB_SIZE" and change.argument in found:
            continue
        now = found.get(change.argument)
        lines = (*(now.lines if now else ()), change.line.place)
        found[change.argument] = Argument(_value(change.value), "adjusted", lines)
    return found


def _origin(name: str, value: Value, sources: Sources, releases: ReleaseRange) -> tuple[Origin, tuple[Place, ...]]:
    key = sources.name_given(name)
    if key is not None:
        given = sources.given[key]
        if _same(given, value):
            return "given", (*sources.given_at, *sources.printed_at)
        return "adjusted", (*sources.given_at, *sources.printed_at)
    known = defaults_of(name, releases)
    computed = name in COMPUTED and (known is None or known[-1] is None)
    # Where newer releases compute the field, an old constant may be the computed value: it tells nothing.
    fitting = () if known is None else known[-1:] if computed else known
    if value is None or any(_same(value, x) for x in fitting):
        return "default", sources.printed_at
    is_empty = value in (False, 0, "auto", "") or value == [] or value == {}
    if known is None and (is_empty or is_unset(name, value)):
        return "default", sources.printed_at
    if sources.given:
        # With the command at hand, what it does not give and no default explains was set by SGLang.
        return ("default" if known is None and name not in COMPUTED else "adjusted"), sources.printed_at
    if computed:
        given_fraction = name == "mem_fraction_static" and _looks_given(value, releases)
        return ("given" if given_fraction else "adjusted"), sources.printed_at
    return ("adjusted" if _is_forced(name, value, sources.printed) else "given"), sources.printed_at


def _looks_given(value: Value, releases: ReleaseRange) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    if releases.reaches("0.4.7") is not True and any(abs(value - x) < 1e-9 for x in _BY_TP):
        return False
    return abs(value * 100 - round(value * 100)) < 1e-6


def _is_forced(name: str, value: Value, printed: Mapping[str, Value]) -> bool:
    """Whether SGLang sets this value itself under the other arguments."""
    match name:
        case "page_size":
            return value in (16, 32, 64, 128, 256)
        case "schedule_conservativeness":
            return printed.get("enable_dp_attention") is True
        case "ep_size":
            return value == printed.get("tp_size") and printed.get("moe_a2a_backend") not in (None, "none")
        case "disable_overlap_schedule" | "disable_radix_cache" | "disable_custom_all_reduce":
            return value is True and bool(printed.get("speculative_algorithm") or printed.get("device") == "npu")
        case "kv_cache_dtype":
            return "deepseek" in str(printed.get("model_path")).lower() and value == "fp8_e4m3"
        case "chunked_prefill_size":
            return value == -1
        case "mamba_scheduler_strategy" | "mamba_radix_cache_strategy":
            return value in ("no_buffer", "extra_buffer")
        case "mm_process_config" | "kt_threadpool_count":
            return value in ({}, 2)  # what stands there once SGLang has read its command line
        case "hicache_io_backend" | "hicache_mem_layout":
            return True
        case "quantization" | "dtype":
            return False
    return False


def _same(one: object, two: object) -> bool:
    if one == two and isinstance(one, bool) == isinstance(two, bool):
        return True
    if isinstance(one, int | float) and isinstance(two, int | float) and not isinstance(one, bool):
        return abs(one - two) < 1e-9 and not isinstance(two, bool)
    if isinstance(one, list) and isinstance(two, list):
        return [str(x) for x in one] == [str(x) for x in two]
    if isinstance(two, list) and len(two) == 1:
        return str(two[0]) == str(one)
    return one is not None and two is not None and str(one).lower() == str(two).lower()


def _value(text: str) -> Value:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"True": True, "False": False}.get(text, text)
