"""How long an upload's report and its masked log are kept, and how many of them a team may keep."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Sum
from django.utils import timezone

from ingest.models import Upload
from ingest.refusals import Refused
from teams.models import Team

DAY = timedelta(days=1)


def report_days(user: Any, team: Team | None) -> int:
    """Days that a report is kept: the team's own figure, or the site's for members or for strangers."""
    limits = settings.KVDIAG_LIMITS
    if user is None:
        return int(limits.keep_anonymous_days)
    own = team.settings.get("keep_report_days") if team else None
    return int(own or limits.keep_member_facts_days)


def log_days(user: Any, team: Team | None) -> int:
    """Days that the masked log is kept after it was last looked at; never longer than the report."""
    limits = settings.KVDIAG_LIMITS
    own = team.settings.get("keep_log_days") if team else None
    days = limits.keep_anonymous_days if user is None else int(own or limits.keep_member_log_days)
    return min(int(days), report_days(user, team))


def log_was_viewed(upload: Upload) -> None:
    """A log that members look at is kept longer; written at most once a day."""
    if upload.team_id is None or upload.log_until is None:
        return
    until = timezone.now() + log_days(upload.uploader_id or upload.team_id, upload.team) * DAY
    if upload.expires_at is not None:
        until = min(until, upload.expires_at)
    if until - upload.log_until > DAY:
        Upload.objects.filter(pk=upload.pk).update(log_until=until)


def refuse_full(team: Team | None) -> None:
    """Raises Refused (409) when a team keeps as many reports, or as many bytes, as it may."""
    if team is None:
        return
    limits = settings.KVDIAG_LIMITS
    kept = Upload.objects.filter(team=team).aggregate(reports=Count("pk"), bytes=Sum("bytes_received"))
    if kept["reports"] >= limits.team_reports:
        what = f"{limits.team_reports:,} reports"
    elif (kept["bytes"] or 0) >= limits.team_bytes:
        what = f"{limits.team_bytes >> 30:,} GiB of logs"
    else:
        return
    sentence = f"{team.name} keeps {what}, the most it may. Delete some, or ask whoever runs this site."
    raise Refused(409, "team_full", sentence)
