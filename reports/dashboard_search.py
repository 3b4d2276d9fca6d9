"""The search over a team's reports: by words, outcome, severity and deployment, in one narrow table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Q, QuerySet

from ingest.models import StoredReport, Upload
from reports.cursor import page
from reports.models import SearchEntry
from reports.words import SEVERITIES
from teams.models import Deployment, Team

MOST_WORDS = 6
MOST_TEXT = 1000


def remember(report: StoredReport) -> None:
    """Make a team's report findable; a newer report on the same upload takes the place of the one before."""
    upload = report.upload
    if upload.team_id is None:
        return
    SearchEntry.objects.update_or_create(upload=upload, defaults=entry_values(report))


def entry_values(report: StoredReport) -> dict[str, Any]:
    """The columns of a report's entry."""
    upload = report.upload
    tags = [str(tag) for tag in upload.tags] if isinstance(upload.tags, list) else []
    words = [upload.title, report.model, report.release, *tags, report.verdict]
    return {
        "report": report,
        "team_id": upload.team_id,
        "deployment_id": upload.deployment_id,
        "created_at": upload.created_at,
        "outcome": report.outcome,
        "severity": report.worst_severity,
        "text": " ".join(words).lower()[:MOST_TEXT],
    }


def remember_upload(upload: Upload) -> None:
    """The same for an upload that was moved, restored or rewritten; what is in the trash is not found."""
    report = upload.report
    if report is None or upload.deleted_at is not None:
        SearchEntry.objects.filter(upload=upload).delete()
    else:
        remember(report)


def search(team: Team, asked: Mapping[str, str]) -> QuerySet[SearchEntry]:
    """A team's entries with the words, outcome, severity and deployment asked for."""
    entries = SearchEntry.objects.filter(team=team)
    for word in asked.get("q", "").replace("\0", "").lower().split()[:MOST_WORDS]:
        named = list(Deployment.objects.filter(team=team, name__icontains=word).values_list("pk", flat=True)[:500])
        entries = entries.filter(Q(text__contains=word) | Q(deployment__in=named) if named else Q(text__contains=word))
    if asked.get("outcome") in ("ready", "failed", "incomplete"):
        entries = entries.filter(outcome=asked["outcome"])
    if asked.get("severity") in SEVERITIES:
        entries = entries.filter(severity=asked["severity"])
    if asked.get("deployment"):
        entries = entries.filter(deployment__public_id=asked["deployment"].replace("\0", ""))
    return entries


def found_reports(
    team: Team, asked: Mapping[str, str], *, size: int, cursor: str = ""
) -> tuple[list[StoredReport], str]:
    """A page of reports, newest first, without their documents; and the next page's cursor. Raises BadCursor."""
    entries = page(search(team, asked), by="created_at", size=size, cursor=cursor)
    ids = [entry.report_id for entry in entries.rows]
    reports = (
        StoredReport.objects.filter(pk__in=ids)
        .select_related("upload", "upload__uploader", "upload__deployment")
        .defer("document")
        .in_bulk()
    )
    return [reports[pk] for pk in ids if pk in reports], entries.next
