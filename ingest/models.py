"""Uploads and the reports on them. The row of an upload is the truth about it; the broker only carries its id."""

import base64
import hashlib
import secrets

from django.conf import settings
from django.db import models
from django.utils import timezone

from teams.models import Deployment, Team

User = settings.AUTH_USER_MODEL


def new_public_id() -> str:
    """An unguessable id for URLs, 144 bits."""
    return secrets.token_urlsafe(18)


class State(models.TextChoices):
    """Where an upload is on its way; `ready`, `failed` and `cancelled` are ends."""

    RECEIVING = "receiving"
    QUEUED = "queued"
    RUNNING = "running"
    READY = "ready"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Phase(models.TextChoices):
    """The named steps of a diagnosis, in order."""

    RECEIVED = "received"
    UNPACKED = "unpacked"
    CLEANED = "cleaned"
    PARSED = "parsed"
    RULES = "rules"
    READY = "ready"


class Upload(models.Model):
    """Log files that arrived together and become one report.

    phases          what happened so far: [{"phase", "at" (epoch seconds), "words"}], oldest first
    known           first facts of a long log, shown while the rest is read: [{"name", "value", "line"}]
    lease_until     the worker that runs the upload promises a sign of life before this moment
    attempt         counts claims and only grows: a write by an older attempt is refused
    attempt_limit   the attempt after which a log that kills its worker is given up
    enqueued_at     when the id last went to the broker; the sweeper sends it again if nobody claims it
    files           [{"name", "bytes"}] while raw; afterwards also "path" of the masked copy (relative to the upload's
                    folder), "lines", "encoding", "compression", "gap", "unpacked" (bytes of the text itself)
    sha256          of the bytes as received; of the files' digests in order where there are several
    owner_hash      who may delete an upload that has no account: the hash of the browser's own secret
    address_hash    keyed hash of the sender's address, for limits and abuse reports; never the address
    idempotency_key hash of the sender and the key that the sender gave
    log_until       when the masked copy goes, although the report stays
    """

    public_id = models.CharField(max_length=40, unique=True, default=new_public_id, editable=False)
    name = models.CharField(max_length=200, blank=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    uploader = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True, related_name="uploads")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, null=True, blank=True, related_name="uploads")
    deployment = models.ForeignKey(Deployment, on_delete=models.SET_NULL, null=True, blank=True, related_name="uploads")
    deployment_key = models.CharField(max_length=200, blank=True)
    tags = models.JSONField(default=list, blank=True)

    state = models.CharField(max_length=10, choices=State, default=State.QUEUED)
    phase = models.CharField(max_length=10, choices=Phase, default=Phase.RECEIVED)
    phase_detail = models.CharField(max_length=200, blank=True)
    phases = models.JSONField(default=list, blank=True)
    known = models.JSONField(default=list, blank=True)
    error = models.TextField(blank=True)
    error_code = models.CharField(max_length=40, blank=True)

    lease_until = models.DateTimeField(null=True, blank=True)
    attempt = models.PositiveIntegerField(default=0)
    attempt_limit = models.PositiveIntegerField(default=3)
    enqueued_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    bytes_received = models.BigIntegerField(default=0)
    files = models.JSONField(default=list, blank=True)
    masked = models.JSONField(default=dict, blank=True)
    sha256 = models.CharField(max_length=64, blank=True)
    keep_log = models.BooleanField(default=True)
    log_until = models.DateTimeField(null=True, blank=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    deleted_at = models.DateTimeField(null=True, blank=True)

    owner_hash = models.CharField(max_length=64, blank=True)
    delete_token_hash = models.CharField(max_length=64, blank=True)
    address_hash = models.CharField(max_length=64, blank=True)
    idempotency_key = models.CharField(max_length=64, null=True, blank=True)  # noqa: DJ001 - NULL is outside the constraint

    class Meta:
        constraints = [models.UniqueConstraint(fields=["idempotency_key"], name="one_upload_per_idempotency_key")]
        indexes = [
            models.Index(fields=["state", "lease_until"], name="uploads_by_state_and_lease"),
            models.Index(fields=["team", "-created_at", "-id"], name="uploads_by_team_and_time"),
            models.Index(fields=["deployment", "-created_at"], name="uploads_by_deployment"),
            models.Index(fields=["sha256"], name="uploads_by_content"),
            models.Index(fields=["expires_at"], name="uploads_by_expiry"),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def title(self) -> str:
        """The name that was given, or the names of the files."""
        names = [self.name] if self.name else [file["name"] for file in self.files]
        if not names:
            return "log"
        return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"

    @property
    def is_over(self) -> bool:
        """True once nothing more happens by itself."""
        return self.state in {State.READY, State.FAILED, State.CANCELLED}

    @property
    def reference(self) -> str:
        """A short code by which an operator finds the upload; it opens nothing."""
        code = base64.b32encode(hashlib.sha256(self.public_id.encode()).digest()).decode()
        return f"{code[:4]}-{code[4:6]}"

    @property
    def report(self) -> "StoredReport | None":
        """The newest report on this upload."""
        return self.reports.order_by("-created_at", "-id").first()


class StoredReport(models.Model):
    """A report document and the few columns by which the dashboard sorts.

    The columns describe the last launch of the document. A figure the log does not give is NULL, never zero.
    started_at   as the log printed it, without an invented zone
    """

    upload = models.ForeignKey(Upload, on_delete=models.CASCADE, related_name="reports")
    engine = models.CharField(max_length=40)
    schema = models.CharField(max_length=40)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    launch_count = models.PositiveIntegerField(default=0)
    outcome = models.CharField(max_length=20, blank=True)
    stage = models.CharField(max_length=20, blank=True)
    verdict = models.TextField(blank=True)
    model = models.CharField(max_length=300, blank=True)
    release = models.CharField(max_length=60, blank=True)
    started_at = models.CharField(max_length=40, blank=True)
    gpu_count = models.PositiveIntegerField(null=True, blank=True)
    kv_tokens = models.BigIntegerField(null=True, blank=True)
    free_gib = models.FloatField(null=True, blank=True)
    weights_gib = models.FloatField(null=True, blank=True)
    ready_after_s = models.FloatField(null=True, blank=True)
    worst_severity = models.CharField(max_length=20, blank=True)
    finding_count = models.PositiveIntegerField(default=0)
    # The last column: SQLite reads a row from its front, and a search over the columns must not walk through documents.
    document = models.JSONField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["upload", "engine"], name="one_report_per_engine")]
        indexes = [
            models.Index(fields=["-created_at", "-id"], name="reports_by_time"),
            models.Index(fields=["model"], name="reports_by_model"),
            models.Index(fields=["worst_severity"], name="reports_by_severity"),
        ]

    def __str__(self) -> str:
        return f"{self.upload} · {self.engine}"
