"""The bodies of requests and answers."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Literal

from ninja import Schema
from pydantic import ConfigDict, Field

State = Literal["receiving", "queued", "running", "ready", "failed", "cancelled"]


class Body(Schema):
    """A request body: a key we do not know is a mistake worth telling."""

    model_config = ConfigDict(extra="forbid")


class Made(Schema):
    """An upload that was taken."""

    id: str
    url: str
    report: str
    status_url: str
    state: State
    delete_token: str | None = None


class ReportOut(Schema):
    """An upload and the columns of its newest report. A figure the log does not give is null."""

    id: str
    title: str
    created_at: datetime
    uploader: str
    deployment: str | None = Field(description="The deployment's id")
    tags: list[Any]
    state: State
    phase: str
    error: str
    error_code: str
    url: str
    outcome: str
    stage: str
    verdict: str
    model: str
    release: str
    gpu_count: int | None
    kv_tokens: int | None
    free_gib: float | None
    weights_gib: float | None
    ready_after_s: float | None
    worst_severity: str
    finding_count: int | None
    launch_count: int | None


class ReportPage(Schema):
    """Some reports, and the cursor of the next page; "" at the end."""

    items: list[ReportOut]
    next: str


class LogLines(Schema):
    """Numbered lines of the masked log."""

    file: int
    first: int
    last: int
    lines: list[tuple[int, str]]


class ScenarioIn(Body):
    """What to change: SGLang's argument names with their new values."""

    launch: int | None = Field(None, ge=1, le=1_000_000, description="The last launch when left out")
    change: dict[str, str | float | int | bool] = Field(max_length=20)
    keep: bool = Field(False, description="Compare what comes out with the next launch that tries it")


class DeploymentOut(Schema):
    """A deployment with its newest launch."""

    id: str
    key: str
    name: str
    owner: str
    model: str
    hardware: str
    launch_count: int
    open_findings: int
    worst_severity: str
    outcome: str
    kv_tokens: int | None
    tokens_change: float | None
    free_gib: float | None
    change: str
    last_upload_at: datetime | None
    baseline: str | None = Field(description="The report that new launches are compared with, where one is pinned")
    url: str


class DeploymentPage(Schema):
    """Some deployments, newest launch first."""

    items: list[DeploymentOut]
    next: str


class DeploymentIn(Body):
    """What of a deployment to change."""

    name: str | None = Field(None, min_length=1, max_length=200)
    owner: str | None = Field(None, max_length=254, description="A member's e-mail address")


class MergeIn(Body):
    """Where to."""

    into: str = Field(max_length=40)


class LaunchOut(Schema):
    """One launch of a deployment and what changed."""

    report: str
    created_at: datetime
    outcome: str
    kv_tokens: int | None
    free_gib: float | None
    weights_gib: float | None
    ready_after_s: float | None
    release: str
    change: str
    moved: str
    tokens_change: float | None
    explained: dict[str, Any]


class PredictionOut(Schema):
    """What a scenario or a remedy foresaw, and what the start that ran with it printed; null while none has."""

    id: int
    report: str
    change: dict[str, str | float | int | bool | None]
    kept_by: str = Field(description="Who keeps it; empty for a remedy of the report")
    made_at: datetime
    tokens: int | None
    free_gib: float | None
    outcome: str | None = Field(description="The report on the start that ran with it")
    printed_tokens: int | None
    printed_free_gib: float | None
    error_percent: float | None = Field(description="Of the tokens")


class BaselineIn(Body):
    """The report whose launch is the baseline."""

    report: str = Field(max_length=40)


class OpinionIn(Body):
    """What the caller says of a finding; null takes an earlier answer back."""

    launch: int | None = Field(None, ge=1, le=1_000_000, description="The last launch when left out")
    rule: str = Field(max_length=100)
    number: int = Field(1, ge=1, le=1000, description="Which one, where a launch has several of one rule")
    says: Literal["helpful", "wrong"] | None
    reason: str = Field("", max_length=500, description="Masked as a log is")


class OpinionOut(Schema):
    """What the caller said of a finding."""

    launch: int
    finding: str = Field(description="Its anchor on the report's page")
    rule: str
    engine: str
    says: str
    reason: str
    said_at: datetime


class ReasonOut(Schema):
    """Why somebody said so."""

    report: str
    says: str
    reason: str
    said_at: datetime


class RuleOpinionsOut(Schema):
    """What a team's readers said of one rule, as one release of the engine ran it; the newest 20 reasons."""

    rule: str
    engine: str
    helpful: int
    wrong: int
    reasons: list[ReasonOut]


class BadgeOut(Schema):
    """A deployment's badge; `url` and `markdown` are there on the answer that makes it, and never again."""

    is_on: bool
    hint: str | None = Field(description="The last characters of its token")
    made_at: datetime | None
    made_by: str | None
    url: str | None = None
    markdown: str | None = None


class FindingOut(Schema):
    """One rule's finding in one deployment."""

    id: str
    deployment: str
    rule: str
    severity: str
    summary: str
    state: str
    reason: str
    muted_until: datetime | None
    first_seen: datetime
    last_seen: datetime
    first_release: str
    last_release: str
    report: str | None


class FindingPage(Schema):
    """Some findings, last seen first."""

    items: list[FindingOut]
    next: str


class FindingIn(Body):
    """A finding's new state; a mute needs a reason and a day within a year."""

    state: Literal["open", "acknowledged", "muted"]
    reason: str = Field("", max_length=300)
    until: date | None = None


class AlertOut(Schema):
    """Something worth telling about a launch."""

    id: int
    deployment: str
    report: str
    kind: str
    text: str
    at: datetime


class AlertPage(Schema):
    """Some alerts, newest first."""

    items: list[AlertOut]
    next: str


class ShareIn(Body):
    """A new share link."""

    what: Literal["facts", "log"] = "facts"
    who: Literal["link", "password", "team"] = "link"
    days: int | None = Field(7, ge=1, le=365, description="null: no end, for members only")
    password: str = Field("", max_length=200)
    max_views: int | None = Field(None, ge=1, le=10_000)
    show_preview: bool = False


class ShareOut(Schema):
    """A share link; `url` is there on the answer that makes it, and never again."""

    id: str
    report: str
    hint: str
    what: str
    who: str
    created_at: datetime
    expires_at: datetime | None
    max_views: int | None
    views: int
    last_viewed_at: datetime | None
    url: str | None = None


class TokenIn(Body):
    """A new token: it may do no more than the one that makes it."""

    name: str = Field(min_length=1, max_length=100)
    scopes: list[Literal["read", "upload", "write"]] = Field(min_length=1, max_length=3)
    days: int | None = Field(90, ge=1, le=3650)


class TokenOut(Schema):
    """A token; `secret` is there on the answer that makes it, and never again."""

    id: int
    name: str
    hint: str
    scopes: list[str]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    secret: str | None = None


class TeamOut(Schema):
    """The token's team."""

    name: str
    slug: str
    role: str
    scopes: list[str]
    settings: dict[str, Any]


class MemberOut(Schema):
    """A member."""

    email: str
    email_verified: bool = Field(description="False for an address that was typed in and never confirmed")
    name: str
    role: str
    since: datetime


class InvitationOut(Schema):
    """An invitation that still lets somebody in. Its link was on the answer that made it, and nowhere else."""

    email: str
    role: str
    created_at: datetime
    expires_at: datetime


class SavedViewOut(Schema):
    """Filters under a name, as they stand in the address of the page."""

    id: str
    page: str
    name: str
    query: str
    is_own: bool = Field(description="False for a view of the whole team")


class RuleOut(Schema):
    """A rule of the engine, with its sections: what it sees, why it matters, what to do, sources."""

    id: str
    title: str
    severity: str
    releases: str | None = Field(description="The examined releases of SGLang that have the cause, first..last")
    sections: dict[str, str]
    url: str


class AuditOut(Schema):
    """A line of the audit trail."""

    id: int
    at: datetime
    actor: str
    action: str
    object: str
    detail: dict[str, Any]


class AuditPage(Schema):
    """Some lines, newest first."""

    items: list[AuditOut]
    next: str


class SharePage(Schema):
    """Some links, newest first."""

    items: list[ShareOut]
    next: str


class DeliveryOut(Schema):
    """One attempt to send an alert or a test."""

    at: datetime
    alert: int | None
    is_sent: bool
    status: int | None
    error: str


class ChannelOut(Schema):
    """Where alerts are sent, and the newest deliveries; the address only for those who manage the team."""

    id: str
    kind: str
    address: str | None
    is_on: bool
    deliveries: list[DeliveryOut]
