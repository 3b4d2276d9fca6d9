"""The two ways in by a one-time link: the first set-up, and an invitation."""

from django.contrib import messages
from django.contrib.auth import login
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from teams import services
from teams.forms import PersonForm, SetupForm, is_known_address
from teams.models import Membership

BACKEND = "django.contrib.auth.backends.ModelBackend"


@require_http_methods(["GET", "POST"])
def setup(request: HttpRequest, secret: str) -> HttpResponse:
    """The first person makes her account and team. The link is 404 once used, replaced, ended, or somebody exists."""
    link = services.open_setup_link(secret)
    if link is None:
        raise Http404
    form = SetupForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            user = services.use_setup_link(
                link,
                email=form.cleaned_data["email"],
                password=form.cleaned_data["password"],
                name=form.cleaned_data["name"],
                team_name=form.cleaned_data["team"],
            )
        except services.Refused as refused:
            messages.error(request, str(refused))
            return redirect("account_login")
        login(request, user, backend=BACKEND)
        return redirect("dashboard")
    return render(request, "teams/setup.html", {"form": form})


@require_http_methods(["GET", "POST"])
def invitation(request: HttpRequest, secret: str) -> HttpResponse:
    """Join a team: with the account at hand, or with a new one. Looking at the page accepts nothing."""
    invited = services.open_invitation(secret)
    if invited is None:
        return render(request, "teams/invitation_ended.html", status=404)
    person = request.user if request.user.is_authenticated else None
    has_account = person is None and is_known_address(invited.email)
    form = None if person or has_account else PersonForm(request.POST or None)
    if request.method == "POST" and (person or (form and form.is_valid())):
        try:
            if person is None:
                assert form is not None
                person = services.new_person(
                    email=invited.email, password=form.cleaned_data["password"], name=form.cleaned_data["name"]
                )
                services.accept_invitation(invited, person)
                login(request, person, backend=BACKEND)
            else:
                services.accept_invitation(invited, person)
        except services.Refused as refused:
            messages.error(request, str(refused))
            return redirect("account_login")
        return redirect(f"{reverse('dashboard')}?team={invited.team.slug}")
    already = person is not None and Membership.objects.filter(team=invited.team, user=person).exists()
    context = {"invitation": invited, "form": form, "has_account": has_account, "already": already}
    return render(request, "teams/invitation.html", context)
