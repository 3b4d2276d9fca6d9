"""Findings across a team's deployments, grouped by rule; their states are set here, one by one or many at once."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Count, F, Q, Window
from django.db.models.functions import RowNumber
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.views.decorators.http import require_GET, require_POST

from reports.alerts_findings import set_state
from reports.models import SavedView, TrackedFinding
from reports.words import SEVERITIES
from teams import access
from teams.access import Action
from teams.current import current_team

State = TrackedFinding.State
MOST = 2000  # findings changed at once
MOST_OF_EACH, MOST_OF_ONE_RULE = 3, 200  # rows shown; the search for one rule has the others
STATE_FILTERS = {
    "open": ("Open", TrackedFinding.COUNTED),
    "acknowledged": ("Acknowledged", (State.ACKNOWLEDGED,)),
    "muted": ("Muted", (State.MUTED,)),
    "gone": ("Gone", (State.GONE,)),
    "all": ("All", tuple(State)),
}


@dataclass(slots=True)
class Group:
    """One rule's findings in a team."""

    rule: str
    severity: str
    count: int
    findings: list[TrackedFinding] = field(default_factory=list)

    @property
    def first_seen(self) -> datetime:
        return min(each.first_seen for each in self.findings)

    @property
    def last_seen(self) -> datetime:
        return max(each.last_seen for each in self.findings)

    @property
    def releases(self) -> str:
        """The releases it was seen with: "0.5.7 to 0.5.9", or each where one is itself a range."""
        seen = {each for one in self.findings for each in (one.first_release, one.last_release) if each}
        known = sorted(seen, key=lambda each: [int(number) for number in re.findall(r"\d+", each)])
        if len(known) < 2:
            return "".join(known)
        if any(" " in each for each in known):
            return ", ".join(known[:3]) + (" and others" if len(known) > 3 else "")
        return f"{known[0]} to {known[-1]}"


@login_required
@require_GET
def findings(request: HttpRequest) -> HttpResponse:
    """Findings by rule, worst first, with deployments touched, first and last seen, releases, state and owner."""
    team = current_team(request)
    if team is None:
        return redirect("dashboard")
    state = request.GET.get("state", "open")
    state = state if state in STATE_FILTERS else "open"
    severity, rule = request.GET.get("severity", ""), request.GET.get("rule", "")
    found = (
        TrackedFinding.objects.filter(
            deployment__team=team, deployment__merged_into=None, state__in=STATE_FILTERS[state][1]
        )
        .select_related("deployment__owner", "last_report__upload")
        .defer("last_report__document")
        .order_by("-last_seen", "-pk")
    )
    if severity in SEVERITIES:
        found = found.filter(severity=severity)
    if rule:
        found = found.filter(rule=rule[:100])
    most = MOST_OF_ONE_RULE if rule else MOST_OF_EACH
    place = Window(RowNumber(), partition_by="rule", order_by=[F("last_seen").desc(), F("pk").desc()])
    shown = list(found.annotate(place=place).filter(place__lte=most))
    counts = dict(found.order_by().values_list("rule").annotate(count=Count("pk")))
    context = {
        "section": "findings",
        "team": team,
        "groups": grouped(shown, counts),
        "state": state,
        "severity": severity,
        "rule": rule,
        "states": [(name, label) for name, (label, _) in STATE_FILTERS.items()],
        "severities": SEVERITIES,
        "views": SavedView.objects.filter(team=team, page="findings").filter(Q(owner=None) | Q(owner=request.user)),
        "may_edit": access.may(request.user, Action.EDIT, team),
        "query": request.GET.urlencode(),
        "soonest": timezone.localdate() + timedelta(days=1),
        "usual": timezone.localdate() + timedelta(days=30),
    }
    return render(request, "reports/findings.html", context)


def grouped(found: list[TrackedFinding], counts: dict[str, int]) -> list[Group]:
    """Findings by rule, the most severe rules first; `counts` tells how many each rule has in all."""
    groups: dict[str, Group] = {}
    for each in found:
        group = groups.setdefault(each.rule, Group(each.rule, each.severity, counts.get(each.rule, 0)))
        group.findings.append(each)
        group.severity = min(group.severity, each.severity, key=_rank)
    return sorted(groups.values(), key=lambda group: (_rank(group.severity), -group.count, group.rule))


def _rank(severity: str) -> int:
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)


@login_required
@require_POST
def findings_change(request: HttpRequest) -> HttpResponse:
    """Acknowledge, mute or reopen the chosen findings."""
    chosen = access.visible(TrackedFinding, to=request.user).filter(
        public_id__in=request.POST.getlist("finding")[:MOST]
    )
    state, reason = request.POST.get("state", ""), request.POST.get("reason", "")
    until = end_of(request.POST.get("until", ""))
    changed, refused = 0, ""
    for tracked in chosen.select_related("deployment__team"):
        if not access.may(request.user, Action.EDIT, tracked):
            return render(request, "teams/not_allowed.html", {"team": tracked.deployment.team}, status=403)
        try:
            set_state(tracked, state, by=request.user, reason=reason, until=until)
            changed += 1
        except ValueError as wrong:
            refused = str(wrong)
    if refused:
        messages.error(request, f"Nothing was changed: {refused}.")
    elif changed:
        messages.success(request, f"{changed} finding{'s' if changed > 1 else ''} changed.")
    back = request.POST.get("back", "")[:500]
    return HttpResponseRedirect(f"{reverse('findings')}?{back}" if back else reverse("findings"))


def end_of(text: str) -> datetime | None:
    """The end of a day written as 2026-12-31; None when it is no day to come."""
    try:
        day = parse_date(text)
    except ValueError:
        return None
    if day is None or not timezone.localdate() < day <= timezone.localdate() + timedelta(days=366):
        return None
    return timezone.make_aware(datetime(day.year, day.month, day.day, 23, 59))
