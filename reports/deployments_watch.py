"""What happens when a report of a team is stored: it joins its series, is compared, and may raise alerts."""

from __future__ import annotations

import logging
from typing import Any

from django.db import transaction
from django.dispatch import receiver

from ingest.models import StoredReport
from ingest.signals import report_stored
from reports import alerts_findings, deployments_changes
from reports.alerts import Thresholds, worth_telling
from reports.alerts_sending import send_alert
from reports.dashboard_search import remember
from reports.deployments_predictions import keep_remedies, settle_predictions
from reports.deployments_series import SPARK_LENGTH, Series, hardware_of, join, series_of
from reports.deployments_starts import baseline_of, beside, beside_pinned
from reports.models import Alert, Comparison
from teams.audit import person_name
from teams.models import Deployment

logger = logging.getLogger(__name__)

OF_LAUNCHES = (
    "launch_count",
    "history",
    "last_outcome",
    "last_stage",
    "last_kv_tokens",
    "last_tokens_change",
    "last_free_gib",
    "last_change",
)
"""What a deployment whose last launch is gone shows no more; it keeps its place, by when that was sent."""


@receiver(report_stored)
def watch(sender: Any, report: StoredReport, **more: Any) -> None:
    """Compare a new report with the launches before it. What goes wrong here must not cost the report itself."""
    try:
        watch_report(report)
    except Exception:
        logger.exception("A report of upload %s was stored, but not compared", report.upload.reference)


def watch_report(report: StoredReport) -> None:
    """Join, compare, follow findings, warn. May run twice on the same report and leaves the same rows."""
    launch = deployments_changes.launch_of(report.document)
    deployment = join(report)
    remember(report)
    if deployment is None or launch is None:
        return
    with transaction.atomic():
        deployment = Deployment.objects.select_for_update().get(pk=deployment.pk)
        series = series_of(deployment, most=max(SPARK_LENGTH, 50))
        is_again = report.upload.reports.exclude(pk=report.pk).exists()
        Comparison.objects.filter(pinned=report).update(pinned=None)  # the report may be here anew
        comparison = compare(deployment, series, report, launch)
        if not series.reports or series.reports[0].upload_id != report.upload_id:
            note_history(deployment, series)
            deployment.save(update_fields=["launch_count", "history"])
            return  # an older log that arrived late changes the history, not the present
        opened = alerts_findings.follow(deployment, report, launch)
        describe(deployment, series, report, launch, comparison)
        alerts_findings.count_open(deployment)
        settle_predictions(deployment, report, launch)
        keep_remedies(deployment, report, launch)
        if not is_again:
            base = comparison.baseline or series.ready_before(report)
            same = comparison.previous is not None and _is_same_log(comparison.previous, report)
            warned = [] if same else worth_telling(report, base, opened, Thresholds.of(deployment.team.settings))
            for warn in warned:
                alert, is_new = Alert.objects.get_or_create(
                    report=report, kind=warn.kind, defaults={"deployment": deployment, "text": warn.text[:500]}
                )
                if is_new:
                    send_alert(alert)


def _is_same_log(one: StoredReport, other: StoredReport) -> bool:
    return bool(one.upload.sha256) and one.upload.sha256 == other.upload.sha256


def compare(deployment: Deployment, series: Series, report: StoredReport, launch: dict[str, Any]) -> Comparison:
    """The stored comparison of a launch with the one before it and with the baseline."""
    previous = series.before(report)
    pinned = baseline_of(deployment)
    baseline = pinned.report if pinned and pinned.report.upload_id != report.upload_id else None
    # all of them: the launch before may have gone to the trash since
    values: dict[str, Any] = {"previous": previous, "baseline": baseline, "pinned": None}
    values |= {"change": "first start", "moved": "", "tokens_change": None, "marks": [], "explained": {}}
    if previous is not None:
        before = deployments_changes.launch_of(previous.document) or {}
        values |= beside(report, launch, previous, before)
        values["marks"] = deployments_changes.marks_between(before, launch)
    if baseline is not None:
        pinned_launch = deployments_changes.launch_of(baseline.document) or {}
        values |= beside_pinned(report, launch, baseline, pinned_launch)
    base = baseline or series.ready_before(report) or previous
    if base is not None:
        values["explained"] = explained(deployments_changes.launch_of(base.document) or {}, launch)
    comparison, _ = Comparison.objects.update_or_create(report=report, defaults=values)
    return comparison


def explained(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The engine's comparison; empty when it cannot compare these two, which costs the explanation and nothing else."""
    try:
        return deployments_changes.explain(before, after)
    except Exception:
        logger.exception("Two launches could not be compared")
        return {}


def describe(
    deployment: Deployment, series: Series, report: StoredReport, launch: dict[str, Any], comparison: Comparison
) -> None:
    """Write what the dashboard shows of a deployment."""
    deployment.model = (report.model or deployment.model)[:300]
    deployment.hardware = (hardware_of(launch) or deployment.hardware)[:120]
    deployment.last_outcome = report.outcome
    deployment.last_stage = report.stage
    deployment.last_kv_tokens = report.kv_tokens
    deployment.last_tokens_change = comparison.tokens_change
    deployment.last_free_gib = report.free_gib
    deployment.last_change = comparison.change
    deployment.last_upload_at = report.upload.created_at
    deployment.last_uploader = person_name(report.upload.uploader)[:150]
    note_history(deployment, series)
    deployment.save()


def note_history(deployment: Deployment, series: Series) -> None:
    """Count a deployment's launches and draw their tokens anew, on the row that the dashboard reads."""
    deployment.launch_count = deployment.uploads.filter(deleted_at=None).count()
    deployment.history = [[each.kv_tokens, each.outcome] for each in reversed(series.reports[:SPARK_LENGTH])]


def refresh(deployment: Deployment) -> None:
    """Tell the dashboard anew, after uploads were moved, deleted or restored."""
    series = series_of(deployment, most=SPARK_LENGTH)
    if not series.reports:
        for column in OF_LAUNCHES:
            setattr(deployment, column, Deployment._meta.get_field(column).get_default())
        deployment.save(update_fields=OF_LAUNCHES)
        return
    newest = series.reports[0]
    launch = deployments_changes.launch_of(newest.document) or {}
    with transaction.atomic():
        describe(deployment, series, newest, launch, compare(deployment, series, newest, launch))
        alerts_findings.follow(deployment, newest, launch)
        alerts_findings.count_open(deployment)
