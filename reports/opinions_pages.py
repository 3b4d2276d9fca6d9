"""The buttons below a finding, and the owner's table of what was said."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from ingest.views import upload_of
from reports import opinions
from reports.document import launch_number
from teams.access import Action
from teams.models import Team
from teams.views.team import context_of, for_team


@require_POST
def say_finding(request: HttpRequest, public_id: str) -> HttpResponse:
    """Helpful, wrong, or neither after all; back to the finding. 404 for whoever may only read."""
    upload = upload_of(request, public_id)
    stored = upload.report
    if stored is None or not opinions.may_say(request, upload):
        raise Http404
    number, finding = launch_number(request.POST.get("launch", "")), request.POST.get("finding", "")[:120]
    if number is None:
        raise Http404
    says, reason = request.POST.get("says", ""), request.POST.get("reason", "")
    try:
        opinions.say(stored, number, finding, says, reason, by=request.user)
    except opinions.Refused as refused:
        messages.error(request, str(refused))
        finding = "findings"
    return HttpResponseRedirect(f"{reverse('report', args=[public_id])}?launch={number}#{finding}")


@for_team(Action.MANAGE)
@require_GET
def team_opinions(request: HttpRequest, team: Team) -> HttpResponse:
    """Helpful and wrong by rule and engine, with the reasons; for owners."""
    rows = opinions.counted(team, to=request.user)
    return render(request, "reports/team_opinions.html", context_of(request, team, "opinions", rows=rows))
