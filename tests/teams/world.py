"""A small world for tests: a team with an owner, an editor and a viewer, somebody outside, and launches on demand."""

from __future__ import annotations

import copy
import hashlib
import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from ingest.arrival import folder_of
from ingest.models import State, StoredReport, Upload
from ingest.signals import report_stored
from ingest.stored import columns_of
from teams.models import Membership, Role, Team
from teams.services import create_team, new_person

DOCUMENT = Path(__file__).parent.parent / "documents" / "kimi-k25-8gpu.json"
PASSWORD = "correct horse battery"


def document(**changes: Any) -> dict[str, Any]:
    """A report document with one launch, some of its figures changed.

    fraction, tokens, free, ready_after, outcome, stage, release, findings; None takes a figure away
    """
    made: dict[str, Any] = copy.deepcopy(json.loads(DOCUMENT.read_text()))
    launch = made["launches"][0]
    if "fraction" in changes:
        launch["arguments"]["mem_fraction_static"]["value"] = changes["fraction"]
    if "tokens" in changes:
        launch["kv_cache"]["tokens"] = changes["tokens"]
    if "free" in changes:
        for rank in launch["ranks"]:
            rank["free_gib"] = changes["free"]
    if "ready_after" in changes:
        launch["ready_after_s"] = changes["ready_after"]
    if "outcome" in changes:
        launch["outcome"] = changes["outcome"]
    if "stage" in changes:
        launch["stage"] = changes["stage"]
    if "release" in changes:
        launch["version"]["exact"] = changes["release"]
    if "findings" in changes:
        launch["findings"] = [finding(*each) for each in changes["findings"]]
    if "model" in changes:
        launch["model"]["path"] = changes["model"]
    return made


def finding(rule: str, severity: str = "warning") -> dict[str, Any]:
    """A finding as the engine writes it."""
    evidence = [{"line": 12, "text": "the log's own words", "figure": "free_gib", "value": 1.0}]
    return {
        "rule": rule,
        "severity": severity,
        "confidence": "certain",
        "summary": f"Summary of {rule}",
        "ranks": ["TP0"],
        "evidence": evidence,
        "remedies": [],
    }


def upload(
    *,
    team: Team | None,
    uploader: User | None,
    log: str = "",
    at: datetime | None = None,
    name: str = "server.log",
    **more: Any,
) -> Upload:
    """An upload that is diagnosed already, with its masked copy on disk when `log` is given."""
    row = Upload.objects.create(
        team=team,
        uploader=uploader,
        name=name,
        state=State.READY,
        created_at=at or timezone.now(),
        files=[{"name": name, "bytes": len(log), "lines": log.count("\n")}],
        sha256=hashlib.sha256(f"{log}{timezone.now()}".encode()).hexdigest(),
        **more,
    )
    if log:
        folder = folder_of(row.public_id) / "masked-1"
        folder.mkdir(parents=True)
        (folder / "0").write_text(log)
        row.files[0]["path"] = "masked-1/0"
        row.save()
    return row


def report(row: Upload, made: dict[str, Any] | None = None, *, tell: bool = True) -> StoredReport:
    """The stored report on an upload; `tell` lets the rest of the site know, as the worker does."""
    stored = StoredReport.objects.create(upload=row, engine="0.1.0", **columns_of(made or document()))
    if tell:
        report_stored.send(StoredReport, report=stored)
    return stored


@dataclass
class World:
    """Alice owns the team, Bob edits, Vera only reads, Charlie is in another team."""

    team: Team
    alice: User
    bob: User
    vera: User
    charlie: User
    other_team: Team
    clock: datetime = field(default_factory=lambda: timezone.now() - timedelta(days=40))

    def launch(
        self, deployment: str = "kimi-prod", *, log: str = "", by: User | None = None, **changes: Any
    ) -> StoredReport:
        """One more start of a deployment, a day after the one before."""
        self.clock += timedelta(days=1)
        row = upload(team=self.team, uploader=by or self.bob, log=log, at=self.clock, deployment_key=deployment)
        return report(row, document(**changes))


def make_world() -> World:
    """The people and teams, without any launch."""
    people = {
        name: new_person(email=f"{name}@example.org", password=PASSWORD, name=f"{name.title()} Example")
        for name in ("alice", "bob", "vera", "charlie")
    }
    team = create_team("Inference EU", owner=people["alice"])
    Membership.objects.create(team=team, user=people["bob"], role=Role.EDITOR)
    Membership.objects.create(team=team, user=people["vera"], role=Role.VIEWER)
    other = create_team("Elsewhere", owner=people["charlie"])
    return World(team=team, other_team=other, **people)
