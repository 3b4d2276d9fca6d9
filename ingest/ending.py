"""How a diagnosis ends: with a report, or with a sentence that says why there is none."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from ingest import words
from ingest.arrival import remove_all, remove_masked, remove_raw
from ingest.isolation import End, Ended
from ingest.lease import Turn
from ingest.lookalike import looks_like
from ingest.models import Phase, State, StoredReport
from ingest.signals import report_stored
from ingest.stored import columns_of

log = logging.getLogger(__name__)


def store(turn: Turn, job: dict[str, Any], progress: words.Progress) -> None:
    """The report and the upload's end in one short transaction; nothing when the upload is no longer this worker's."""
    upload = turn.upload
    folder = Path(job["folder"])
    path = folder / job["document"]
    document = without_nul(json.loads(path.read_text()))
    files = progress.files or job["masked_files"]
    if not upload.keep_log:
        files = [{key: value for key, value in file.items() if key != "path"} for file in files]
    turn.tell(Phase.READY)
    with transaction.atomic():
        mine = turn.write(
            state=State.READY,
            phase=Phase.READY,
            phase_detail="",
            phases=turn.phases,
            files=files,
            masked=document["upload"].get("masked") or {},
            known=[],
            lease_until=None,
            finished_at=timezone.now(),
            error="",
            error_code="",
        )
        if mine:
            report, _ = StoredReport.objects.update_or_create(
                upload=upload, engine=document["engine"], defaults=columns_of(document)
            )
    path.unlink(missing_ok=True)
    if not mine:
        shutil.rmtree(folder / job["masked_folder"], ignore_errors=True)
        return
    remove_raw(upload.public_id)
    remove_masked(upload.public_id, but=Path(files[0]["path"]).parts[0] if files and files[0].get("path") else "")
    report_stored.send_robust(StoredReport, report=report)


def without_nul(value: Any) -> Any:
    """The value without NUL characters, which PostgreSQL keeps in no text."""
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, list):
        return [without_nul(item) for item in value]
    if isinstance(value, dict):
        return {without_nul(key): without_nul(item) for key, item in value.items()}
    return value


def end_without_report(turn: Turn, ended: Ended, job: dict[str, Any], progress: words.Progress) -> None:
    upload, limits = turn.upload, settings.KVDIAG_LIMITS
    folder = Path(job["folder"])
    if ended.end is End.NOT_SGLANG:
        turn.phases = [entry for entry in turn.phases if entry["phase"] not in (Phase.RULES, Phase.READY)]
        sentence = words.not_sglang(progress.files, looks_like(folder, progress.files))
    elif ended.end in (End.UNREADABLE, End.TOO_LARGE):
        sentence = ended.sentence
    elif ended.end is End.OUT_OF_TIME:
        sentence = (
            f"Reading this log took longer than {limits.analysis_soft_s} seconds, so it was stopped. "
            "Send the part from the server's start to the first requests; `kvdiag diagnose` has no such limit."
        )
    elif ended.end is End.OUT_OF_MEMORY:
        sentence = words.out_of_memory(limits.analysis_memory_bytes)
    elif ended.end is End.DISK_FULL:
        log.error("Upload %s (%s) failed: the disk is full", upload.pk, upload.reference)
        sentence = (
            "The disk of this site filled up while it read this log. The log is kept for an hour: "
            "press “Try again” once its operator has made room."
        )
    else:
        log.error("Upload %s (%s) failed: %s\n%s", upload.pk, upload.reference, ended.end, ended.trace)
        sentence = (
            f"kvdiag made a mistake while it read this log. It is noted under the reference {upload.reference}; "
            "try again after the next release, or send that reference to whoever runs this site."
        )
    fail(turn, str(ended.end), sentence)
    shutil.rmtree(folder / job["masked_folder"], ignore_errors=True)
    (folder / job["document"]).unlink(missing_ok=True)


def fail(turn: Turn, code: str, sentence: str) -> None:
    """The end without a report. What can never be read is not kept; what ended otherwise may be tried again."""
    failed = turn.write(
        state=State.FAILED,
        phases=turn.phases,
        error=sentence,
        error_code=code,
        lease_until=None,
        finished_at=timezone.now(),
    )
    if failed and code in (End.UNREADABLE, End.TOO_LARGE, End.NOT_SGLANG):
        remove_all(turn.upload.public_id)
