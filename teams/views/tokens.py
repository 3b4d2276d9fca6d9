"""A member's API tokens in one team."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from teams import access, services
from teams.access import Action
from teams.forms import TokenForm
from teams.models import Scope, Team
from teams.tokens import LINK_BYTES, form_seed, new_secret
from teams.views.team import context_of, for_team


@for_team()
@require_http_methods(["GET", "POST"])
def tokens(request: HttpRequest, team: Team) -> HttpResponse:
    """The reader's own tokens; an owner sees everybody's. A new token's secret is on the answer, and nowhere else."""
    form, secret = TokenForm(request.POST or None), ""
    if request.method == "POST" and form.is_valid():
        token, secret = services.create_token(
            user=request.user,
            team=team,
            name=form.cleaned_data["name"],
            scopes=[Scope(scope) for scope in form.cleaned_data["scopes"]],
            expires_at=form.expires_at(),
            form=form_seed(request.POST),
        )
        form, secret = TokenForm(), secret if token.is_valid() else ""
    shown = team.api_tokens.filter(revoked_at=None).select_related("user").order_by("-created_at")
    if not access.may(request.user, Action.MANAGE, team):
        shown = shown.filter(user=request.user)
    once, site = new_secret(LINK_BYTES), request.build_absolute_uri("/")
    more = {"tokens": shown, "form": form, "secret": secret, "site": site, "once": once}
    return render(request, "teams/tokens.html", context_of(request, team, "tokens", **more))


@require_POST
@for_team()
def token_revoke(request: HttpRequest, team: Team, token: int) -> HttpResponse:
    """End a token: one's own, or as the owner anybody's."""
    own = team.api_tokens.filter(revoked_at=None)
    if not access.may(request.user, Action.MANAGE, team):
        own = own.filter(user=request.user)
    services.revoke_token(get_object_or_404(own, pk=token), by=request.user)
    messages.success(request, "Revoked. Requests with it are refused from now on.")
    return redirect("team_tokens", slug=team.slug)
