"""What runs by the clock: lost work is queued again, what has expired is deleted."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from ingest.arrival import remove_all, remove_masked
from ingest.ending import fail
from ingest.lease import Turn, requeue_expired
from ingest.models import State, Upload
from ingest.passing import remove_abandoned
from ingest.services import delete_upload
from teams.audit import record
from teams.models import Team

RAW_KEPT_S = 3600  # of an upload that was cancelled or whose worker died: time to press "Try again"
STRAY_KEPT_S = 3600
RECEIVING_KEPT_S = 6 * 3600  # an upload in parts that nobody continues


def sweep() -> None:
    """Queues what a lost worker or message left behind; gives up what has used its attempts.

    Removes what a web process that was killed had of a log that is not kept.
    """
    remove_abandoned()
    _, lost = requeue_expired()
    for upload in Upload.objects.filter(pk__in=lost):
        sentence = (
            f"The diagnosis stopped {upload.attempt_limit} times without an answer, so it was given up. "
            f"The reference is {upload.reference}."
        )
        fail(Turn(upload, upload.attempt, phases=upload.phases), "worker_lost", sentence)


def purge() -> Counter[tuple[int | None, str]]:
    """Deletes what has expired: uploads, masked copies past their time, raw bytes nobody retried, stray folders.

    How many reports and logs of each team (None: of nobody) went, which is also written to the teams' trails.
    """
    gone_by_team: Counter[tuple[int | None, str]] = Counter()
    now = timezone.now()
    limits = settings.KVDIAG_LIMITS
    trash = now - timedelta(days=limits.trash_days)
    stalled = now - timedelta(seconds=RECEIVING_KEPT_S)
    for gone in (
        Upload.objects.filter(expires_at__lt=now),
        Upload.objects.filter(deleted_at__lt=trash),
        Upload.objects.filter(state=State.RECEIVING, created_at__lt=stalled),
    ):
        for upload in gone.order_by("pk")[:500]:
            gone_by_team[upload.team_id, "reports"] += 1
            delete_upload(upload)
    for upload in Upload.objects.filter(log_until__lt=now, state=State.READY).exclude(files=[])[:500]:
        gone_by_team[upload.team_id, "logs"] += 1
        forget_log(upload)
    raw_until = now - timedelta(seconds=RAW_KEPT_S)
    over = Upload.objects.filter(state__in=(State.FAILED, State.CANCELLED), finished_at__lt=raw_until)
    for public_id in over.values_list("public_id", flat=True):
        remove_all(public_id)
    remove_stray_folders()
    _tell(gone_by_team)
    return gone_by_team


def _tell(gone: Counter[tuple[int | None, str]]) -> None:
    """A line in the trail of each team that lost something to its times, and one for what was nobody's."""
    teams = Team.objects.in_bulk({team for team, _ in gone if team is not None})
    for team in dict.fromkeys(team for team, _ in gone):
        counts = {"reports": gone[team, "reports"], "logs": gone[team, "logs"]}
        record(None, "retention.purge", team=teams.get(team) if team else None, **counts)


def forget_log(upload: Upload) -> None:
    """The masked copy goes, the report stays."""
    remove_masked(upload.public_id)
    files = [{key: value for key, value in file.items() if key != "path"} for file in upload.files]
    Upload.objects.filter(pk=upload.pk).update(files=files, log_until=None)


def remove_stray_folders() -> None:
    """Folders without a row: a web process died while a log came in, or between the disk and the database.

    One in which something was written within the hour may be a log that is still on its way.
    """
    old = timezone.now().timestamp() - STRAY_KEPT_S
    folders = [folder for folder in Path(settings.KVDIAG_UPLOADS).iterdir() if folder.is_dir()]
    known = set(Upload.objects.values_list("public_id", flat=True))
    for folder in folders:
        if folder.name not in known and _written(folder) < old:
            remove_all(folder.name)


def _written(folder: Path) -> float:
    """When something was last written in a folder, seconds; now for one that is being removed."""
    try:
        return max(path.stat().st_mtime for path in (folder, *folder.rglob("*")))
    except FileNotFoundError:
        return timezone.now().timestamp()
