"""A person's own page: name, teams, password, sign out."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods

from teams.forms import NameForm
from teams.models import Membership


@login_required
@require_http_methods(["GET", "POST"])
def profile(request: HttpRequest) -> HttpResponse:
    """Name, e-mail, teams with the person's role."""
    form = NameForm(request.POST or None, initial={"name": request.user.get_full_name()})
    if request.method == "POST" and form.is_valid():
        first, _, last = form.cleaned_data["name"].strip().partition(" ")
        request.user.first_name, request.user.last_name = first[:150], last[:150]
        request.user.save(update_fields=["first_name", "last_name"])
        messages.success(request, "Saved.")
        return redirect("profile")
    memberships = Membership.objects.filter(user=request.user).select_related("team").order_by("team__name")
    return render(request, "teams/profile.html", {"form": form, "memberships": memberships, "section": "settings"})


@require_GET
def signin(request: HttpRequest) -> HttpResponse:
    """The short address of the sign-in page."""
    query = request.META.get("QUERY_STRING", "")
    return HttpResponseRedirect(reverse("account_login") + (f"?{query}" if query else ""))
