"""The trash of a team, and how an upload of nobody joins a team."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.utils import timezone

from ingest.models import Upload
from ingest.services import delete_upload
from reports.dashboard_search import remember_upload
from reports.deployments_watch import refresh, watch_report
from reports.sharing_links import end_links
from teams.audit import record
from teams.models import Team


@transaction.atomic
def to_trash(upload: Upload, *, by: Any) -> None:
    """Take an upload out of sight and end its links; it can be restored until the trash is emptied of it."""
    upload.deleted_at = timezone.now()
    upload.save(update_fields=["deleted_at"])
    ended = end_links(upload)
    remember_upload(upload)
    record(by, "report.delete", team=upload.team, object=upload.public_id, name=upload.title, links_ended=ended)
    if upload.deployment is not None:
        refresh(upload.deployment)


@transaction.atomic
def restore(upload: Upload, *, by: Any) -> None:
    """Bring an upload back; links that were ended stay ended."""
    upload.deleted_at = None
    upload.save(update_fields=["deleted_at"])
    remember_upload(upload)
    record(by, "report.restore", team=upload.team, object=upload.public_id, name=upload.title)
    if upload.deployment is not None:
        refresh(upload.deployment)


def delete_now(upload: Upload, *, by: Any) -> None:
    """Delete an upload of the trash for good: files, reports, links."""
    team, deployment, public_id, name = upload.team, upload.deployment, upload.public_id, upload.title
    delete_upload(upload)
    record(by, "report.purge", team=team, object=public_id, name=name)
    if deployment is not None:
        refresh(deployment)


def claim(upload: Upload, team: Team, *, by: Any) -> bool:
    """Take an upload of nobody into a team; False when somebody else took it meanwhile."""
    taken = Upload.objects.filter(pk=upload.pk, team=None, uploader=None).update(
        team=team, uploader=by, owner_hash="", delete_token_hash=""
    )
    if not taken:
        return False
    upload.refresh_from_db()
    record(by, "report.claim", team=team, object=upload.public_id)
    report = upload.report
    if report is not None:
        watch_report(report)
    return True
