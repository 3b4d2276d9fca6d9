"""The life of a finding over a deployment’s launches: open, gone, back again; acknowledged or muted by somebody."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils import timezone

from ingest.models import StoredReport
from reports.document import listed
from reports.models import TrackedFinding
from reports.words import SEVERITIES
from teams.audit import person_name, record
from teams.models import Deployment

State = TrackedFinding.State


def follow(deployment: Deployment, report: StoredReport, launch: dict[str, Any]) -> list[TrackedFinding]:
    """Bring a deployment's findings up to its newest launch; the ones that opened or came back are returned.

    A rule that could not run says nothing: its finding keeps its state. An acknowledged or muted finding stays so
    while the launches go on showing it, and counts as back when it had gone in between.
    """
    now, seen_at = timezone.now(), report.upload.created_at
    known = {each.rule: each for each in deployment.findings.select_for_update()}
    seen = _by_rule(listed(launch, "findings"))
    opened = []
    for rule, finding in seen.items():
        tracked = known.get(rule)
        if tracked is None:
            tracked = TrackedFinding(
                deployment=deployment,
                rule=rule,
                first_report=report,
                first_seen=seen_at,
                first_release=report.release[:40],
            )
            opened.append(tracked)
        elif tracked.state == State.GONE:
            tracked.state, tracked.reason, tracked.muted_until = State.REGRESSED, "", None
            opened.append(tracked)
        elif tracked.state == State.MUTED and tracked.muted_until and tracked.muted_until <= now:
            tracked.state, tracked.muted_until = State.OPEN, None
        tracked.severity = str(finding.get("severity") or "info")[:20]
        tracked.summary = str(finding.get("summary") or rule)[:500]
        tracked.last_report, tracked.last_seen, tracked.last_release = report, seen_at, report.release[:40]
        tracked.save()
    silent = {each.get("rule") for each in listed(launch, "not_run")}
    for rule, tracked in known.items():
        if (
            rule not in seen
            and rule not in silent
            and tracked.state != State.GONE
            and launch.get("outcome") != "incomplete"
        ):
            tracked.state = State.GONE
            tracked.save(update_fields=["state"])
    return opened


def _by_rule(findings: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """One finding for each rule: its most severe."""
    ranked = sorted(findings, key=lambda each: _rank(each.get("severity")), reverse=True)
    return {str(each.get("rule"))[:100]: each for each in ranked if each.get("rule")}


def _rank(severity: Any) -> int:
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)


def set_state(tracked: TrackedFinding, state: str, *, by: Any, reason: str = "", until: datetime | None = None) -> None:
    """Acknowledge, mute (with a reason, until a date) or reopen a finding. Raises ValueError for other states.

    A mute without an end would outlive the reason for it, so it needs one.
    """
    if state not in (State.OPEN, State.ACKNOWLEDGED, State.MUTED):
        raise ValueError("only open, acknowledged and muted are set by hand")
    if state == State.MUTED and (until is None or not reason.strip()):
        raise ValueError("a mute needs a reason and an end date")
    tracked.state = state
    tracked.reason = reason.strip()[:300]
    tracked.muted_until = until if state == State.MUTED else None
    tracked.changed_by_name, tracked.changed_at = person_name(by)[:150], timezone.now()
    tracked.save()
    record(
        by, f"finding.{state}", team=tracked.deployment.team, object=tracked.rule, deployment=tracked.deployment.name
    )
    count_open(tracked.deployment)


def count_open(deployment: Deployment) -> None:
    """Write what the dashboard shows of a deployment's findings: how many are open, and the worst."""
    severities = list(
        deployment.findings.filter(state__in=TrackedFinding.COUNTED)
        .exclude(severity="info")
        .values_list("severity", flat=True)
    )
    deployment.open_findings = len(severities)
    deployment.last_severity = min(severities, key=_rank, default="")
    deployment.save(update_fields=["open_findings", "last_severity"])


def wake_muted() -> int:
    """Reopen findings whose mute has ended; the number of them."""
    ended = TrackedFinding.objects.filter(state=State.MUTED, muted_until__lte=timezone.now()).select_related(
        "deployment"
    )
    for tracked in ended:
        tracked.state, tracked.muted_until = State.OPEN, None
        tracked.save(update_fields=["state", "muted_until"])
        count_open(tracked.deployment)
    return len(ended)
