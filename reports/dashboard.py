"""A team's dashboard: its deployments, recent uploads and open findings; and the search over all its reports."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Count, F, Q, QuerySet, Value
from django.db.models.functions import Coalesce, Lower
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from ingest.models import StoredReport, Upload
from reports.cursor import BadCursor, page
from reports.dashboard_search import found_reports
from reports.dashboard_spark import Spark, spark
from reports.models import SavedView, TrackedFinding
from reports.words import SEVERITIES
from teams import access
from teams.access import Action
from teams.audit import record
from teams.current import current_team
from teams.models import Deployment, Team

ROWS = 25
RECENT = 6
ROOM_RULES = ("big-free-memory-left", "fraction-too-low", "cap-below-memory")
STATES = {
    "failed": ("Failed", Q(last_outcome="failed")),
    "warnings": ("Warning or worse", Q(last_severity__in=("critical", "warning"))),
    "incomplete": ("Log ends early", Q(last_outcome="incomplete")),
    "quiet": ("Nothing to fix", Q(open_findings=0, last_outcome="ready")),
}
SORTS = {
    "recent": ("last_upload_at", True),
    "name": ("sort_key", False),
    "tokens": ("sort_key", True),
    "free": ("sort_key", True),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One deployment as the table shows it."""

    deployment: Deployment
    spark: Spark | None
    severity: str
    count: int


@login_required
@require_GET
def dashboard(request: HttpRequest) -> HttpResponse:
    """Deployments with their newest launch. Filters, search and order are in the address. Reads columns only."""
    team = current_team(request)
    if team is None:
        return render(request, "reports/dashboard_no_team.html", {"section": "dashboard"})
    everything = Deployment.objects.filter(team=team, merged_into=None, launch_count__gt=0)
    counts = everything.aggregate(all=Count("pk"), **{name: Count("pk", filter=q) for name, (_, q) in STATES.items()})
    try:
        found = page(*_ordered(filtered(everything, request.GET), request.GET), size=ROWS, **_way(request.GET))
    except BadCursor as bad:
        raise Http404(str(bad)) from None
    week = timezone.now() - timedelta(days=7)
    context = {
        "section": "dashboard",
        "team": team,
        "teams": access.teams_of(request.user),
        "rows": rows_of(found.rows),
        "next": found.next,
        "counts": counts,
        "states": [(name, label, counts[name]) for name, (label, _) in STATES.items()],
        "state": request.GET.get("state", ""),
        "q": request.GET.get("q", ""),
        "sort": request.GET.get("sort", "recent"),
        "is_filtered": any(request.GET.get(name) for name in ("q", "state", "owner", "after")),
        "member_count": team.memberships.count(),
        "week_count": Upload.objects.filter(team=team, created_at__gte=week).count(),
        "recent": recent_uploads(team),
        "findings": open_findings(team)[:RECENT],
        "views": SavedView.objects.filter(team=team, page="dashboard").filter(Q(owner=None) | Q(owner=request.user)),
        "may_edit": access.may(request.user, Action.EDIT, team),
        "query": _without(request.GET, "after"),
        "site": request.build_absolute_uri("/"),
        "tokens": team.api_tokens.filter(user=request.user, revoked_at=None).exists() if not counts["all"] else True,
    }
    return render(request, "reports/dashboard.html", context)


def filtered(deployments: QuerySet[Deployment], asked: QueryDict) -> QuerySet[Deployment]:
    """Only what the address asks for: a state, an owner, words in name, model or hardware."""
    state, words = asked.get("state", ""), asked.get("q", "").replace("\0", "").split()[:6]
    if state in STATES:
        deployments = deployments.filter(STATES[state][1])
    if state == "room":
        open_room = TrackedFinding.objects.filter(rule__in=ROOM_RULES, state__in=TrackedFinding.COUNTED)
        deployments = deployments.filter(pk__in=open_room.values("deployment"))
    if asked.get("owner", "").isdecimal():
        deployments = deployments.filter(owner=int(asked["owner"][:18]))
    for word in words:
        deployments = deployments.filter(
            Q(name__icontains=word)
            | Q(model__icontains=word)
            | Q(hardware__icontains=word)
            | Q(last_uploader__icontains=word)
        )
    return deployments


def _ordered(deployments: QuerySet[Deployment], asked: QueryDict) -> tuple[QuerySet[Deployment]]:
    keys = {
        "name": Lower("name"),
        "tokens": Coalesce(F("last_kv_tokens"), Value(-1)),
        "free": Coalesce(F("last_free_gib"), Value(-1.0)),
    }
    if asked.get("sort") in keys:
        deployments = deployments.annotate(sort_key=keys[asked["sort"]])
    else:
        deployments = deployments.filter(last_upload_at__isnull=False)
    return (deployments.select_related("owner"),)


def _way(asked: QueryDict) -> dict[str, Any]:
    by, descending = SORTS.get(asked.get("sort", ""), SORTS["recent"])
    return {"by": by, "descending": descending, "cursor": asked.get("after", "")}


def rows_of(deployments: list[Deployment]) -> list[Row]:
    """The table's rows; one query tells the open findings of all of them."""
    grouped = (
        TrackedFinding.objects.filter(
            deployment__in=[each.pk for each in deployments], state__in=TrackedFinding.COUNTED
        )
        .values_list("deployment", "severity")
        .annotate(count=Count("pk"))
    )
    counts: dict[int, dict[str, int]] = {}
    for deployment, severity, count in grouped:
        counts.setdefault(deployment, {})[severity] = count
    rows = []
    for each in deployments:
        own = counts.get(each.pk, {})
        worst = next((severity for severity in SEVERITIES[:3] if severity in own), "")
        rows.append(Row(each, spark(each.history), worst, own.get(worst, 0)))
    return rows


def recent_uploads(team: Team) -> list[Upload]:
    """The newest uploads with the outcome of their newest report, in two queries."""
    uploads = list(
        Upload.objects.filter(team=team, deleted_at=None)
        .select_related("uploader", "deployment")
        .order_by("-created_at", "-id")[:RECENT]
    )
    return with_reports(uploads)


def with_reports(uploads: list[Upload]) -> list[Upload]:
    """Uploads with their newest report as `newest`, without its document."""
    newest: dict[int, StoredReport] = {}
    for report in StoredReport.objects.filter(upload__in=uploads).defer("document").order_by("created_at", "id"):
        newest[report.upload_id] = report
    for upload in uploads:
        upload.newest = newest.get(upload.pk)  # type: ignore[attr-defined]
    return uploads


def open_findings(team: Team) -> QuerySet[TrackedFinding]:
    """A team's open findings, worst first."""
    return (
        TrackedFinding.objects.filter(
            deployment__team=team, deployment__merged_into=None, state__in=TrackedFinding.COUNTED
        )
        .exclude(severity="info")
        .select_related("deployment", "last_report__upload")
        .defer("last_report__document")
        .order_by(_by_severity(), "-last_seen", "-pk")
    )


def _by_severity() -> Any:
    from django.db.models import Case, IntegerField, When

    whens = [When(severity=severity, then=Value(place)) for place, severity in enumerate(SEVERITIES)]
    return Case(*whens, default=Value(len(SEVERITIES)), output_field=IntegerField())


def _without(asked: QueryDict, *names: str) -> str:
    kept = asked.copy()
    for name in names:
        kept.pop(name, None)
    return kept.urlencode()


@login_required
@require_GET
def report_list(request: HttpRequest) -> HttpResponse:
    """All reports of a team, newest first; words are sought in name, model, release, verdict and deployment."""
    team = current_team(request)
    if team is None:
        return redirect("dashboard")
    try:
        reports, following = found_reports(team, request.GET, size=50, cursor=request.GET.get("after", ""))
    except BadCursor as bad:
        raise Http404(str(bad)) from None
    context = {
        "section": "dashboard",
        "team": team,
        "reports": reports,
        "next": following,
        "q": request.GET.get("q", ""),
        "outcome": request.GET.get("outcome", ""),
        "severity": request.GET.get("severity", ""),
        "query": _without(request.GET, "after"),
        "may_edit": access.may(request.user, Action.DELETE, team),
    }
    return render(request, "reports/report_list.html", context)


@login_required
@require_POST
def save_view(request: HttpRequest) -> HttpResponse:
    """Keep the filters at hand under a name: for oneself, or, by an editor, for the team."""
    team = current_team(request)
    if team is None:
        raise Http404
    name, query = request.POST.get("name", "").strip()[:80], request.POST.get("query", "")[:500]
    for_team = request.POST.get("for") == "team"
    if for_team and not access.may(request.user, Action.EDIT, team):
        return render(request, "teams/not_allowed.html", {"team": team}, status=403)
    kept = QueryDict(query, mutable=True)
    kept.pop("after", None)
    where = request.POST.get("page") if request.POST.get("page") in ("dashboard", "findings") else "dashboard"
    if name:
        SavedView.objects.create(
            team=team, owner=None if for_team else request.user, name=name, query=kept.urlencode(), page=where
        )
        if for_team:
            record(request.user, "view.save", team=team, object=name)
        messages.success(request, f"Saved as “{name}”.")
    return redirect(f"{reverse(where)}?{kept.urlencode()}")


@login_required
@require_POST
def drop_view(request: HttpRequest, public_id: str) -> HttpResponse:
    """Forget a saved view: one's own, or, as an editor, the team's."""
    view = get_object_or_404(access.visible(SavedView, to=request.user), public_id=public_id)
    if view.owner_id != request.user.pk and not (
        view.owner_id is None and access.may(request.user, Action.EDIT, view.team)
    ):
        raise Http404
    view.delete()
    return redirect(view.page)
