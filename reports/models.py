"""What a team keeps about its reports: share links, baselines, findings over time, alerts and where they are sent."""

from django.conf import settings
from django.db import models
from django.utils import timezone

from ingest.models import StoredReport, Upload
from teams.models import Deployment, Team, new_public_id

User = settings.AUTH_USER_MODEL


class ShareLink(models.Model):
    """A link that lets somebody outside read one report. Only the hash of its token is stored.

    what         the report's figures and findings, or those with the masked log
    expires_at   None only for links that members alone may follow
    max_views    the link ends after so many views; None for no limit
    tries        passwords that were tried since `tried_since`
    """

    class What(models.TextChoices):
        FACTS = "facts", "Facts only"
        LOG = "log", "With the redacted log"

    class Who(models.TextChoices):
        LINK = "link", "Anyone with the link"
        PASSWORD = "password", "Link and password"
        TEAM = "team", "Members of the team"

    public_id = models.CharField(max_length=40, unique=True, default=new_public_id, editable=False)
    upload = models.ForeignKey(Upload, on_delete=models.CASCADE, related_name="share_links")
    token_hash = models.CharField(max_length=64, unique=True)
    hint = models.CharField(max_length=8)
    what = models.CharField(max_length=10, choices=What, default=What.FACTS)
    who = models.CharField(max_length=10, choices=Who, default=Who.LINK)
    password = models.CharField(max_length=200, blank=True)
    show_preview = models.BooleanField(default=False)
    created_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    created_by_name = models.CharField(max_length=150, blank=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    max_views = models.PositiveIntegerField(null=True, blank=True)
    views = models.PositiveIntegerField(default=0)
    last_viewed_at = models.DateTimeField(null=True, blank=True)
    tries = models.PositiveIntegerField(default=0)
    tried_since = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"…{self.hint} to {self.upload_id}"

    def is_open(self) -> bool:
        """True while the link leads to its report, for those it is for."""
        if self.revoked_at is not None or self.upload.deleted_at is not None:
            return False
        now = timezone.now()
        if any(end is not None and end <= now for end in (self.expires_at, self.upload.expires_at)):
            return False
        return self.max_views is None or self.views < self.max_views


class Baseline(models.Model):
    """The launch a deployment's new launches are compared with."""

    deployment = models.OneToOneField(Deployment, on_delete=models.CASCADE, related_name="baseline")
    report = models.ForeignKey(StoredReport, on_delete=models.CASCADE, related_name="+")
    pinned_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    pinned_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"{self.deployment}: {self.report_id}"


class Comparison(models.Model):
    """One launch of a deployment beside the launch before it and the baseline, as explained when it arrived.

    change      what changed since the launch before: "fraction 0.85 to 0.88", "nothing changed"
    moved       what that moved: "+2.82 GiB KV cache"
    tokens_change  KV tokens against the launch before, as a ratio; None when either has none
    explained   the whole comparison with the baseline, as the engine gives it
    marks       what the history annotates: release, driver, image, flags
    pinned      the launch beside which `pinned_change`, `pinned_moved` and `pinned_tokens_change` say the same three;
                told anew when another baseline is pinned, and without meaning unless it is the one pinned now
    """

    report = models.OneToOneField(StoredReport, on_delete=models.CASCADE, related_name="comparison")
    previous = models.ForeignKey(StoredReport, on_delete=models.SET_NULL, null=True, related_name="+")
    baseline = models.ForeignKey(StoredReport, on_delete=models.SET_NULL, null=True, related_name="+")
    change = models.CharField(max_length=300, blank=True)
    moved = models.CharField(max_length=300, blank=True)
    tokens_change = models.FloatField(null=True, blank=True)
    marks = models.JSONField(default=list, blank=True)
    explained = models.JSONField(default=dict, blank=True)
    pinned = models.ForeignKey(StoredReport, on_delete=models.SET_NULL, null=True, related_name="+")
    pinned_change = models.CharField(max_length=300, blank=True)
    pinned_moved = models.CharField(max_length=300, blank=True)
    pinned_tokens_change = models.FloatField(null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    def __str__(self) -> str:
        return f"{self.report_id}: {self.change}"


class TrackedFinding(models.Model):
    """One rule's finding in one deployment, over all its launches.

    state   open; acknowledged or muted by somebody (muted until a date, with a reason); gone when the newest launch no
            longer has it; regressed when it came back after it had gone
    """

    class State(models.TextChoices):
        OPEN = "open"
        REGRESSED = "regressed"
        ACKNOWLEDGED = "acknowledged"
        MUTED = "muted"
        GONE = "gone"

    COUNTED = (State.OPEN, State.REGRESSED)

    public_id = models.CharField(max_length=40, unique=True, default=new_public_id, editable=False)
    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="findings")
    rule = models.CharField(max_length=100)
    severity = models.CharField(max_length=20)
    summary = models.CharField(max_length=500)
    state = models.CharField(max_length=15, choices=State, default=State.OPEN)
    first_report = models.ForeignKey(StoredReport, on_delete=models.SET_NULL, null=True, related_name="+")
    last_report = models.ForeignKey(StoredReport, on_delete=models.SET_NULL, null=True, related_name="+")
    first_seen = models.DateTimeField()
    last_seen = models.DateTimeField()
    first_release = models.CharField(max_length=40, blank=True)
    last_release = models.CharField(max_length=40, blank=True)
    reason = models.CharField(max_length=300, blank=True)
    muted_until = models.DateTimeField(null=True, blank=True)
    changed_by_name = models.CharField(max_length=150, blank=True)
    changed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["deployment", "rule"], name="one_finding_per_rule")]
        indexes = [models.Index(fields=["deployment", "state"], name="findings_by_state")]

    def __str__(self) -> str:
        return f"{self.rule} in {self.deployment}: {self.state}"

    @property
    def last_upload(self) -> Upload | None:
        """The upload that showed it last, while it is not in the trash."""
        upload = self.last_report.upload if self.last_report else None
        return upload if upload is not None and upload.deleted_at is None else None


class Opinion(models.Model):
    """What one reader said of one finding of one report.

    finding     its anchor on the report's page: the rule, and a number where a launch has several of one rule
    engine      whose finding it was: a report made anew by a better engine is judged anew
    reader_key  who said it: "user 7", or "sender" for whoever sent a report of nobody
    reason      masked as a log is
    """

    class Says(models.TextChoices):
        HELPFUL = "helpful", "Helpful"
        WRONG = "wrong", "Wrong"

    report = models.ForeignKey(StoredReport, on_delete=models.CASCADE, related_name="opinions")
    launch_number = models.PositiveIntegerField()
    finding = models.CharField(max_length=120)
    rule = models.CharField(max_length=100)
    engine = models.CharField(max_length=40)
    reader_key = models.CharField(max_length=40)
    says = models.CharField(max_length=10, choices=Says)
    reason = models.CharField(max_length=500, blank=True)
    said_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["report", "launch_number", "finding", "reader_key"], name="one_opinion_per_reader_and_finding"
            )
        ]

    def __str__(self) -> str:
        return f"{self.rule}: {self.says}"


class Badge(models.Model):
    """A picture for a README with the state of a deployment. Only the hash of its token is stored.

    ended_at  when it was switched off, or another took its place
    """

    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="badges")
    token_hash = models.CharField(max_length=64, unique=True)
    hint = models.CharField(max_length=8)
    made_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    made_by_name = models.CharField(max_length=150, blank=True)
    made_at = models.DateTimeField(default=timezone.now, editable=False)
    ended_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"…{self.hint} of {self.deployment_id}"


class Alert(models.Model):
    """One thing worth telling about a launch: fewer tokens, a new critical finding, slower start, less free memory."""

    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="alerts")
    report = models.ForeignKey(StoredReport, on_delete=models.CASCADE, related_name="alerts")
    kind = models.CharField(max_length=20)
    text = models.CharField(max_length=500)
    at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["report", "kind"], name="one_alert_per_kind_and_report")]

    def __str__(self) -> str:
        return self.text


class Channel(models.Model):
    """Where a team's alerts are sent. The webhook's signing key is derived from the site's key, not stored.

    address  an e-mail address or a URL
    """

    class Kind(models.TextChoices):
        EMAIL = "email", "E-mail"
        WEBHOOK = "webhook", "Webhook, signed JSON"
        SLACK = "slack", "Slack"
        DISCORD = "discord", "Discord"

    public_id = models.CharField(max_length=40, unique=True, default=new_public_id, editable=False)
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="channels")
    kind = models.CharField(max_length=10, choices=Kind)
    address = models.CharField(max_length=500)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    is_on = models.BooleanField(default=True)

    def __str__(self) -> str:
        return f"{self.kind} of {self.team}"


class Delivery(models.Model):
    """One attempt to send something through a channel, and what came of it."""

    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="deliveries")
    alert = models.ForeignKey(Alert, on_delete=models.CASCADE, null=True, related_name="deliveries")
    is_sent = models.BooleanField(default=False)
    status = models.PositiveIntegerField(null=True, blank=True)
    error = models.CharField(max_length=300, blank=True)
    at = models.DateTimeField(default=timezone.now, editable=False)

    def __str__(self) -> str:
        return f"{self.channel_id} {'sent' if self.is_sent else self.error}"


class SavedView(models.Model):
    """Filters of the dashboard or the findings list under a name; of one person, or with no owner the whole team's."""

    public_id = models.CharField(max_length=40, unique=True, default=new_public_id, editable=False)
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="saved_views")
    owner = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="saved_views")
    page = models.CharField(max_length=20, default="dashboard")
    name = models.CharField(max_length=80)
    query = models.CharField(max_length=500)

    def __str__(self) -> str:
        return self.name


class SearchEntry(models.Model):
    """What the list of a team's reports is searched by: one narrow row for each upload, beside its wide report.

    text  lower-case words: name, model, release, verdict, tags
    """

    upload = models.OneToOneField(Upload, on_delete=models.CASCADE, related_name="search_entry")
    report = models.ForeignKey(StoredReport, on_delete=models.CASCADE, related_name="+")
    team = models.ForeignKey(Team, on_delete=models.CASCADE, related_name="+")
    deployment = models.ForeignKey(Deployment, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField()
    outcome = models.CharField(max_length=20, blank=True)
    severity = models.CharField(max_length=20, blank=True)
    text = models.TextField(blank=True)

    class Meta:
        indexes = [models.Index(fields=["team", "-created_at", "-id"], name="search_by_team_and_time")]

    def __str__(self) -> str:
        return self.text[:60]


class Prediction(models.Model):
    """What a what-if scenario foresaw, kept until a launch of the deployment shows how true it was.

    launch_number    the launch of the report that was changed; None for its last
    change           the arguments of the scenario: {"mem_fraction_static": 0.92}; None unsets one
    tokens, free_gib foreseen KV tokens and free memory on each rank
    kept_by_name     who keeps the scenario; "" for what a remedy of the report promises
    outcome          the launch with those arguments; error_percent compares its tokens with the foreseen ones
    """

    deployment = models.ForeignKey(Deployment, on_delete=models.CASCADE, related_name="predictions")
    report = models.ForeignKey(StoredReport, on_delete=models.CASCADE, related_name="predictions")
    launch_number = models.PositiveIntegerField(null=True, blank=True)
    change = models.JSONField(default=dict)
    tokens = models.BigIntegerField(null=True)
    free_gib = models.FloatField(null=True)
    kept_by_name = models.CharField(max_length=150, blank=True)
    made_at = models.DateTimeField(default=timezone.now, editable=False)
    outcome = models.ForeignKey(StoredReport, on_delete=models.SET_NULL, null=True, related_name="+")
    printed_tokens = models.BigIntegerField(null=True, blank=True)
    error_percent = models.FloatField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.deployment}: {self.change}"

    @property
    def flags(self) -> list[str]:
        """The change as flags: `--mem-fraction-static 0.92`; one that is taken out has "no" before it."""
        spelled = []
        for name, value in self.change.items():
            flag = "--" + name.replace("_", "-")
            spelled.append(f"no {flag}" if value is None else flag if value is True else f"{flag} {value}")
        return spelled

    @property
    def free_error_gib(self) -> float | None:
        """By how much more memory was free than foreseen, GiB; None where either is unknown."""
        printed = self.outcome.free_gib if self.outcome else None
        return None if printed is None or self.free_gib is None else printed - self.free_gib
