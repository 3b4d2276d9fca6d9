"""The writers of uploads: accept, diagnose, cancel, retry, delete.

How a diagnosis ends is written in `ending`, what runs by the clock in `upkeep`.
"""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from ingest import words
from ingest.arrival import Arrival, folder_of, plain_text, remove_all
from ingest.ending import end_without_report, fail, store
from ingest.isolation import End, run_isolated
from ingest.lease import Turn, claim, give_back
from ingest.models import Phase, State, Upload
from ingest.queue import enqueue_on_commit
from ingest.retention import DAY, log_days, report_days
from ingest.sender import Sender
from ingest.signals import upload_deleted
from teams.tokens import LINK_BYTES, hash_secret, new_secret

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Options:
    """What the sender said about the upload."""

    name: str = ""
    deployment_key: str = ""
    tags: tuple[str, ...] = ()
    keep_log: bool = True
    keep_days: int | None = None
    idempotency_key: str = ""
    hidden: dict[str, int] = field(default_factory=dict)  # what the browser hid before it sent, by kind


@dataclass(frozen=True)
class Accepted:
    """The upload's row, and the secret with which its sender may delete it: shown now and never again.

    is_new  False when the same idempotency key brought the same upload before; there is no secret then
    """

    upload: Upload
    delete_token: str = ""
    is_new: bool = True


# --- In ---------------------------------------------------------------------------------------------------------------


def known_key(sender: Sender, options: Options, sha256: str = "") -> Upload | None:
    """The upload that the same sender made with the same idempotency key.

    Strangers behind one address cannot be told apart: of them the content must be the same too (its digest), or a
    guessed key would lead to another's report.
    """
    if not options.idempotency_key or (sender.is_only_an_address and not sha256):
        return None
    return Upload.objects.filter(idempotency_key=_key_hash(sender, options, sha256), deleted_at=None).first()


def accept_upload(arrival: Arrival, sender: Sender, options: Options) -> Accepted:
    """Commits the row of files that lie on the disk whole, and queues the diagnosis."""
    token = new_secret(LINK_BYTES)
    earlier = known_key(sender, options, arrival.sha256)
    if earlier is not None:
        return Accepted(earlier, is_new=False)
    upload = _row(sender, options, token, arrival.sha256)
    upload.public_id = arrival.public_id
    upload.files = [{"name": file.name, "bytes": file.bytes} for file in arrival.files]
    upload.bytes_received = arrival.received
    upload.sha256 = arrival.sha256
    upload.phases = [_received(upload, arrival.begun)]
    try:
        with transaction.atomic():
            upload.save(force_insert=True)
            enqueue_on_commit(upload.pk)
    except IntegrityError:
        # two requests with one idempotency key at the same moment: the first one has it
        earlier = known_key(sender, options, arrival.sha256)
        if earlier is None:
            raise
        return Accepted(earlier, is_new=False)
    arrival.keep()
    return Accepted(upload, token)


def announce_upload(sender: Sender, options: Options, files: list[dict[str, Any]]) -> Accepted:
    """The row of an upload whose files are still to come, in parts."""
    token = new_secret(LINK_BYTES)
    upload = _row(sender, options, token)
    upload.state = State.RECEIVING
    upload.files = files
    (folder_of(upload.public_id) / "raw").mkdir(parents=True, mode=0o700)
    folder_of(upload.public_id).chmod(0o700)
    try:
        upload.save(force_insert=True)
    except BaseException:
        remove_all(upload.public_id)
        raise
    return Accepted(upload, token)


def complete_upload(upload: Upload, sizes: list[int], sha256: str) -> bool:
    """All parts came: queues the diagnosis. False when the upload was completed or cancelled before."""
    upload.bytes_received = sum(sizes)
    entry = _received(upload, upload.created_at.timestamp())
    with transaction.atomic():
        changed = Upload.objects.filter(pk=upload.pk, state=State.RECEIVING).update(
            state=State.QUEUED, bytes_received=sum(sizes), sha256=sha256, phases=[entry]
        )
        if changed:
            enqueue_on_commit(upload.pk)
    return bool(changed)


def _row(sender: Sender, options: Options, token: str, sha256: str = "") -> Upload:
    now = timezone.now()
    days = min(report_days(sender.user, sender.team), options.keep_days or 10_000)
    return Upload(
        name=plain_text(options.name)[:200],
        uploader=sender.user,
        team=sender.team,
        deployment_key=plain_text(options.deployment_key)[:200] if sender.team else "",
        tags=[plain_text(tag)[:60] for tag in options.tags[:20]],
        keep_log=options.keep_log,
        masked=options.hidden,
        expires_at=now + days * DAY,
        log_until=now + min(days, log_days(sender.user, sender.team)) * DAY,
        owner_hash=sender.owner_hash if sender.user is None else "",
        delete_token_hash=hash_secret(token),
        address_hash=sender.address_hash,
        idempotency_key=_key_hash(sender, options, sha256) if options.idempotency_key else None,
    )


def _key_hash(sender: Sender, options: Options, sha256: str) -> str:
    content = f"\n{sha256}" if sender.is_only_an_address else ""
    return hash_secret(f"{sender.key}\n{options.idempotency_key}{content}")


def _received(upload: Upload, begun: float) -> dict[str, Any]:
    return {
        "phase": str(Phase.RECEIVED),
        "at": round(begun, 3),
        "until": round(timezone.now().timestamp(), 3),
        "words": words.received(upload),
    }


# --- Through ----------------------------------------------------------------------------------------------------------


def diagnose_upload(upload_id: int) -> None:
    """Diagnoses a queued upload once; does nothing for one that is not there to be taken."""
    turn = claim(upload_id)
    if turn is None:
        return
    upload, limits = turn.upload, settings.KVDIAG_LIMITS
    folder = folder_of(upload.public_id)
    job = _job(turn, folder)
    if job is None:
        fail(turn, "files_gone", "The files of this upload are no longer there. Send the log again.")
        return
    progress = words.Progress(turn)
    ended = run_isolated(
        job,
        soft_s=limits.analysis_soft_s,
        hard_s=limits.analysis_hard_s,
        on_message=progress.take,
        is_wanted=turn.beat,
    )
    if ended.end is End.REPORT:
        store(turn, job, progress)
    elif ended.end is End.UNWANTED:
        shutil.rmtree(folder / job["masked_folder"], ignore_errors=True)
        if not Upload.objects.filter(pk=upload.pk).exists():  # deleted meanwhile: the child may have written after that
            remove_all(upload.public_id)
    elif ended.end is End.KILLED and give_back(turn):
        log.warning("The diagnosis of upload %s was killed at attempt %s", upload.pk, turn.attempt)
    else:
        end_without_report(turn, ended, job, progress)


def _job(turn: Turn, folder: Path) -> dict[str, Any] | None:
    """What the child needs to know: the raw files, or the masked copy where the raw is gone already."""
    upload = turn.upload
    masked: list[dict[str, Any]] = []
    if not all((folder / "raw" / str(number)).is_file() for number in range(len(upload.files))):
        masked = [file for file in upload.files if file.get("path")]
        if not masked or not all((folder / file["path"]).is_file() for file in masked):
            return None
    return {
        "folder": str(folder),
        "files": [{"name": file["name"]} for file in upload.files],
        "masked_folder": f"masked-{turn.attempt}",
        "masked_files": masked,
        "masked": upload.masked,
        "document": f"document-{turn.attempt}.json",
        "limits": settings.KVDIAG_LIMITS.as_dict(),
        "team": upload.team.settings if upload.team is not None else {},
        "memory": settings.KVDIAG_LIMITS.analysis_memory_bytes,
    }


# --- Out --------------------------------------------------------------------------------------------------------------


def may_retry(upload: Upload) -> bool:
    """True when there is something left to read again."""
    if upload.state not in (State.FAILED, State.CANCELLED):
        return False
    folder = folder_of(upload.public_id)
    raw = all((folder / "raw" / str(number)).is_file() for number in range(len(upload.files)))
    return bool(upload.files) and bool(upload.sha256) and (raw or all(_has_copy(folder, file) for file in upload.files))


def _has_copy(folder: Path, file: dict[str, Any]) -> bool:
    return bool(file.get("path")) and (folder / file["path"]).is_file()


def retry_upload(upload: Upload) -> bool:
    """Queues an upload that failed or was cancelled; False when there is nothing left to read."""
    if not may_retry(upload):
        return False
    return _queue_again(upload, (State.FAILED, State.CANCELLED))


def diagnose_again(upload: Upload) -> bool:
    """Queues a ready upload for a better engine; its earlier report stays. False when the log was not kept."""
    folder = folder_of(upload.public_id)
    if not upload.files or not all(_has_copy(folder, file) for file in upload.files):
        return False
    return _queue_again(upload, (State.READY,))


def _queue_again(upload: Upload, states: tuple[State, ...]) -> bool:
    with transaction.atomic():
        changed = Upload.objects.filter(pk=upload.pk, state__in=states, deleted_at=None).update(
            state=State.QUEUED,
            phase=Phase.RECEIVED,
            phases=[entry for entry in upload.phases if entry["phase"] == Phase.RECEIVED],
            attempt_limit=upload.attempt + settings.KVDIAG_LIMITS.analysis_attempts,
            error="",
            error_code="",
            known=[],
            enqueued_at=None,
            finished_at=None,
        )
        if changed:
            enqueue_on_commit(upload.pk)
    return bool(changed)


def cancel_upload(upload: Upload) -> bool:
    """Stops an upload on its way; its worker notices within a second or two. False when it had ended before."""
    return bool(
        Upload.objects.filter(pk=upload.pk, state__in=(State.RECEIVING, State.QUEUED, State.RUNNING)).update(
            state=State.CANCELLED, lease_until=None, finished_at=timezone.now(), error_code="cancelled"
        )
    )


def delete_upload(upload: Upload) -> None:
    """The files, the reports and the links of an upload go for good."""
    upload_deleted.send_robust(Upload, upload=upload)
    public_id = upload.public_id
    upload.delete()
    remove_all(public_id)
