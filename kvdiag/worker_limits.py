"""What a worker process may use: memory by the kernel's limit, time by Celery's (CELERY_TASK_TIME_LIMIT).

No process of a worker lives without the worker, and the worker does not without its beat.

Imported by kvdiag.celery; takes effect in the worker's own processes only.
"""

import contextlib
import os
import resource
import signal
import sys
from typing import Any

from celery.signals import beat_embedded_init, worker_process_init, worker_ready
from django.conf import settings

from kvdiag.up.parent import ends_with_parent

ROOM_BEFORE_A_TASK_BYTES = 256 << 20  # the interpreter, Django and what they have mapped
LOOK_FOR_BEAT_EVERY_S = 5.0


@worker_process_init.connect
def limit_this_process(**_: Any) -> None:
    """A log that would take more memory meets a MemoryError in its task, not the machine's out-of-memory killer."""
    ends_with_parent(signal.SIGKILL, parent=os.getppid())()
    if sys.platform.startswith("linux"):  # elsewhere RLIMIT_DATA does not count what malloc maps
        ceiling = settings.KVDIAG_LIMITS.analysis_memory_bytes + ROOM_BEFORE_A_TASK_BYTES
        with contextlib.suppress(ValueError, OSError):  # the operator has set a lower one already
            resource.setrlimit(resource.RLIMIT_DATA, (ceiling, ceiling))


@beat_embedded_init.connect
def end_with_the_worker(**_: Any) -> None:
    ends_with_parent(signal.SIGKILL, parent=os.getppid())()


@worker_ready.connect
def end_without_beat(sender: Any, **_: Any) -> None:
    """Celery does not start an embedded beat again, and without it no upload that was lost on the way is sent again.

    The worker ends in good order then, and whoever watches it starts it again.
    """
    beat = getattr(sender.controller, "beat", None)
    if beat is None:
        return

    def look() -> None:
        if not beat.is_alive():
            os.kill(os.getpid(), signal.SIGTERM)

    sender.timer.call_repeatedly(LOOK_FOR_BEAT_EVERY_S, look)
