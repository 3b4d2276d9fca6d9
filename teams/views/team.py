"""One team's settings: name, thresholds and times; its members; its trail."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.mail import send_mail
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from teams import access, services
from teams.access import Action
from teams.forms import InvitationForm, TeamForm, ThresholdForm
from teams.models import AuditEntry, Invitation, Membership, Role, Team

Page = Callable[..., HttpResponse]


def for_team(action: Action = Action.VIEW) -> Callable[[Page], Page]:
    """Hands the page its team by the address. Outsiders get 404, members who may not do it 403."""

    def wrap(page: Page) -> Page:
        @wraps(page)
        @login_required
        def guarded(request: HttpRequest, slug: str, *args: Any, **kwargs: Any) -> HttpResponse:
            team = get_object_or_404(access.visible(Team, to=request.user), slug=slug)
            if not access.may(request.user, action, team):
                return render(request, "teams/not_allowed.html", {"team": team}, status=403)
            return page(request, team, *args, **kwargs)

        return guarded

    return wrap


def context_of(request: HttpRequest, team: Team, page: str, **more: Any) -> dict[str, Any]:
    """What every settings page shows: its team, and what the reader may do there."""
    return {
        "team": team,
        "page": page,
        "section": "settings",
        "role": access.role_in(team, request.user),
        "may_manage": access.may(request.user, Action.MANAGE, team),
        "may_edit": access.may(request.user, Action.EDIT, team),
        **more,
    }


@login_required
@require_http_methods(["GET", "POST"])
def new_team(request: HttpRequest) -> HttpResponse:
    """Make another team, as its owner."""
    form = TeamForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        team = services.create_team(form.cleaned_data["name"], owner=request.user)
        return redirect("team_members", slug=team.slug)
    return render(request, "teams/new_team.html", {"form": form, "section": "settings"})


@for_team()
@require_http_methods(["GET", "POST"])
def general(request: HttpRequest, team: Team) -> HttpResponse:
    """The team's name, thresholds and times; members read them, the owner changes them."""
    if request.method == "POST":
        if not access.may(request.user, Action.MANAGE, team):
            return render(request, "teams/not_allowed.html", {"team": team}, status=403)
        return _save_general(request, team)
    return _general_page(
        request, team, TeamForm(initial={"name": team.name}), ThresholdForm(initial=alert_settings(team))
    )


def alert_settings(team: Team) -> dict[str, Any]:
    """A team's settings as the form shows them: without a choice of its own, critical findings are told."""
    return {"finding_severity": "critical", **team.settings}


def _save_general(request: HttpRequest, team: Team) -> HttpResponse:
    name, thresholds = TeamForm(request.POST), ThresholdForm(request.POST)
    if "name" in request.POST:
        thresholds = ThresholdForm(initial=alert_settings(team))
        if not name.is_valid():
            return _general_page(request, team, name, thresholds)
        services.rename_team(team, name.cleaned_data["name"], by=request.user)
    else:
        name = TeamForm(initial={"name": team.name})
        if not thresholds.is_valid():
            return _general_page(request, team, name, thresholds)
        services.change_settings(team, thresholds.cleaned_data, by=request.user)
    messages.success(request, "Saved.")
    return redirect("team_general", slug=team.slug)


def _general_page(request: HttpRequest, team: Team, name: TeamForm, thresholds: ThresholdForm) -> HttpResponse:
    more = {"name_form": name, "threshold_form": thresholds, "limits": settings.KVDIAG_LIMITS}
    return render(request, "teams/general.html", context_of(request, team, "general", **more))


@for_team()
@require_http_methods(["GET", "POST"])
def members(request: HttpRequest, team: Team) -> HttpResponse:
    """Who is in the team, who is invited; the owner invites."""
    form, link = InvitationForm(request.POST or None), ""
    if request.method == "POST":
        if not access.may(request.user, Action.MANAGE, team):
            return render(request, "teams/not_allowed.html", {"team": team}, status=403)
        if form.is_valid():
            try:
                invited, path = services.invite(
                    team,
                    form.cleaned_data["email"],
                    Role(form.cleaned_data["role"]),
                    by=request.user,
                    limit=settings.KVDIAG_LIMITS.team_members,
                )
            except services.Refused as refused:
                form.add_error("email", str(refused))
            else:
                link = request.build_absolute_uri(path)
                _send_invitation(invited, link)
                form = InvitationForm()
    people = team.memberships.select_related("user").order_by("created_at", "pk")
    invitations = team.invitations.filter(accepted_at=None, revoked_at=None).order_by("-created_at")
    more = {
        "people": people,
        "unverified": services.unverified_people(team),
        "invitations": [each for each in invitations if each.is_open()],
        "form": form,
        "link": link,
        "sends_mail": settings.KVDIAG_SENDS_MAIL,
        "roles": Role.choices,
    }
    return render(request, "teams/members.html", context_of(request, team, "members", **more))


def _send_invitation(invited: Invitation, link: str) -> None:
    """Mail the link where the site sends mail at all; the page shows it in any case."""
    if not settings.KVDIAG_SENDS_MAIL:
        return
    send_mail(
        f"Join {invited.team.name} on kvdiag",
        f"You are invited to the team {invited.team.name}. The link works once, for seven days:\n\n{link}\n",
        None,
        [invited.email],
        fail_silently=True,
    )


@require_POST
@for_team()
def member_change(request: HttpRequest, team: Team, member: int) -> HttpResponse:
    """Change a member's role, hand the team over, or take somebody out; anybody may take herself out."""
    membership = get_object_or_404(team.memberships.select_related("user", "team"), pk=member)
    deed = request.POST.get("deed", "")
    leaves = deed == "remove" and membership.user_id == request.user.pk
    if not leaves and not access.may(request.user, Action.MANAGE, team):
        return render(request, "teams/not_allowed.html", {"team": team}, status=403)
    try:
        if deed == "remove":
            services.remove_member(membership, by=request.user)
        elif deed == "transfer":
            services.transfer(team, membership, by=request.user)
        elif deed == "role" and request.POST.get("role") in Role.values:
            services.change_role(membership, Role(request.POST["role"]), by=request.user)
    except services.Refused as refused:
        messages.error(request, str(refused))
    if not Membership.objects.filter(team=team, user=request.user).exists():
        return redirect("dashboard")
    return redirect("team_members", slug=team.slug)


@require_POST
@for_team(Action.MANAGE)
def invitation_revoke(request: HttpRequest, team: Team, invited: int) -> HttpResponse:
    """End an open invitation."""
    services.revoke_invitation(get_object_or_404(team.invitations, pk=invited), by=request.user)
    return redirect("team_members", slug=team.slug)


@for_team(Action.MANAGE)
@require_GET
def trail(request: HttpRequest, team: Team) -> HttpResponse:
    """The audit trail, newest first, 100 lines a page."""
    before = request.GET.get("before", "")
    entries = access.visible(AuditEntry, to=request.user).filter(team=team).order_by("-pk")
    if before.isdecimal():
        entries = entries.filter(pk__lt=int(before[:18]))
    shown = list(entries[:101])
    more = {"entries": shown[:100], "older": shown[99].pk if len(shown) > 100 else None}
    return render(request, "teams/trail.html", context_of(request, team, "trail", **more))
