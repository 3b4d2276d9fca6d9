"""An upload on its way, as the progress page and its script show it."""

from __future__ import annotations

from time import time
from typing import Any

from ingest import words
from ingest.models import Phase, State, Upload
from ingest.words import DOING, TITLES

# what the start of a log tells while the rest is read: the fact, its title, the swatch of its pool
FACTS = (
    ("release", "SGLang", None),
    ("model", "Model", None),
    ("gpus", "GPUs", None),
    ("weights_gib", "Weights", "weights"),
    ("kv_gib", "KV cache", "kv"),
    ("kv_tokens", "KV cache tokens", "kv"),
    ("free_gib", "Free when ready", "free"),
    ("outcome", "Outcome so far", None),
)


def progress_of(upload: Upload) -> dict[str, Any]:
    """What the page shows, ready for JSON: the state in words, each phase, the first facts, the queue."""
    phases = phases_of(upload)
    now = next((phase for phase in phases if phase["state"] == "now"), None)
    return {
        "state": upload.state,
        "is_over": upload.is_over,
        "title": state_words(upload, now),
        "phases": phases,
        "known": known_rows(upload),
        "ahead": ahead_of(upload),
        "elapsed_s": elapsed_of(upload),
        "attempt": upload.attempt,
    }


def state_words(upload: Upload, now: dict[str, Any] | None) -> str:
    if upload.state == State.RECEIVING:
        return "Receiving"
    if upload.state == State.QUEUED:
        return "Waiting"
    if upload.state == State.RUNNING:
        return now["doing"] if now else "Starting"
    return str(State(upload.state).label)


def phases_of(upload: Upload) -> list[dict[str, Any]]:
    """All phases in order: done with its duration, now, or still to do. `failed` marks where it stopped."""
    seen = {entry["phase"]: entry for entry in upload.phases}
    order = [entry["phase"] for entry in upload.phases]
    last = order[-1] if order else None
    rows = []
    for phase in Phase:
        entry = seen.get(phase, {})
        rows.append(
            {
                "phase": str(phase),
                "title": TITLES[phase],
                "doing": DOING[phase],
                "words": entry.get("words", ""),
                "state": phase_state(upload, phase, phase in seen, phase == last),
                "seconds": seconds_of(upload, entry, order),
                "percent": round(100 * (entry.get("share") or 0)),
            }
        )
    return rows


def phase_state(upload: Upload, phase: Phase, is_seen: bool, is_last: bool) -> str:
    if upload.state == State.READY:
        return "done"
    if upload.state == State.RECEIVING:
        return "now" if phase is Phase.RECEIVED else "todo"
    if not is_seen:
        return "todo"
    if not is_last or phase is Phase.RECEIVED:
        return "done"
    return "now" if upload.state == State.RUNNING else "stopped"


def seconds_of(upload: Upload, entry: dict[str, Any], order: list[str]) -> float | None:
    """How long the phase took, or takes so far; None before it began."""
    if not entry or entry["phase"] == Phase.READY:
        return None
    until = entry.get("until")
    place = order.index(entry["phase"])
    if until is None and place + 1 < len(order):
        until = upload.phases[place + 1]["at"]
    if until is None:
        until = upload.finished_at.timestamp() if upload.finished_at else time()
    return round(max(0.0, until - entry["at"]), 1)


def elapsed_of(upload: Upload) -> float:
    end = upload.finished_at.timestamp() if upload.finished_at and upload.is_over else time()
    return round(max(0.0, end - upload.created_at.timestamp()), 1)


def ahead_of(upload: Upload) -> int:
    """Uploads that are queued before this one."""
    if upload.state != State.QUEUED:
        return 0
    return Upload.objects.filter(state=State.QUEUED, pk__lt=upload.pk).count()


def known_rows(upload: Upload) -> list[dict[str, Any]]:
    """Each first fact with its value in words; None while it is not read."""
    known = {fact["fact"]: fact for fact in upload.known}
    return [
        {"fact": fact, "title": title, "swatch": swatch, "value": value_words(known.get(fact))}
        for fact, title, swatch in FACTS
    ]


def value_words(fact: dict[str, Any] | None) -> str | None:
    if fact is None:
        return None
    value = fact["value"]
    if fact["fact"].endswith("_gib"):
        return f"{value:.2f} GiB"
    return f"{value:,}" if isinstance(value, int) else str(value)


def ahead_words(ahead: int) -> str:
    return f"{words.counted(ahead, 'upload')} before this one" if ahead else ""
