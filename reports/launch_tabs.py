"""The launches of one upload beside each other: how each ended, and the one flag that differs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kvdiag.diagnosis.endings import stage_of_end
from reports import words
from reports.configuration import spelled
from reports.document import Launch, dig, line_refs


@dataclass(frozen=True, slots=True)
class Tab:
    """One launch of several."""

    number: int
    outcome: str
    state: str
    words: str
    current: bool
    width: float = 0.0
    left: float = 0.0


MOST_TABS = 12  # of more launches those around the one shown have a tab, and a list leads to all of them


def near(tabs: list[Tab]) -> list[Tab]:
    """The tabs to draw: all, or those around the current one."""
    if len(tabs) <= MOST_TABS:
        return tabs
    at = next((number for number, tab in enumerate(tabs) if tab.current), 0)
    first = max(0, min(at - MOST_TABS // 2, len(tabs) - MOST_TABS))
    return tabs[first : first + MOST_TABS]


def state_words(launch: Launch) -> str:
    """How a launch ended, for a badge: "Ready in 24.0 s", "Failed at the KV cache"."""
    outcome, stage = launch.get("outcome"), stage_of_end(launch)
    if outcome == "ready":
        took = words.duration(launch.get("ready_after_s"))
        return f"Ready in {took}" if took else "Ready"
    noun = words.STAGE_NOUNS.get(stage, "")
    if outcome == "failed":
        return "Died while serving" if stage == "serving" else f"Failed at {noun}" if noun else "Failed"
    return f"Ends at {noun}" if noun else "Incomplete"


def short_end(launch: Launch) -> str:
    """Why a launch ended, in two or three words for a tab."""
    if launch.get("outcome") != "failed":
        return ""
    kind = str(dig(launch, "failure", "kind") or "")
    said = {"gpu_oom": "out of memory", "sizing": "refused", "host_oom": "host out of memory"}.get(kind, kind)
    stage = str(dig(launch, "failure", "stage") or "")
    where = {"cuda_graph": " in capture", "weights": " in loading", "serving": " while serving"}.get(stage, "")
    return f"{said}{where}" if kind != "sizing" else said


def _differing_flags(found: list[Launch]) -> Callable[[Launch], list[str]]:
    """A function that spells, for a launch, the one flag in which the launches differ (two at most)."""
    values: dict[str, set[str]] = {}
    for launch in found:
        for name, argument in (dig(launch, "arguments") or {}).items():
            values.setdefault(str(name), set()).add(spelled(dig(argument, "value")))
    noise = {"random_seed", "nccl_port", "dist_init_addr", "port", "log_level"}
    differing = [name for name, seen in values.items() if len(seen) > 1 and name not in noise]
    differing.sort(key=lambda name: name != "mem_fraction_static")
    named = {"mem_fraction_static": "fraction"}

    def spell(launch: Launch) -> list[str]:
        return [
            f"{named.get(name, name)} {spelled(dig(launch, 'arguments', name, 'value'))}"
            for name in differing[:1]
            if dig(launch, "arguments", name) is not None
        ]

    return spell


def tabs_of(found: list[Launch], current: Launch, files: list[dict[str, Any]]) -> list[Tab]:
    """A tab for each launch of an upload; none for a single one. `files` are the upload's, end to end on the strip."""
    if len(found) < 2:
        return []
    differing = _differing_flags(found)
    sizes = [file.get("lines") or 0 for file in files]

    def place(value: Any) -> int:
        refs = line_refs(value)
        return sum(sizes[: refs[0].file]) + refs[0].line if refs else 0

    last = max(sum(sizes), *(place(launch.get("last_line")) for launch in found)) or 1
    tabs = []
    for launch in found:
        first, end = place(launch.get("first_line")), place(launch.get("last_line"))
        said = [words.short_stamp(launch.get("started_at")), *differing(launch), short_end(launch)]
        tabs.append(
            Tab(
                number=launch.get("number") or 1,
                outcome=launch.get("outcome") or "incomplete",
                state={"ready": "Ready", "failed": "Failed"}.get(str(launch.get("outcome")), "Incomplete"),
                words=", ".join(part for part in said if part),
                current=launch is current,
                left=round(first / last * 100, 3),
                width=round(max(0.4, (end - first) / last * 100), 3),
            )
        )
    return tabs
