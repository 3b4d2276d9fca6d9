"""The start of a launch as steps: what each took from the card, and how long it lasted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvdiag.diagnosis.endings import failing_ranks
from reports import words
from reports.document import Launch, LineRef, line_refs, listed
from reports.pools import entry_name, pool_of

SLIVER = 0.05  # GiB; what less than this leaves unexplained between two readings is told in one row at the end

PHASE_NAMES = {
    "arguments": "Arguments",
    "processes": "Starting processes",
    "distributed": "Connecting ranks",
    "weights": "Weights",
    "kv_cache": "KV cache",
    "cuda_graph": "CUDA graphs",
    "draft distributed": "Draft, connecting ranks",
    "draft weights": "Draft weights",
    "draft kv_cache": "Draft KV cache",
    "draft cuda_graph": "Draft CUDA graphs",
    "warmup": "Warm-up",
    "serving": "Serving",
}

# Which phase pays for an entry's seconds.
_PHASE_OF = {"distributed": "distributed", "weights": "weights", "kv_cache": "kv_cache", "cuda_graphs": "cuda_graph"}


def phase_name(phase: str) -> str:
    """A phase of the document in words."""
    key = phase.replace("draft_", "draft ")
    return PHASE_NAMES.get(key, key.replace("_", " ").capitalize())


@dataclass(frozen=True, slots=True)
class Step:
    """One row of the waterfall.

    gib      taken by the step; negative when it gave memory back
    free     free memory after it
    total    True for a reading (the first and the last row) in place of a change
    seconds  how long it took, None where the log does not say
    """

    name: str
    pool: str
    gib: float
    free: float | None
    total: bool = False
    seconds: float | None = None
    basis: str | None = None
    lines: tuple[LineRef, ...] = ()

    @property
    def taken(self) -> float:
        """The change of free memory, as the table shows it."""
        return -self.gib

    @property
    def time(self) -> str:
        return words.duration(self.seconds) if self.seconds is not None else ""


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase of the start on the time axis, in per cent of the whole."""

    name: str
    seconds: float
    left: float
    width: float
    lines: tuple[LineRef, ...] = ()

    @property
    def time(self) -> str:
        return words.duration(self.seconds)


def leading_rank(launch: Launch) -> dict[str, Any] | None:
    """The rank whose start is told: the one with most entries, the first of those; before them one that failed."""
    ranks = [rank for rank in listed(launch, "ranks") if rank.get("opening_gib") is not None]
    failing = failing_ranks(launch)
    return max(ranks, key=lambda rank: (rank.get("id") in failing, len(listed(rank, "entries"))), default=None)


def _phases(launch: Launch, rank: str | None) -> list[dict[str, Any]]:
    """The timed phases that one rank went through, those of the whole launch among them, in the log's order."""
    return [
        phase
        for phase in listed(launch, "phases")
        if isinstance(phase.get("seconds"), (int, float)) and phase.get("rank") in (rank, None, "")
    ]


def _taken_by(entry: dict[str, Any], phases: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The phase in which an entry was made, taken out of the list: each pays once."""
    key = _PHASE_OF.get(str(entry.get("pool")))
    if key is None:
        return None
    name = f"draft {key}" if entry.get("model") == "draft" else key
    named = [phase for phase in phases if str(phase.get("phase")).replace("draft_", "draft ") == name]
    refs = line_refs(entry.get("lines"))
    around = [phase for phase in named if refs and _spans(phase, refs[0])]
    chosen = (around or named)[:1]
    if chosen:
        phases.remove(chosen[0])
    return chosen[0] if chosen else None


def _spans(phase: dict[str, Any], ref: LineRef) -> bool:
    first, last = line_refs(phase.get("first_line")), line_refs(phase.get("last_line"))
    return bool(first and last and first[0] <= ref <= last[0])


def steps_of(launch: Launch) -> list[Step]:
    """The steps of the leading rank: opening reading, entries in the order they were made, closing reading."""
    rank = leading_rank(launch)
    if rank is None:
        return []
    phases = _phases(launch, rank.get("id"))
    opening = float(rank["opening_gib"])
    readings = listed(rank, "readings")

    def line_of(available: Any) -> tuple[LineRef, ...]:
        at = [reading.get("line") for reading in readings if reading.get("available_gib") == available]
        return tuple(line_refs(at[:1]))

    steps = [Step("First reading", "free", 0.0, opening, total=True, lines=line_of(opening), basis="printed")]
    free = opening
    for entry in _told(listed(rank, "entries")):
        gib = entry.get("gib")
        if not isinstance(gib, (int, float)) or abs(gib) < 0.005:
            continue
        free -= gib
        phase = _taken_by(entry, phases)
        steps.append(
            Step(
                entry_name(entry),
                pool_of(entry),
                float(gib),
                free,
                seconds=phase["seconds"] if phase else None,
                basis=entry.get("basis"),
                lines=tuple(line_refs(entry.get("lines"))),
            )
        )
    closing = rank.get("free_gib")
    if closing is not None:
        ready = launch.get("outcome") == "ready"
        warm = next((phase for phase in phases if ready and phase.get("phase") == "warmup"), None)
        name = "Ready" if ready else "Last reading"
        seconds = warm["seconds"] if warm else None
        steps.append(
            Step(
                name, "free", 0.0, float(closing), total=True, seconds=seconds, lines=line_of(closing), basis="printed"
            )
        )
    return steps


def _told(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Entries in the order they were booked; what is left unexplained in slivers is gathered into one at the end."""
    slivers = [e for e in entries if e.get("pool") == "unexplained" and abs(e.get("gib") or 0) < SLIVER]
    told = [entry for entry in entries if entry not in slivers]
    if not slivers:
        return told
    taken = sum(entry.get("gib") or 0 for entry in slivers)
    lines = [line for entry in slivers for line in listed(entry, "lines")]
    return [*told, {"pool": "unexplained", "model": "target", "gib": taken, "basis": "derived", "lines": lines}]


def timeline_of(launch: Launch) -> list[Phase]:
    """The phases of the start, end to end on one axis. Empty when the log times none of them."""
    rank = leading_rank(launch)
    phases = [
        phase
        for phase in _phases(launch, rank.get("id") if rank else None)
        if phase["seconds"] > 0 and phase.get("phase") != "serving"
    ]
    whole = sum(phase["seconds"] for phase in phases)
    if not whole:
        return []
    ready = launch.get("ready_after_s")
    whole = max(whole, float(ready)) if isinstance(ready, (int, float)) else whole
    placed, at = [], 0.0
    for phase in phases:
        refs = line_refs([phase.get("first_line"), phase.get("last_line")])
        width = phase["seconds"] / whole * 100
        name = phase_name(str(phase.get("phase")))
        placed.append(Phase(name, float(phase["seconds"]), round(at, 3), round(width, 3), tuple(refs)))
        at += width
    left = whole - sum(phase.seconds for phase in placed)
    if left > 0.02 * whole:
        placed.append(Phase("Between the timed steps", left, round(at, 3), round(left / whole * 100, 3)))
    return placed


def held_up(launch: Launch) -> list[str]:
    """Where one rank took clearly longer than the others, in words."""
    return [
        f"{phase.get('rank') or 'One rank'} took longest in “{phase_name(str(phase.get('phase'))).lower()}”: "
        f"{words.duration(phase.get('seconds'))}"
        for phase in listed(launch, "phases")
        if phase.get("slowest") is True and phase.get("rank")
    ][:4]
