"""Late redaction: what should not have been kept is hidden in the stored log, the documents and all made of them."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.models import Q

from ingest.models import State, StoredReport, Upload
from reports.dashboard_search import remember_upload
from reports.models import Alert, Comparison, Opinion, TrackedFinding
from reports.stored import log_files
from teams.audit import record
from teams.models import Deployment

LEAST, MOST = 4, 400  # characters; shorter text would hide half of the log


class Refused(ValueError):
    """Text that cannot be hidden; the words say why."""


def hide(upload: Upload, text: str, *, by: Any) -> int:
    """Replace every occurrence of a text; how many there were in log and documents. Raises Refused.

    The replacement has as many bytes as the text, so that the log's index of byte offsets stays true. The documents are
    changed first, in one transaction: should the disk fail, nothing shows the text, and another try finishes the rest.
    """
    text = text.strip()
    if not LEAST <= len(text) <= MOST or "\n" in text or "\r" in text:
        raise Refused(f"Text to hide is one line of {LEAST} to {MOST} characters.")
    if set(text) == {"*"}:
        raise Refused("This text is hidden already.")
    mask = "*" * len(text.encode())
    found = 0

    def masked(value: Any) -> Any:
        nonlocal found
        if isinstance(value, str):
            count = value.count(text)
            found += count
            return value.replace(text, mask) if count else value
        if isinstance(value, list):
            return [masked(each) for each in value]
        if isinstance(value, dict):
            return {masked(key): masked(each) for key, each in value.items()}
        return value

    with transaction.atomic():
        # as it is now: what was hidden a moment ago must not come back with an older copy of the row
        upload = Upload.objects.select_for_update().get(pk=upload.pk)
        if upload.state != State.READY:
            raise Refused(
                "The log is still to be read, which would show the text again. Hide it once the report is there."
            )
        _rewrite_rows(upload, masked)
        remember_upload(upload)
        record(by, "report.hide", team=upload.team, object=upload.public_id, characters=len(text))
    for file in log_files(upload):
        with _alone(file.path.parent):
            found += _rewrite_file(file.path, text.encode(), mask.encode())
    return found


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One at a time: each writes the whole file anew, and would bring back what another hid meanwhile."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _rewrite_rows(upload: Upload, masked: Callable[[Any], Any]) -> None:
    """The upload's own row, its documents, and what was derived from them."""
    upload.name, upload.files, upload.tags, upload.known, upload.phases = (
        masked(each) for each in (upload.name, upload.files, upload.tags, upload.known, upload.phases)
    )
    upload.phase_detail, upload.error = masked(upload.phase_detail), masked(upload.error)
    upload.save(update_fields=["name", "files", "tags", "known", "phases", "phase_detail", "error"])
    reports = list(StoredReport.objects.select_for_update().filter(upload=upload))
    for report in reports:
        for name in ("document", "verdict", "model", "release", "started_at"):
            setattr(report, name, masked(getattr(report, name)))
        report.save()
    # what is kept of them beside a baseline may hold a piece of the text; the page works it out anew
    beside = Comparison.objects.filter(Q(report__in=reports) | Q(pinned__in=reports))
    beside.update(pinned=None, pinned_change="", pinned_moved="")
    for comparison in Comparison.objects.filter(report__in=reports):
        comparison.change, comparison.moved = masked(comparison.change)[:300], masked(comparison.moved)[:300]
        comparison.marks, comparison.explained = masked(comparison.marks), masked(comparison.explained)
        comparison.save()
    for alert in Alert.objects.filter(report__in=reports):
        alert.text = masked(alert.text)[:500]
        alert.save(update_fields=["text"])
    for opinion in Opinion.objects.filter(report__in=reports).exclude(reason=""):
        opinion.reason = masked(opinion.reason)[:500]
        opinion.save(update_fields=["reason"])
    if upload.deployment_id is None:
        return
    for finding in TrackedFinding.objects.filter(deployment=upload.deployment_id):
        if (summary := masked(finding.summary)[:500]) != finding.summary:
            finding.summary = summary
            finding.save(update_fields=["summary"])
    for deployment in Deployment.objects.filter(pk=upload.deployment_id):
        deployment.model, deployment.last_change = masked(deployment.model)[:300], masked(deployment.last_change)[:300]
        deployment.name = masked(deployment.name)[:200]
        deployment.save(update_fields=["model", "last_change", "name"])
    # the launches after this one were compared with it, and their words may cite it
    for later in Comparison.objects.filter(report__upload__deployment=upload.deployment_id).exclude(report__in=reports):
        words, explained = masked(later.change)[:300], masked(later.explained)
        if (words, explained) != (later.change, later.explained):
            later.change, later.explained = words, explained
            later.save(update_fields=["change", "explained"])


def _rewrite_file(path: Path, text: bytes, mask: bytes) -> int:
    """The file with the text replaced, line by line into a new file that takes its place; how often it stood there."""
    found = 0
    handle, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as out, path.open("rb") as log:
            for line in log:
                found += line.count(text)
                out.write(line.replace(text, mask))
            out.flush()
            os.fsync(out.fileno())
        Path(name).chmod(0o600)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return found
