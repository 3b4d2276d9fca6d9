"""Teams, their members and their deployments."""

import secrets

from django.conf import settings
from django.db import models
from django.utils import timezone

User = settings.AUTH_USER_MODEL


def new_public_id() -> str:
    """An unguessable id for URLs, 128 bits."""
    return secrets.token_urlsafe(16)


class Role(models.TextChoices):
    """What a member may do; every role includes those after it."""

    OWNER = "owner"
    EDITOR = "editor"
    VIEWER = "viewer"


class Scope(models.TextChoices):
    """What an API token may do; none includes another."""

    READ = "read"
    UPLOAD = "upload"
    WRITE = "write"


class Team(models.Model):
    """People who look after deployments together and see each other's reports.

    settings  thresholds, retention, own redaction rules and limits that differ from the site's
    """

    name = models.CharField(max_length=100)
    slug = models.SlugField(max_length=60, unique=True)
    settings = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    members = models.ManyToManyField(User, through="Membership", related_name="teams")

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """One person's role in one team."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role, default=Role.VIEWER)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "user"], name="one_membership_per_team")]

    def __str__(self) -> str:
        return f"{self.user} · {self.team} · {self.role}"


class Invitation(models.Model):
    """A one-time link into a team, sent to one address. Only the link's hash is stored."""

    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="invitations")
    email = models.EmailField()
    role = models.CharField(max_length=10, choices=Role, default=Role.VIEWER)
    token_hash = models.CharField(max_length=64, unique=True)
    invited_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField()
    accepted_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.email} → {self.team}"

    def is_open(self) -> bool:
        """True while the link still lets somebody in."""
        return self.accepted_at is None and self.revoked_at is None and self.expires_at > timezone.now()


class SetupLink(models.Model):
    """The one-time link with which the first person makes an account; replaced at every start until used."""

    token_hash = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"set-up link of {self.created_at:%Y-%m-%d %H:%M}"


class ApiToken(models.Model):
    """A key for the API and the upload door. It acts as its owner, in one team, within its scopes.

    hint  the last characters of the secret, so that its owner tells keys apart
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    token_hash = models.CharField(max_length=64, unique=True)
    hint = models.CharField(max_length=8)
    scopes = models.JSONField(default=list)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.name} (…{self.hint})"

    def is_valid(self) -> bool:
        """True while the token opens anything."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > timezone.now())


class Deployment(models.Model):
    """A series of launches that belong together, in the order they started.

    key       what joins a launch to the series: the name its uploader gave, or `auto:` and a fingerprint of
              model, hardware and parallel layout
    history   the last launches for the sparkline, oldest first: [KV tokens or null, outcome]
    The `last_…` columns repeat the newest launch, so that the dashboard reads one table.
    """

    public_id = models.CharField(max_length=40, unique=True, default=new_public_id, editable=False)
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="deployments")
    key = models.CharField(max_length=200)
    name = models.CharField(max_length=200)
    owner = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, blank=True)
    merged_into = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, blank=True, related_name="merged")
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    model = models.CharField(max_length=300, blank=True)
    hardware = models.CharField(max_length=120, blank=True)
    launch_count = models.PositiveIntegerField(default=0)
    open_findings = models.PositiveIntegerField(default=0)
    last_outcome = models.CharField(max_length=20, blank=True)
    last_stage = models.CharField(max_length=20, blank=True)
    last_severity = models.CharField(max_length=20, blank=True)
    last_kv_tokens = models.BigIntegerField(null=True, blank=True)
    last_tokens_change = models.FloatField(null=True, blank=True)
    last_free_gib = models.FloatField(null=True, blank=True)
    last_change = models.CharField(max_length=300, blank=True)
    last_upload_at = models.DateTimeField(null=True, blank=True)
    last_uploader = models.CharField(max_length=150, blank=True)
    history = models.JSONField(default=list, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "key"], name="one_deployment_per_key")]
        indexes = [models.Index(fields=["team", "-last_upload_at", "-id"], name="deployments_by_last_upload")]

    def __str__(self) -> str:
        return self.name


class AuditEntry(models.Model):
    """One thing somebody did to a team, its people, links or reports. Written once, never changed.

    action  a verb and its object: `member.add`, `share.revoke`
    detail  what a reader of the trail needs: names, roles, ids; never a secret or log text
    """

    team = models.ForeignKey(Team, on_delete=models.CASCADE, null=True, related_name="audit")
    actor = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    actor_name = models.CharField(max_length=150, blank=True)
    action = models.CharField(max_length=60)
    object = models.CharField(max_length=200, blank=True)
    detail = models.JSONField(default=dict, blank=True)
    at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        indexes = [models.Index(fields=["team", "-at", "-id"], name="audit_by_team_and_time")]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M} {self.actor_name} {self.action} {self.object}"
