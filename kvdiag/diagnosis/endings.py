"""Where a document's launch ended: in which stage, and on which ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def stage_of_end(launch: Mapping[str, Any]) -> str:
    """Its failure's stage, else the last one reached; "" where neither is told.

    An error of serving that comes before the server is ready is one of the start.
    """
    reached = str(launch.get("stage") or "")
    failure = launch.get("failure")
    failed = str(failure.get("stage") or "") if isinstance(failure, Mapping) else ""
    if launch.get("outcome") != "failed" or not failed or (failed == "serving" and reached):
        return reached
    return failed


def came_up(launch: Mapping[str, Any]) -> bool:
    """Whether its start came to its end, so that its free memory is what a start leaves."""
    ready = launch.get("outcome") == "ready" or launch.get("ready_after_s") is not None
    return ready or stage_of_end(launch) == "serving"


def failing_ranks(launch: Mapping[str, Any]) -> list[str]:
    """Ranks on which a failed launch failed, where not all of them did; one that only lost its partner is none."""
    if launch.get("outcome") != "failed":
        return []
    every = [rank.get("id") for rank in launch.get("ranks") or []]
    findings = launch.get("findings") or []
    lead = next((f for f in findings if f.get("severity") != "info" and not f.get("part_of")), None)
    if lead is not None and lead.get("rule") == "peer-rank-died":
        return []
    named = (lead.get("ranks") if lead is not None else None) or [oom.get("rank") for oom in launch.get("oom") or []]
    found = [rank for rank in dict.fromkeys(x for x in named if isinstance(x, str) and x) if rank in every]
    return found if len(found) < len(every) else []
