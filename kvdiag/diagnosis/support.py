"""What the engine reads, printed from the declarations: each event, its wordings by release, and their samples."""

from __future__ import annotations

from collections.abc import Iterable

from kvdiag.diagnosis.events import DECLARATIONS
from kvdiag.diagnosis.events.pattern import Declaration

_TITLES = {
    "server_args": "Arguments and banners",
    "distributed": "Distributed start",
    "hardware": "Cards",
    "platform": "Host and platform",
    "weights": "Weights",
    "kv_pool": "KV cache and state pools",
    "host_memory": "Host memory",
    "buffers": "Buffers outside the pools",
    "cuda_graph": "CUDA graphs",
    "progress": "Progress bars",
    "ready": "Summary and ready",
    "serving": "Traffic",
    "requests": "Requests that a pool cannot serve",
    "overflow": "Overflow of the device's allocator",
    "libraries": "Kernels, libraries, communicators",
    "failure": "Failures and processes",
    "frames": "Frames of a traceback",
}
_LONGEST = 160


def matrix() -> str:
    """The support matrix as Markdown."""
    parts = [
        "# What kvdiag reads",
        "",
        "Every line that kvdiag turns into a fact, by the examined releases of SGLang that print it. This page is"
        " printed by `kvdiag support` from the declarations in `kvdiag/diagnosis/events/`; a test reads each wording.",
        "",
        f"{len({d.event for d in DECLARATIONS})} events, {len(DECLARATIONS)} declarations,"
        f" {sum(len(d.samples) for d in DECLARATIONS)} wordings.",
    ]
    groups: dict[str, list[Declaration]] = {}
    for declaration in DECLARATIONS:
        groups.setdefault(declaration.event.__module__.rsplit(".", 1)[-1], []).append(declaration)
    for name in sorted(groups, key=lambda n: list(_TITLES).index(n) if n in _TITLES else len(_TITLES)):
        parts += [
            "",
            f"## {_TITLES.get(name, name)}",
            "",
            "| event | releases | wording | printed by |",
            "|---|---|---|---|",
        ]
        parts += _rows(groups[name])
    return "\n".join(parts) + "\n"


def _rows(declarations: Iterable[Declaration]) -> list[str]:
    rows = []
    for declaration in declarations:
        for when, sample in declaration.sampled:
            text = sample if len(sample) <= _LONGEST else sample[: _LONGEST - 1] + "…"
            rows.append(
                f"| {declaration.event.__name__} | {when.replace('..', ' to ') or 'any'} | {_code(text)} |"
                f" {_cell(declaration.source)} |"
            )
    return rows


def _code(text: str) -> str:
    escaped = text.replace("|", "\\|")
    return f"`` {escaped} ``" if "`" in text else f"`{escaped}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


__all__ = ["matrix"]
