"""Handing an upload to the worker: the broker carries the row's id and nothing else."""

from __future__ import annotations

import logging

from celery import current_app
from django.db import transaction
from django.utils import timezone
from kombu.exceptions import OperationalError

from ingest.models import State, Upload

log = logging.getLogger(__name__)
DIAGNOSE = "ingest.tasks.diagnose_upload"


def enqueue_on_commit(upload_id: int) -> None:
    """Sends the id once the row is there to be found."""
    transaction.on_commit(lambda: enqueue(upload_id), robust=True)


def enqueue(upload_id: int) -> bool:
    """Sends the id now. A broker that is away is no error: the row waits, and the sweeper sends it again."""
    try:
        current_app.send_task(DIAGNOSE, args=[upload_id])
    except (OperationalError, OSError) as problem:
        log.warning("The broker did not take upload %s; it will be sent again: %s", upload_id, problem)
        Upload.objects.filter(pk=upload_id, state=State.QUEUED).update(enqueued_at=None)
        return False
    Upload.objects.filter(pk=upload_id, state=State.QUEUED).update(enqueued_at=timezone.now())
    return True
