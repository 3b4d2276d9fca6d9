"""What a team has otherwise than kvdiag: thresholds of the rules, and what is hidden in its logs."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from kvdiag.diagnosis.rules.thresholds import Thresholds
from teams import access, redaction, rule_thresholds, services
from teams.access import Action
from teams.models import Team
from teams.views.team import context_of, for_team


@for_team()
@require_http_methods(["GET", "POST"])
def thresholds(request: HttpRequest, team: Team) -> HttpResponse:
    """Every threshold with kvdiag's value and the team's; members read them, the owner changes them."""
    typed, problem = {name: str(value) for name, value in team.settings.get("rule_thresholds", {}).items()}, ""
    if request.method == "POST":
        if not access.may(request.user, Action.MANAGE, team):
            return render(request, "teams/not_allowed.html", {"team": team}, status=403)
        typed = {one.name: request.POST.get(one.name, "").strip() for one in Thresholds().each()}
        try:
            held = rule_thresholds.read(typed)
        except ValueError as wrong:
            said = str(wrong)
            is_name = said.split(" ")[0] in typed  # the label of a field, as it stands
            problem = f"{said if is_name else said[:1].upper() + said[1:]}."
        else:
            services.change_settings(team, {"rule_thresholds": held or None}, by=request.user)
            messages.success(request, "Saved. Logs that come from now on are judged by them.")
            return redirect("team_thresholds", slug=team.slug)
    rows = [(one, typed.get(one.name, "")) for one in Thresholds().each()]
    context = context_of(request, team, "thresholds", rows=rows, problem=problem)
    return render(request, "teams/thresholds.html", context, status=400 if problem else 200)


@for_team()
@require_http_methods(["GET", "POST"])
def redaction_rules(request: HttpRequest, team: Team) -> HttpResponse:
    """The team's own expressions of what to hide: tried on a sample, then kept."""
    kept: list[dict[str, Any]] = list(team.settings.get("redaction") or [])
    more: dict[str, Any] = {"kept": kept, "typed": request.POST, "problem": "", "shown": None, "count": 0}
    if request.method == "POST":
        if not access.may(request.user, Action.MANAGE, team):
            return render(request, "teams/not_allowed.html", {"team": team}, status=403)
        if "drop" in request.POST:
            left = [entry for entry in kept if entry["name"] != request.POST["drop"]]
            services.change_settings(team, {"redaction": left or None}, by=request.user)
            return redirect("team_redaction", slug=team.slug)
        try:
            if _try_or_keep(request, team, kept, more):
                messages.success(request, "Kept. It is hidden in the logs that come from now on.")
                return redirect("team_redaction", slug=team.slug)
        except redaction.BadPattern as bad:
            more["problem"] = str(bad)
    context = context_of(request, team, "redaction", **more)
    return render(request, "teams/redaction.html", context, status=400 if more["problem"] else 200)


def _try_or_keep(request: HttpRequest, team: Team, kept: list[dict[str, Any]], more: dict[str, Any]) -> bool:
    """Show what the expression hides in the sample; True when it was kept. Raises BadPattern."""
    asked = request.POST
    entry, more["shown"], more["count"] = redaction.trial(
        asked.get("name", ""),
        asked.get("expression", ""),
        asked.get("sample", ""),
        ignore_case=bool(asked.get("ignore_case")),
    )
    if "keep" not in asked:
        return False
    if not more["count"]:
        raise redaction.BadPattern("It hides nothing in the sample: paste a line in which it should.")
    others = [each for each in kept if each["name"] != entry["name"]]
    if len(others) >= redaction.MOST:
        raise redaction.BadPattern(f"A team has at most {redaction.MOST} expressions.")
    services.change_settings(team, {"redaction": [*others, entry]}, by=request.user)
    return True
