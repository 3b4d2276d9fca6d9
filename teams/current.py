"""Which of a person's teams a page is about."""

from typing import Any

from django.http import HttpRequest

from teams import access
from teams.models import Team


def current_team(request: HttpRequest) -> Team | None:
    """The team named in the address (`?team=`), or the one last looked at, or the first; None without any."""
    teams = list(access.teams_of(request.user))
    wanted = request.GET.get("team") or _remembered(request)
    found = next((team for team in teams if team.slug == wanted), teams[0] if teams else None)
    if (
        found is not None
        and len(teams) > 1
        and _remembered(request) != found.slug
        and access.token_of(request.user) is None
    ):
        request.session["team"] = found.slug
    return found


def _remembered(request: HttpRequest) -> Any:
    return request.session.get("team") if hasattr(request, "session") else None


def home_of(user: Any) -> Team | None:
    """The team an upload goes to when its sender names none: the token's, or the first the person may upload to."""
    token = access.token_of(user)
    if token is not None:
        return token.team
    for team in access.teams_of(user):
        if access.may(user, access.Action.UPLOAD, team):
            return team
    return None
