"""The sheet on which a deployment's badge is made and switched off, and the picture itself."""

from __future__ import annotations

from base64 import b64encode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from ingest.answers import absolute
from reports import badges
from reports.badges import State, drawing
from reports.deployments import find
from teams import access
from teams.access import Action
from teams.tokens import LINK_BYTES, form_seed, new_secret

CACHED_S = 60  # how long a proxy of a README may show an earlier state, or a badge that was switched off


@require_safe
def badge(request: HttpRequest, token: str) -> HttpResponse:
    """The picture. Every token has one: nobody learns here which of them lead to a deployment."""
    answer = HttpResponse(drawing(badges.state_by_token(token)), content_type="image/svg+xml; charset=utf-8")
    answer["Cache-Control"] = f"public, max-age={CACHED_S}"
    return answer


@login_required
@require_http_methods(["GET", "POST"])
def badge_sheet(request: HttpRequest, public_id: str) -> HttpResponse:
    """Make, renew, switch off. The address is on the answer that makes it only."""
    deployment = find(request, public_id)
    if not access.may(request.user, Action.SHARE, deployment):
        return render(request, "teams/not_allowed.html", {"team": deployment.team}, status=403)
    if deployment.merged_into is not None:
        return redirect("badge_sheet", public_id=deployment.merged_into.public_id)
    made, problem = "", ""
    if request.method == "POST" and request.POST.get("deed") == "end":
        badges.end_badges(deployment, by=request.user)
        messages.success(request, "The badge is off. Its address shows “unknown” from now on.")
        return redirect("badge_sheet", public_id=deployment.public_id)
    if request.method == "POST":
        try:
            _, token = badges.make_badge(deployment, by=request.user, form=form_seed(request.POST))
            made = absolute(request, badges.address_of(token))
        except badges.Refused as refused:
            problem = str(refused)
    state = badges.state_of(deployment)
    context = {
        "section": "dashboard",
        "deployment": deployment,
        "team": deployment.team,
        "in_force": list(badges.badges_of(deployment)),
        "once": new_secret(LINK_BYTES),
        "made": made,
        "markdown": badges.markdown_of(made) if made else "",
        "problem": problem,
        "word": state.value,
        "now": picture(state),
        "others": [(each.value, picture(each)) for each in State],
    }
    return render(request, "reports/badge.html", context, status=400 if problem else 200)


def picture(state: State) -> str:
    """A state's picture as an address that needs no token."""
    return "data:image/svg+xml;base64," + b64encode(drawing(state).encode()).decode()
