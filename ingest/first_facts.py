"""What is known of a log before all of it has been read: its start is read by the way, again and again as it grows."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Any

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.limits import Limits
from kvdiag.diagnosis.lines import Log

HEAD = 4 << 20  # bytes of the masked copy's start that are looked at, at most
LOOK_S = 0.3  # a usual log is read within this time, and nothing needs to be told early
GROWN = 1.5  # so many times longer than at the last look, or grown to its end, before it is read again

# The last stage that a launch has reached, while its end is not read.
REACHED = {
    "arguments": "starting",
    "distributed": "starting, ranks connected",
    "weights": "starting, weights",
    "kv_cache": "starting, KV cache allocated",
    "cuda_graph": "starting, capturing CUDA graphs",
    "warmup": "starting, warming up",
    "serving": "ready",
}


class FirstFacts:
    """Tells what the start of the first file's masked copy says, from a thread of its own, while the rest is worked on.

    folder  where the copies come to lie; the first file's is its only `0.log`, or already there
    tell    is given all facts known, each time there are more or others
    """

    def __init__(self, folder: Path, limits: Limits, tell: Callable[[list[dict[str, Any]]], None]) -> None:
        self._folder, self._limits, self._tell = folder, limits, tell
        self._is_over = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> FirstFacts:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        told: list[dict[str, Any]] = []
        looked_at = before = 0
        while not self._is_over.wait(LOOK_S):
            head = head_of(self._folder)
            has_stopped, before = len(head) == before, len(head)
            if len(head) == looked_at or not (has_stopped or len(head) > GROWN * looked_at):
                continue
            looked_at = len(head)
            known = facts_of_start(head, self._limits)
            if known and known != told and not self._is_over.is_set():
                told = known
                self._tell(known)
            if looked_at >= HEAD:
                return


def head_of(folder: Path) -> bytes:
    """The first whole lines of the first copy in the folder; nothing while there is none."""
    copies = sorted(folder.rglob("*.log"))
    if not copies:
        return b""
    try:
        with copies[0].open("rb") as stream:
            head = stream.read(HEAD)
    except FileNotFoundError:  # the copy was refused, and taken away again
        return b""
    return head if len(head) == HEAD else head[: head.rfind(b"\n") + 1]


def facts_of_start(head: bytes, limits: Limits) -> list[dict[str, Any]]:
    """What the start of a log says of its first launch. A figure that is not there is left out."""
    if not head.strip():
        return []
    document = diagnose(Log(name="start", stream=io.BytesIO(head)), limits=limits, is_masked=True).document
    launches = document["launches"]
    return known_of(launches[0]) if launches else []


def known_of(launch: dict[str, Any]) -> list[dict[str, Any]]:
    """[{"fact", "value", "line"}] of a launch's document; `line` where one line says it."""
    rank = (launch.get("ranks") or [{}])[0]
    entries = rank.get("entries") or []

    def entry(pool: str) -> dict[str, Any]:
        return next((each for each in entries if each["pool"] == pool and each["model"] == "target"), {})

    def line(each: dict[str, Any]) -> Any:
        return next(iter(each.get("lines") or []), None)

    weights, pool = entry("weights"), entry("kv_cache")
    path = (launch.get("model") or {}).get("path")
    is_ready = launch.get("outcome") == "ready"
    rows = [
        ("release", (launch.get("version") or {}).get("exact"), None),
        ("model", path.rstrip("/").rpartition("/")[2] if path else None, launch.get("first_line")),
        ("gpus", gpus_of(launch), None),
        ("weights_gib", weights.get("gib"), line(weights)),
        ("kv_gib", pool.get("gib"), line(pool)),
        ("kv_tokens", rank.get("kv_tokens"), None),
        ("free_gib", rank.get("free_gib") if is_ready else None, None),
        ("outcome", outcome_of(launch), None),
    ]
    return [{"fact": fact, "value": value, "line": line} for fact, value, line in rows if value is not None]


def gpus_of(launch: dict[str, Any]) -> str | None:
    """As `8 × NVIDIA H200`; of unnamed ones their number."""
    gpu = launch.get("gpu") or {}
    count, name = gpu.get("count") or len(launch.get("ranks") or []), gpu.get("name")
    if not count:
        return None
    return f"{count} × {name}" if name else f"{count} GPU{'' if count == 1 else 's'}"


def outcome_of(launch: dict[str, Any]) -> str | None:
    """How far the launch has come in what was read: ready, failed, or the stage it has reached."""
    outcome, stage = launch.get("outcome"), launch.get("stage")
    if outcome in ("ready", "failed"):
        return str(outcome)
    return REACHED.get(str(stage))
