"""Forms about people and teams. Each checks what was typed; the services do the rest."""

from datetime import timedelta
from typing import Any

from django import forms
from django.contrib.auth import get_user_model
from django.contrib.auth.password_validation import validate_password
from django.utils import timezone

from teams.models import Role, Scope


class PlainForm(forms.Form):
    """A form whose fields carry the site's own classes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            widget = field.widget
            if isinstance(widget, forms.Select):
                widget.attrs.setdefault("class", "select")
            elif not isinstance(widget, forms.CheckboxInput | forms.CheckboxSelectMultiple | forms.RadioSelect):
                widget.attrs.setdefault("class", "input")


class PersonForm(PlainForm):
    """Name and password of a new account; the address is given by the invitation."""

    name = forms.CharField(max_length=100, label="Your name", widget=forms.TextInput({"autocomplete": "name"}))
    password = forms.CharField(
        label="Password",
        help_text="At least 10 characters.",
        widget=forms.PasswordInput({"autocomplete": "new-password"}),
        strip=False,
    )

    def clean_password(self) -> str:
        password: str = self.cleaned_data["password"]
        validate_password(password)
        return password


class SetupForm(PersonForm):
    """The first account and the first team."""

    email = forms.EmailField(label="E-mail", widget=forms.EmailInput({"autocomplete": "username"}))
    team = forms.CharField(max_length=100, label="Your team’s name", initial="My team")
    field_order = ["email", "name", "password", "team"]


class NameForm(PlainForm):
    """A person’s name, as pages show it."""

    name = forms.CharField(max_length=150, label="Name", widget=forms.TextInput({"autocomplete": "name"}))


class TeamForm(PlainForm):
    """A team’s name."""

    name = forms.CharField(max_length=100, label="Team name")

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"].strip()
        return name


class InvitationForm(PlainForm):
    """Whom to invite, and as what."""

    email = forms.EmailField(label="E-mail")
    role = forms.ChoiceField(choices=Role.choices, initial=Role.EDITOR)


class TokenForm(PlainForm):
    """A new API token."""

    LASTS = [("30", "30 days"), ("90", "90 days"), ("365", "1 year"), ("", "until revoked")]

    name = forms.CharField(max_length=100, label="Name", help_text="Where it will be used: nightly pipeline, node 3 …")
    scopes = forms.MultipleChoiceField(
        choices=[
            (Scope.UPLOAD, "Upload logs"),
            (Scope.READ, "Read the team’s reports"),
            (Scope.WRITE, "Change: share, delete, acknowledge, settings"),
        ],
        initial=[Scope.UPLOAD],
        label="May",
        widget=forms.CheckboxSelectMultiple,
    )
    lasts = forms.ChoiceField(choices=LASTS, initial="90", required=False, label="Lasts")

    def expires_at(self) -> Any:
        """When the token ends; None when it lasts until revoked."""
        days = self.cleaned_data["lasts"]
        return timezone.now() + timedelta(days=int(days)) if days else None


class ThresholdForm(PlainForm):
    """When a launch is worth an alert, and how long the team keeps things. Empty means the site’s own value."""

    tokens_drop_percent = forms.FloatField(
        min_value=0.5,
        max_value=100,
        required=False,
        label="Fewer KV tokens by, %",
        widget=forms.NumberInput({"step": "any"}),
    )
    slower_percent = forms.FloatField(
        min_value=1,
        max_value=1000,
        required=False,
        label="Slower start by, %",
        widget=forms.NumberInput({"step": "any"}),
    )
    slower_seconds = forms.FloatField(
        min_value=0.1,
        max_value=3600,
        required=False,
        label="and by, seconds at least",
        widget=forms.NumberInput({"step": "any"}),
    )
    free_drop_gib = forms.FloatField(
        min_value=0.05,
        max_value=500,
        required=False,
        label="Less free memory by, GiB",
        widget=forms.NumberInput({"step": "any"}),
    )
    finding_severity = forms.ChoiceField(
        choices=[
            ("critical", "critical"),
            ("warning", "critical or warning"),
            ("advice", "critical, warning or advice"),
            ("never", "never"),
        ],
        required=False,
        label="A new finding that is",
    )
    keep_log_days = forms.IntegerField(
        min_value=1, max_value=395, required=False, label="Keep logs, days after the last view"
    )
    keep_report_days = forms.IntegerField(min_value=1, max_value=3650, required=False, label="Keep reports, days")

    def clean_finding_severity(self) -> str | None:
        return self.cleaned_data["finding_severity"] or None


def is_known_address(email: str) -> bool:
    """True when an account has this address."""
    return bool(get_user_model().objects.filter(email__iexact=email).exists())
