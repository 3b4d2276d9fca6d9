"""A deployment's page: its launches over time, what each changed, the baseline, and what is open."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from ingest.models import StoredReport
from reports.alerts import Thresholds
from reports.deployments_history import budgets, history
from reports.deployments_predictions import predictions_of
from reports.deployments_series import UNSHOWN, series_of
from reports.deployments_starts import against_baseline, against_previous, baseline_of, keep_against, timed, times_of
from reports.deployments_watch import refresh
from reports.models import Alert, Badge, Baseline, Comparison, Prediction, SearchEntry, TrackedFinding
from reports.words import SEVERITIES
from teams import access, deployments
from teams.access import Action
from teams.audit import record
from teams.models import Deployment, Membership

MOST_LAUNCHES = 200
MOST_STARTS = 50  # rows of the table; the drawing has all
MOST_BUDGETS = 12
MOST_PREDICTIONS = 12
PERIODS = {"35": "5 weeks", "182": "6 months", "all": "All"}


def find(request: HttpRequest, public_id: str) -> Deployment:
    """The deployment of this address, among those the reader may see; 404 for every other."""
    visible = access.visible(Deployment, to=request.user).select_related("team", "owner", "merged_into")
    return get_object_or_404(visible, public_id=public_id)


@login_required
@require_GET
def deployment_page(request: HttpRequest, public_id: str) -> HttpResponse:
    """History, starts, budgets, baseline, predictions and open findings of one deployment."""
    deployment = find(request, public_id)
    if deployment.merged_into is not None:
        return redirect("deployment", public_id=deployment.merged_into.public_id)
    series = series_of(deployment, most=MOST_LAUNCHES)
    period = request.GET.get("period", "all")
    shown = series.reports
    if period in ("35", "182"):
        since = timezone.now() - timedelta(days=int(period))
        shown = tuple(each for each in shown if each.upload.created_at >= since)
    starts = shown[:MOST_STARTS]
    compared = Comparison.objects.filter(report__in=starts).select_related("previous__upload")
    compared = compared.defer("explained", *(f"previous__{column}" for column in ("document", *UNSHOWN)))
    comparisons = {each.report_id: each for each in compared}
    marks = dict(Comparison.objects.filter(report__in=shown).values_list("report_id", "marks"))
    baseline = baseline_of(deployment)
    rows = against_baseline(starts, comparisons, baseline.report) if baseline else against_previous(starts, comparisons)
    times = times_of([*starts, baseline.report] if baseline else starts)
    predictions = list(predictions_of(deployment)[:MOST_PREDICTIONS])
    context = {
        "section": "dashboard",
        "deployment": deployment,
        "team": deployment.team,
        "newest": series.reports[0] if series.reports else None,
        "oldest": series.reports[-1] if series.reports else None,
        "history": history(shown, marks, baseline.report if baseline else None),
        "starts": timed(rows, times),
        "times": times,
        "is_against_baseline": baseline is not None,
        "more_starts": max(0, len(shown) - MOST_STARTS),
        "budgets": budgets(_with_documents(shown[:MOST_BUDGETS])),
        "baseline": baseline,
        "thresholds": Thresholds.of(deployment.team.settings),
        "findings": sorted(
            deployment.findings.filter(state__in=TrackedFinding.COUNTED).order_by("-last_seen"),
            key=lambda each: SEVERITIES.index(each.severity) if each.severity in SEVERITIES else len(SEVERITIES),
        ),
        "predictions": predictions,
        "last_prediction": next((each for each in predictions if each.error_percent is not None), None),
        "alerts": deployment.alerts.select_related("report__upload").defer("report__document").order_by("-at")[:8],
        "period": period,
        "periods": PERIODS.items(),
        "may_edit": access.may(request.user, Action.EDIT, deployment),
        "may_share": access.may(request.user, Action.SHARE, deployment),
        "others": Deployment.objects.filter(team=deployment.team, merged_into=None)
        .exclude(pk=deployment.pk)
        .order_by("name")
        .values("public_id", "name")[:200],
        "members": Membership.objects.filter(team=deployment.team).select_related("user"),
    }
    return render(request, "reports/deployment.html", context)


def _with_documents(reports: tuple[StoredReport, ...]) -> list[StoredReport]:
    """The same reports with their documents, in one query."""
    found = StoredReport.objects.filter(pk__in=[each.pk for each in reports]).select_related("upload")
    order = {each.pk: place for place, each in enumerate(reports)}
    return sorted(found, key=lambda each: order[each.pk])


def _editable(request: HttpRequest, public_id: str) -> tuple[Deployment, HttpResponse | None]:
    deployment = find(request, public_id)
    if access.may(request.user, Action.EDIT, deployment):
        return deployment, None
    return deployment, render(request, "teams/not_allowed.html", {"team": deployment.team}, status=403)


@login_required
@require_POST
def deployment_change(request: HttpRequest, public_id: str) -> HttpResponse:
    """Rename a deployment, give it to another member, or merge it into another."""
    deployment, refused = _editable(request, public_id)
    if refused:
        return refused
    target: Any = deployment
    if name := request.POST.get("name", "").strip():
        deployments.rename_deployment(deployment, name, by=request.user)
    if request.POST.get("owner", "").isdecimal():
        member = get_object_or_404(
            Membership.objects.select_related("user"), team=deployment.team, user=int(request.POST["owner"][:18])
        )
        deployments.give_deployment(deployment, member.user, by=request.user)
    if into := request.POST.get("into", ""):
        whole = access.visible(Deployment, to=request.user).filter(merged_into=None)
        target = get_object_or_404(whole, public_id=into, team=deployment.team)
        if target.pk != deployment.pk:
            merge(deployment, target, by=request.user)
            messages.success(request, f"{deployment.name} is part of {target.name} now.")
    return redirect("deployment", public_id=target.public_id)


def merge(source: Deployment, target: Deployment, *, by: Any) -> None:
    """Move all launches of one deployment into another, with their history, findings and place in the search.

    The target keeps its baseline; without one it takes the source's.
    """
    with transaction.atomic():
        deployments.merge_deployments(source, target, by=by)
        pinned = Baseline.objects.filter(deployment=source)
        if Baseline.objects.filter(deployment=target).exists():
            pinned.delete()
        else:
            pinned.update(deployment=target)
        for kept in (SearchEntry, Prediction, Alert, Badge):
            kept.objects.filter(deployment=source).update(deployment=target)
        refresh(target)
        if baseline := baseline_of(target):
            keep_against(series_of(target, most=MOST_STARTS).reports, baseline.report)


@login_required
@require_POST
def pin_baseline(request: HttpRequest, public_id: str) -> HttpResponse:
    """Compare new launches with this one from now on; an empty choice takes the pin out."""
    deployment, refused = _editable(request, public_id)
    if refused:
        return refused
    chosen = request.POST.get("report", "")
    if not chosen:
        unpin(deployment, by=request.user)
    else:
        report = get_object_or_404(
            StoredReport.objects.filter(upload__deployment=deployment, upload__deleted_at=None).order_by("-created_at"),
            pk=int(chosen[:18]) if chosen.isdecimal() else 0,
        )
        pin(deployment, report, by=request.user)
        messages.success(request, "Pinned. New launches are compared with it.")
    return redirect("deployment", public_id=deployment.public_id)


def pin(deployment: Deployment, report: StoredReport, *, by: Any) -> Baseline:
    """Make a launch the deployment's baseline."""
    values = {"report": report, "pinned_by": by, "pinned_at": timezone.now()}
    baseline, _ = Baseline.objects.update_or_create(deployment=deployment, defaults=values)
    record(by, "baseline.pin", team=deployment.team, object=deployment.name, report=report.upload.public_id)
    keep_against(series_of(deployment, most=MOST_STARTS).reports, report)
    return baseline


def unpin(deployment: Deployment, *, by: Any) -> None:
    """Take the pin out: new launches are compared with the one before again."""
    Baseline.objects.filter(deployment=deployment).delete()
    record(by, "baseline.unpin", team=deployment.team, object=deployment.name)
