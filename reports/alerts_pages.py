"""A team's notifications: where alerts are sent, a test, and what came of each delivery."""

from __future__ import annotations

from django import forms
from django.conf import settings
from django.contrib import messages
from django.core.validators import validate_email
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from reports import alerts_address, alerts_sending
from reports.models import Channel, Delivery
from teams import access
from teams.access import Action
from teams.audit import record
from teams.forms import PlainForm
from teams.models import Team
from teams.views.team import context_of, for_team

MOST_CHANNELS = 20


class ChannelForm(PlainForm):
    """A new channel: an address that fits its kind."""

    kind = forms.ChoiceField(choices=Channel.Kind.choices, label="Kind")
    address = forms.CharField(
        max_length=500, label="Address", help_text="An e-mail address, or the URL of the webhook."
    )

    def clean(self) -> dict[str, str]:
        asked: dict[str, str] = super().clean() or {}
        address = asked.get("address", "").strip()
        if not address:
            return asked
        if asked.get("kind") == Channel.Kind.EMAIL:
            try:
                validate_email(address)
            except forms.ValidationError:
                raise forms.ValidationError({"address": "This is no e-mail address."}) from None
        else:
            try:
                alerts_address.checked_url(address, allow_internal=settings.KVDIAG_INTERNAL_WEBHOOKS)
            except alerts_address.Refused as refused:
                raise forms.ValidationError({"address": str(refused)}) from None
        return {**asked, "address": address}


@for_team()
@require_http_methods(["GET", "POST"])
def channels(request: HttpRequest, team: Team) -> HttpResponse:
    """Where alerts go, and the newest deliveries. Addresses and keys are shown to those who manage the team."""
    form = ChannelForm(request.POST or None)
    may_manage = access.may(request.user, Action.MANAGE, team)
    if request.method == "POST":
        if not may_manage:
            return render(request, "teams/not_allowed.html", {"team": team}, status=403)
        if team.channels.count() >= MOST_CHANNELS:
            form.add_error(None, f"A team has at most {MOST_CHANNELS} channels.")
        elif form.is_valid():
            channel = Channel.objects.create(
                team=team, kind=form.cleaned_data["kind"], address=form.cleaned_data["address"]
            )
            record(request.user, "channel.add", team=team, object=channel.kind)
            if channel.kind == Channel.Kind.EMAIL and not settings.KVDIAG_SENDS_MAIL:
                messages.warning(request, "Added, but this site sends no mail until its operator sets KVDIAG_SMTP_URL.")
            else:
                messages.success(request, "Added. Send a test to see whether it arrives.")
            return redirect("team_channels", slug=team.slug)
    rows = [
        (channel, alerts_sending.signing_key(channel) if may_manage and channel.kind == Channel.Kind.WEBHOOK else "")
        for channel in team.channels.order_by("pk")
    ]
    deliveries = (
        Delivery.objects.filter(channel__team=team).select_related("channel", "alert__deployment").order_by("-pk")[:30]
    )
    more = {"rows": rows, "form": form, "deliveries": deliveries}
    return render(request, "reports/team_channels.html", context_of(request, team, "channels", **more))


@require_POST
@for_team(Action.MANAGE)
def channel_change(request: HttpRequest, team: Team, public_id: str) -> HttpResponse:
    """Send a test through a channel, switch it on or off, or take it out."""
    channel = get_object_or_404(team.channels, public_id=public_id)
    deed = request.POST.get("deed", "")
    if deed == "test":
        delivery, _ = alerts_sending.deliver(channel, None)
        if delivery.is_sent:
            messages.success(request, "The test went out.")
        else:
            messages.error(request, f"The test did not go out. {delivery.error}")
    elif deed == "switch":
        channel.is_on = not channel.is_on
        channel.save(update_fields=["is_on"])
        record(request.user, "channel.switch", team=team, object=channel.kind, is_on=channel.is_on)
    elif deed == "remove":
        record(request.user, "channel.remove", team=team, object=channel.kind)
        channel.delete()
    return redirect("team_channels", slug=team.slug)
