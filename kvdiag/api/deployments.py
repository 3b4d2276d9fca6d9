"""Deployments with their launches and baselines, findings over time, alerts."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from ninja import Path, Query, Router, Status

from ingest.answers import absolute
from ingest.models import StoredReport
from kvdiag.api.callers import Token, must, must_read, spend, team_of
from kvdiag.api.problems import No, Problem, answers
from kvdiag.api.reports import Id
from kvdiag.api.schemas import (
    AlertPage,
    BadgeOut,
    BaselineIn,
    DeploymentIn,
    DeploymentOut,
    DeploymentPage,
    FindingIn,
    FindingOut,
    FindingPage,
    LaunchOut,
    MergeIn,
    PredictionOut,
)
from reports import badges
from reports.alerts_findings import set_state
from reports.cursor import page
from reports.deployments import merge as merge_into
from reports.deployments import pin, unpin
from reports.deployments_predictions import drop_scenario, predictions_of
from reports.deployments_series import series_of
from reports.models import Alert, Badge, Comparison, Prediction, TrackedFinding
from teams import access, deployments
from teams.access import Action
from teams.audit import person_name
from teams.models import Deployment, Membership

router = Router(tags=["deployments"])
SHOWN_WITH = ("owner", "baseline__report__upload")
PINNED_DOCUMENT = "baseline__report__document"


def find(request: HttpRequest, deployment_id: str) -> Deployment:
    """The deployment, in the token's team; 404 elsewhere."""
    must_read(request)
    visible = access.visible(Deployment, to=request.user).select_related("team", *SHOWN_WITH).defer(PINNED_DOCUMENT)
    found: Deployment = get_object_or_404(visible, public_id=deployment_id)
    return found


def asked_for(request: HttpRequest, deployment_id: str, action: Action) -> tuple[Any, Deployment]:
    """The caller and the deployment, with which she may do this; raises a 403 otherwise. Counts the request."""
    user = spend(request)
    deployment = find(request, deployment_id)
    must(user, action, deployment)
    return user, deployment


def shown(request: HttpRequest, each: Deployment) -> dict[str, Any]:
    """A deployment as the API gives it."""
    pinned = each.baseline.report.upload if hasattr(each, "baseline") else None
    return {
        "id": each.public_id,
        "key": each.key,
        "name": each.name,
        "owner": person_name(each.owner),
        "model": each.model,
        "hardware": each.hardware,
        "launch_count": each.launch_count,
        "open_findings": each.open_findings,
        "worst_severity": each.last_severity,
        "outcome": each.last_outcome,
        "kv_tokens": each.last_kv_tokens,
        "tokens_change": each.last_tokens_change,
        "free_gib": each.last_free_gib,
        "change": each.last_change,
        "last_upload_at": each.last_upload_at,
        "baseline": pinned.public_id if pinned is not None and pinned.deleted_at is None else None,
        "url": absolute(request, f"/deployments/{each.public_id}/"),
    }


@router.get("/deployments", auth=Token(), response=answers(200, DeploymentPage, 400), summary="List deployments")
def list_deployments(
    request: HttpRequest,
    q: Annotated[str, Query(max_length=200)] = "",
    cursor: Annotated[str, Query(max_length=300)] = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
) -> Any:
    """Those with a launch, newest first."""
    spend(request)
    must_read(request)
    found = Deployment.objects.filter(team=team_of(request), merged_into=None, last_upload_at__isnull=False)
    for word in q.replace("\0", "").split()[:6]:
        found = found.filter(name__icontains=word)
    found = found.select_related(*SHOWN_WITH).defer(PINNED_DOCUMENT)
    rows = page(found, by="last_upload_at", size=limit, cursor=cursor)
    return {"items": [shown(request, each) for each in rows.rows], "next": rows.next}


@router.get(
    "/deployments/{deployment_id}", auth=Token(), response=answers(200, DeploymentOut), summary="One deployment"
)
def read_deployment(request: HttpRequest, deployment_id: Path[Id]) -> Any:
    """A deployment with its newest launch."""
    spend(request)
    return shown(request, find(request, deployment_id))


@router.patch(
    "/deployments/{deployment_id}", auth=Token(), response=answers(200, DeploymentOut), summary="Rename or hand over"
)
def change_deployment(request: HttpRequest, deployment_id: Path[Id], change: DeploymentIn) -> Any:
    """Give a deployment another name or owner."""
    user, deployment = asked_for(request, deployment_id, Action.EDIT)
    if change.owner is not None:
        member = Membership.objects.select_related("user").filter(
            team=deployment.team, user__email__iexact=change.owner
        )
        if (found := member.first()) is None:
            raise No(422, "invalid", "owner: no member of the team has this address.")
        deployments.give_deployment(deployment, found.user, by=user)
    if change.name is not None and change.name.strip():
        deployments.rename_deployment(deployment, change.name, by=user)
    return shown(request, deployment)


@router.post(
    "/deployments/{deployment_id}/merge",
    auth=Token(),
    response=answers(200, DeploymentOut),
    summary="Merge into another",
)
def merge_deployment(request: HttpRequest, deployment_id: Path[Id], merge: MergeIn) -> Any:
    """Move all launches into another deployment; later ones with the old key follow."""
    user = spend(request)
    deployment, target = find(request, deployment_id), find(request, merge.into)
    must(user, Action.EDIT, deployment)
    if deployment.pk == target.pk or target.merged_into_id is not None:
        raise No(422, "invalid", "into: name another deployment that is not merged itself.")
    merge_into(deployment, target, by=user)
    return shown(request, target)


@router.get(
    "/deployments/{deployment_id}/launches",
    auth=Token(),
    response=answers(200, list[LaunchOut]),
    summary="Its launches",
)
def read_launches(
    request: HttpRequest, deployment_id: Path[Id], limit: Annotated[int, Query(ge=1, le=200)] = 50
) -> Any:
    """The newest launches with what changed, what that moved, and the explained difference with the baseline."""
    spend(request)
    reports = series_of(find(request, deployment_id), most=limit).reports
    comparisons = {each.report_id: each for each in Comparison.objects.filter(report__in=reports)}
    rows = []
    for report in reports:
        told = comparisons.get(report.pk)
        figures = ("outcome", "kv_tokens", "free_gib", "weights_gib", "ready_after_s", "release")
        rows.append(
            {
                "report": report.upload.public_id,
                "created_at": report.upload.created_at,
                **{name: getattr(report, name) for name in figures},
                "change": told.change if told else "",
                "moved": told.moved if told else "",
                "tokens_change": told.tokens_change if told else None,
                "explained": told.explained if told else {},
            }
        )
    return rows


@router.get(
    "/deployments/{deployment_id}/predictions",
    auth=Token(),
    response=answers(200, list[PredictionOut]),
    summary="Its predictions",
)
def read_predictions(
    request: HttpRequest, deployment_id: Path[Id], limit: Annotated[int, Query(ge=1, le=200)] = 50
) -> Any:
    """Scenarios that were kept, tried or not, and remedies that were tried; newest first."""
    spend(request)
    return [prediction_shown(each) for each in predictions_of(find(request, deployment_id))[:limit]]


def prediction_shown(each: Prediction) -> dict[str, Any]:
    """A prediction as the API gives it."""
    return {
        "id": each.pk,
        "report": each.report.upload.public_id,
        "kept_by": each.kept_by_name,
        "outcome": each.outcome.upload.public_id if each.outcome else None,
        "printed_free_gib": each.outcome.free_gib if each.outcome else None,
        **{
            name: getattr(each, name)
            for name in ("change", "made_at", "tokens", "free_gib", "printed_tokens", "error_percent")
        },
    }


@router.delete(
    "/predictions/{prediction_id}", auth=Token(), response=answers(204, None), summary="Forget a kept scenario"
)
def drop_prediction(request: HttpRequest, prediction_id: Annotated[int, Path(ge=1, le=2**62)]) -> Any:
    """Forget a scenario that was kept."""
    user = spend(request)
    must_read(request)
    kept = access.visible(Prediction, to=user).exclude(kept_by_name="").select_related("deployment__team")
    prediction = get_object_or_404(kept, pk=prediction_id)
    must(user, Action.EDIT, prediction)
    drop_scenario(prediction, by=user)
    return Status(204, None)


@router.put(
    "/deployments/{deployment_id}/baseline", auth=Token(), response=answers(204, None), summary="Pin the baseline"
)
def put_baseline(request: HttpRequest, deployment_id: Path[Id], baseline: BaselineIn) -> Any:
    """Compare new launches with this one."""
    user, deployment = asked_for(request, deployment_id, Action.EDIT)
    reports = StoredReport.objects.filter(upload__deployment=deployment, upload__deleted_at=None)
    report = reports.filter(upload__public_id=baseline.report).order_by("-created_at", "-pk").first()
    if report is None:
        raise No(422, "invalid", "report: it is not a ready report of this deployment.")
    pin(deployment, report, by=user)
    return Status(204, None)


@router.delete(
    "/deployments/{deployment_id}/baseline", auth=Token(), response=answers(204, None), summary="Take the pin out"
)
def drop_baseline(request: HttpRequest, deployment_id: Path[Id]) -> Any:
    """Compare new launches with the one before again."""
    user, deployment = asked_for(request, deployment_id, Action.EDIT)
    unpin(deployment, by=user)
    return Status(204, None)


# --- The badge --------------------------------------------------------------------------------------------------------


def badge_shown(badge: Badge | None, url: str | None = None) -> dict[str, Any]:
    """A badge without its address, but for the answer that makes it."""
    return {
        "is_on": badge is not None,
        "hint": badge.hint if badge else None,
        "made_at": badge.made_at if badge else None,
        "made_by": badge.made_by_name if badge else None,
        "url": url,
        "markdown": badges.markdown_of(url) if url else None,
    }


@router.get(
    "/deployments/{deployment_id}/badge",
    auth=Token(),
    response=answers(200, BadgeOut),
    summary="Whether it has a badge",
)
def read_badge(request: HttpRequest, deployment_id: Path[Id]) -> Any:
    """The badge in force, without its address."""
    _, deployment = asked_for(request, deployment_id, Action.SHARE)
    return badge_shown(badges.badges_of(deployment).first())


@router.post(
    "/deployments/{deployment_id}/badge", auth=Token(), response=answers(201, BadgeOut), summary="Make its badge"
)
def make_badge(request: HttpRequest, deployment_id: Path[Id]) -> Any:
    """A picture for a README that says how the newest start ended, and nothing else. An earlier one ends."""
    user, deployment = asked_for(request, deployment_id, Action.SHARE)
    try:
        badge, token = badges.make_badge(deployment, by=user)
    except badges.Refused as refused:
        raise No(422, "invalid", str(refused)) from None
    return Status(201, badge_shown(badge, absolute(request, badges.address_of(token))))


@router.delete(
    "/deployments/{deployment_id}/badge", auth=Token(), response=answers(204, None), summary="Switch its badge off"
)
def drop_badge(request: HttpRequest, deployment_id: Path[Id]) -> Any:
    """The address shows "unknown" from then on, as one that never was."""
    user, deployment = asked_for(request, deployment_id, Action.SHARE)
    badges.end_badges(deployment, by=user)
    return Status(204, None)


# --- Findings ---------------------------------------------------------------------------------------------------------


def finding_shown(each: TrackedFinding) -> dict[str, Any]:
    """A finding over time as the API gives it."""
    names = (
        "rule", "severity", "summary", "state", "reason", "muted_until", "first_seen", "last_seen", "first_release",
        "last_release",
    )  # fmt: skip
    return {
        "id": each.public_id,
        "deployment": each.deployment.public_id,
        "report": each.last_upload.public_id if each.last_upload else None,
        **{name: getattr(each, name) for name in names},
    }


def _findings(request: HttpRequest) -> Any:
    must_read(request)
    found = access.visible(TrackedFinding, to=request.user).select_related("deployment__team", "last_report__upload")
    return found.defer("last_report__document")


@router.get("/findings", auth=Token(), response=answers(200, FindingPage, 400), summary="Findings over all deployments")
def list_findings(
    request: HttpRequest,
    state: Annotated[str, Query(max_length=20)] = "",
    rule: Annotated[str, Query(max_length=100)] = "",
    severity: Annotated[str, Query(max_length=20)] = "",
    deployment: Annotated[str, Query(max_length=40)] = "",
    cursor: Annotated[str, Query(max_length=300)] = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
) -> Any:
    """Findings with their state, last seen first."""
    spend(request)
    found = _findings(request)
    asked = {"state": state, "rule": rule, "severity": severity, "deployment__public_id": deployment}
    found = found.filter(**{name: value.replace("\0", "") for name, value in asked.items() if value})
    rows = page(found, by="last_seen", size=limit, cursor=cursor)
    return {"items": [finding_shown(each) for each in rows.rows], "next": rows.next}


@router.patch(
    "/findings/{finding_id}", auth=Token(), response=answers(200, FindingOut), summary="Acknowledge, mute, reopen"
)
def change_finding(request: HttpRequest, finding_id: Path[Id], change: FindingIn) -> Any:
    """Set a finding's state."""
    user = spend(request)
    tracked = get_object_or_404(_findings(request), public_id=finding_id)
    must(user, Action.EDIT, tracked)
    until = None
    if change.until is not None:
        today = timezone.localdate()
        if not today < change.until <= today + timedelta(days=366):
            raise No(422, "invalid", "until: a day to come, within a year.")
        until = timezone.make_aware(datetime(change.until.year, change.until.month, change.until.day, 23, 59))
    try:
        set_state(tracked, change.state, by=user, reason=change.reason, until=until)
    except ValueError as wrong:
        raise No(422, "invalid", f"{wrong}.") from None
    return finding_shown(tracked)


METRICS = {
    "kvdiag_kv_tokens": ("KV tokens on each rank after the newest start", "last_kv_tokens"),
    "kvdiag_free_gib": ("GiB free after the newest start, on the rank with the least", "last_free_gib"),
    "kvdiag_open_findings": ("Open findings of severity advice or worse", "open_findings"),
}
MOST_MEASURED = 1000
PLAIN = {"description": "OK", "content": {"text/plain": {"schema": {"type": "string"}}}}


@router.get(
    "/metrics",
    auth=Token(),
    response=answers(404, Problem),
    openapi_extra={"responses": {200: PLAIN}},
    summary="Deployments for Prometheus",
)
def metrics(request: HttpRequest) -> Any:
    """Tokens, free memory, open findings and readiness of each deployment; a figure that no log gave is left out."""
    spend(request)
    must_read(request)
    rows = Deployment.objects.filter(team=team_of(request), merged_into=None, launch_count__gt=0)
    found = [(_label(each.name), each) for each in rows.order_by("-last_upload_at")[:MOST_MEASURED]]
    lines = []
    for name, (words, column) in METRICS.items():
        values = [(label, getattr(each, column)) for label, each in found]
        lines += [f"# HELP {name} {words}", f"# TYPE {name} gauge"]
        lines += [f'{name}{{deployment="{label}"}} {value}' for label, value in values if value is not None]
    lines += ["# HELP kvdiag_ready Whether the newest start became ready", "# TYPE kvdiag_ready gauge"]
    ended = [(label, each.last_outcome) for label, each in found if each.last_outcome in ("ready", "failed")]
    lines += [f'kvdiag_ready{{deployment="{label}"}} {int(outcome == "ready")}' for label, outcome in ended]
    return HttpResponse("\n".join(lines) + "\n", content_type="text/plain; version=0.0.4; charset=utf-8")


def _label(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", " ")


@router.get("/alerts", auth=Token(), response=answers(200, AlertPage, 400), summary="Alerts")
def list_alerts(
    request: HttpRequest,
    cursor: Annotated[str, Query(max_length=300)] = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
) -> Any:
    """What was worth telling, newest first."""
    spend(request)
    must_read(request)
    found = (
        access.visible(Alert, to=request.user).select_related("deployment", "report__upload").defer("report__document")
    )
    rows = page(found, by="at", size=limit, cursor=cursor)
    items = [
        {
            "id": each.pk,
            "deployment": each.deployment.public_id,
            "report": each.report.upload.public_id,
            "kind": each.kind,
            "text": each.text,
            "at": each.at,
        }
        for each in rows.rows
    ]
    return {"items": items, "next": rows.next}
