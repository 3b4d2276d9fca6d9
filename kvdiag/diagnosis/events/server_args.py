"""The arguments of a launch: the line SGLang prints of them, and the command that a user pasted."""

from __future__ import annotations

from dataclasses import dataclass

from kvdiag.diagnosis.events.pattern import Event, read_from

_SOURCE = "sglang/srt/entrypoints/engine.py (srt/server.py up to 0.4.0): _launch_subprocesses()"


@read_from(
    r"server_args=(?:ServerArgs\(|\{)",
    literals=("server_args=ServerArgs(", "server_args={"),
    fields={"body": r"server_args=(?:ServerArgs\(|\{)(.*)"},
    samples=(
        "server_args=ServerArgs(model_path='m', mem_fraction_static=0.85, tp_size=4)",
        "server_args={'model_path': 'm', 'mem_fraction_static': 0.85, 'tp_size': 4}",
    ),
    source=_SOURCE,
    releases="0.2.15..0.5.23",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class ServerArgs(Event):
    """The full argument set, as text: a call's arguments up to 0.5.17, a dict's items from 0.5.19."""

    body: str | None


@read_from(
    r"sglang[.](?:launch_server|bench_one_batch|bench_latency|bench_offline_throughput)|sglang serve ",
    literals=("sglang.launch_server", "sglang.bench_one_batch", "sglang.bench_latency", "sglang serve "),
    excludes=("server_args=", "Traceback", 'File "', "RuntimeWarning", "DeprecationWarning"),
    fields={"command": r"((?:python|sglang serve |numactl|SGLANG_|CUDA_|\S+=\S+ ).*|sglang[.].*)"},
    samples=("python3 -m sglang.launch_server --model-path m --tp 8 --mem-fraction-static 0.88",),
    source="a shell's command line, as pasted above a log",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCommand(Event):
    """A launch command above the log or within it."""

    command: str | None


@read_from(
    r"Automatically reduce --mem-fraction-static to",
    fields={"value": r"--mem-fraction-static to ([\d.]+)"},
    constants={"argument": "mem_fraction_static"},
    samples=("Automatically reduce --mem-fraction-static to 0.792 because this is a multimodal model.",),
    source="sglang/srt/model_executor/model_runner.py: __init__()",
    releases="0.4.1..0.4.8",
)
@read_from(
    r"Multimodal model: Dynamically adjusted --mem-fraction-static from",
    fields={"value": r" to: ([\d.]+\d)"},
    constants={"argument": "mem_fraction_static"},
    samples=("Multimodal model: Dynamically adjusted --mem-fraction-static from: 0.850 to: 0.808.",),
    source="sglang/srt/server_args.py",
    releases="0.4.9..0.4.10",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentAdjusted(Event):
    """SGLang changed an argument and said so."""

    argument: str
    value: str | None
