"""Who may work on an upload: one worker at a time, held by a lease, told apart by the attempt number.

A worker takes an upload by a compare-and-set on its row. From then on each of its writes names the attempt; once the
row has moved on (the lease ran out and another worker took it, or somebody cancelled) the write changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic, time
from typing import Any

from django.conf import settings
from django.db.models import F, Q
from django.utils import timezone

from ingest.models import Phase, State, Upload
from ingest.queue import enqueue

FLUSH_S = 0.5  # progress is written at most twice a second: a busy writer starves SQLite's other ones
LOOK_S = 1.0  # how soon a cancelled upload stops
REQUEUE_S = 60  # a queued row that nobody claimed for so long is sent to the broker again


def lease_from_now() -> Any:
    return timezone.now() + timedelta(seconds=settings.KVDIAG_LIMITS.lease_s)


@dataclass
class Turn:
    """One worker's hold on one upload."""

    upload: Upload
    attempt: int
    phases: list[dict[str, Any]] = field(default_factory=list)
    detail: str = ""
    known: list[dict[str, Any]] | None = None
    _written: float = 0.0
    _looked: float = 0.0
    _changed: bool = False

    def tell(self, phase: Phase, words: str = "", share: float | None = None) -> None:
        """The diagnosis has come to a phase, or further within it; written by the next `beat`.

        share  how much of the phase is done, from 0 to 1, where that is known
        """
        if self.phases and self.phases[-1]["phase"] == phase:
            entry = self.phases[-1]
        else:
            entry = {"phase": str(phase), "at": round(time(), 3)}
            self.phases.append(entry)
        entry["words"] = words
        if share is not None:
            entry["share"] = round(min(1.0, share), 3)
        self.detail = words
        self._changed = True

    def amend(self, phase: Phase, words: str) -> None:
        """Other words for a phase that is over."""
        for entry in self.phases:
            if entry["phase"] == phase:
                entry["words"] = words

    def tell_known(self, known: list[dict[str, Any]]) -> None:
        """First facts, to be shown while the rest is read."""
        self.known = known
        self._changed = True

    def beat(self) -> bool:
        """A sign of life, with the progress so far; False when the upload is no longer this worker's."""
        now = monotonic()
        if (self._changed and now - self._written >= FLUSH_S) or now - self._written >= self._due():
            self._written = self._looked = now
            self._changed = False
            return self.write(lease_until=lease_from_now(), **self._progress())
        if now - self._looked >= LOOK_S:
            self._looked = now
            return bool(self._rows().exists())
        return True

    @staticmethod
    def _due() -> float:
        return settings.KVDIAG_LIMITS.lease_s / 4

    def _progress(self) -> dict[str, Any]:
        values: dict[str, Any] = {"phases": self.phases, "phase_detail": self.detail[:200]}
        if self.phases:
            values["phase"] = self.phases[-1]["phase"]
        if self.known is not None:
            values["known"] = self.known
        return values

    def _rows(self) -> Any:
        return Upload.objects.filter(pk=self.upload.pk, state=State.RUNNING, attempt=self.attempt)

    def write(self, **values: Any) -> bool:
        """Changes the row if the upload is still this worker's; True when it was."""
        return bool(self._rows().update(**values))


def claim(upload_id: int) -> Turn | None:
    """Takes a queued upload; None when it is not there to be taken (running elsewhere, done, cancelled, deleted)."""
    taken = Upload.objects.filter(pk=upload_id, state=State.QUEUED, attempt__lt=F("attempt_limit")).update(
        state=State.RUNNING, attempt=F("attempt") + 1, lease_until=lease_from_now()
    )
    if not taken:
        return None
    upload = Upload.objects.get(pk=upload_id)
    received = [entry for entry in upload.phases if entry["phase"] == Phase.RECEIVED]
    return Turn(upload, upload.attempt, phases=received)


def give_back(turn: Turn) -> bool:
    """The worker could not finish: the upload waits for its next attempt; False when this was the last one."""
    if turn.attempt >= turn.upload.attempt_limit:
        return False
    if turn.write(state=State.QUEUED, lease_until=None, enqueued_at=None):
        enqueue(turn.upload.pk)
    return True


def requeue_expired() -> tuple[list[int], list[int]]:
    """Puts right what a lost worker or a lost message left behind.

    Returns the ids sent to the broker again, and those whose last attempt ran out (they are the caller's to fail).
    """
    now = timezone.now()
    expired = Upload.objects.filter(Q(lease_until__lt=now) | Q(lease_until=None), state=State.RUNNING)
    lost = list(expired.filter(attempt__gte=F("attempt_limit")).values_list("pk", flat=True))
    expired.filter(attempt__lt=F("attempt_limit")).update(state=State.QUEUED, lease_until=None, enqueued_at=None)
    late = now - timedelta(seconds=REQUEUE_S)
    waiting = Upload.objects.filter(Q(enqueued_at=None) | Q(enqueued_at__lt=late), state=State.QUEUED)
    # each id on its own: what was sent stays sent when the broker goes away half way
    sent = [pk for pk in waiting.order_by("pk").values_list("pk", flat=True)[:1000] if enqueue(pk)]
    return sent, lost
