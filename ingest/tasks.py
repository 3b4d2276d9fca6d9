"""Celery's door to the services. A task carries ids only, may run twice, and leaves the same rows."""

import logging

from celery import shared_task
from celery.signals import worker_process_init, worker_ready
from django.conf import settings
from django.db import OperationalError

from ingest import isolation, services, upkeep

log = logging.getLogger(__name__)

# The child process has the real limits; Celery's are the net below them.
_NET_S = isolation.CLOCK_FACTOR * settings.KVDIAG_LIMITS.analysis_hard_s + 30


@shared_task(
    autoretry_for=(OperationalError,),
    retry_backoff=True,
    max_retries=3,
    soft_time_limit=_NET_S,
    time_limit=_NET_S + 15,
)
def diagnose_upload(upload_id: int) -> None:
    """Diagnose an upload; a second run of the same engine leaves the same rows, a newer engine adds its own."""
    services.diagnose_upload(upload_id)
    isolation.prepare()


@shared_task
def sweep() -> None:
    """Queue again what a lost worker or a lost message left behind."""
    upkeep.sweep()


@shared_task
def purge() -> None:
    """Delete what has expired, and say how much."""
    gone = upkeep.purge()
    if gone:
        log.info("purged %s", ", ".join(f"{count} {what} of team {team}" for (team, what), count in gone.items()))


@worker_process_init.connect
def prepare_at_start(**_: object) -> None:
    """The first log is read as fast as the later ones."""
    isolation.prepare()


@worker_ready.connect
def sweep_at_start(**_: object) -> None:
    """A worker that was killed left its upload behind, and a web process a folder; the next one looks at once."""
    upkeep.sweep()
    upkeep.remove_stray_folders()
