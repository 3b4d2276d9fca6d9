"""From a report document to the columns the dashboard sorts by."""

from __future__ import annotations

from typing import Any

from kvdiag.diagnosis.endings import came_up, stage_of_end

SEVERITIES = ("info", "advice", "warning", "critical")


def columns_of(document: dict[str, Any]) -> dict[str, Any]:
    """The values of a StoredReport. They describe the last launch; what the log does not give stays None."""
    launches = document.get("launches") or []
    columns: dict[str, Any] = {"schema": document["schema"], "document": document, "launch_count": len(launches)}
    findings = [finding for launch in launches for finding in launch.get("findings") or []]
    columns["finding_count"] = len(findings)
    columns["worst_severity"] = max(
        (finding["severity"] for finding in findings if finding.get("severity") in SEVERITIES),
        key=SEVERITIES.index,
        default="",
    )
    if not launches:
        return columns
    launch = launches[-1]
    ranks = launch.get("ranks") or []
    version = launch.get("version") or {}
    model = launch.get("model") or {}
    columns |= {
        "outcome": launch.get("outcome") or "",
        "stage": stage_of_end(launch),
        "verdict": launch.get("verdict") or "",
        "model": (model.get("path") or model.get("architecture") or "")[:300],
        "release": (version.get("exact") or _range(version))[:60],
        "started_at": (launch.get("started_at") or "")[:40],
        "gpu_count": len(ranks) or None,
        "kv_tokens": (launch.get("kv_cache") or {}).get("tokens"),
        "free_gib": _least(rank.get("free_gib") for rank in ranks) if came_up(launch) else None,
        "weights_gib": _most(_weights(rank) for rank in ranks),
        "ready_after_s": launch.get("ready_after_s"),
    }
    return columns


def _range(version: dict[str, Any]) -> str:
    first, before = version.get("from"), version.get("before")
    if first and before:
        return f"{first} or later, before {before}"
    return f"{first} or later" if first else f"before {before}" if before else ""


def _weights(rank: dict[str, Any]) -> float | None:
    sizes = [
        entry["gib"]
        for entry in rank.get("entries") or []
        if entry.get("pool") == "weights" and entry.get("model") == "target" and entry.get("gib") is not None
    ]
    return sum(sizes) if sizes else None


def _least(figures: Any) -> float | None:
    """The tightest GPU decides."""
    return min((figure for figure in figures if figure is not None), default=None)


def _most(figures: Any) -> float | None:
    return max((figure for figure in figures if figure is not None), default=None)
