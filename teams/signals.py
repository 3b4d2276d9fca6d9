"""What follows when somebody signs up without an invitation: a team of one, so that uploads have a home."""

from typing import Any

from allauth.account.signals import user_signed_up
from django.dispatch import receiver

from teams.models import Membership
from teams.services import create_team


@receiver(user_signed_up)
def give_first_team(sender: Any, user: Any, **more: Any) -> None:
    """Make the new person's own team; she can rename it, or leave it for another."""
    if not Membership.objects.filter(user=user).exists():
        who = user.first_name or user.email.partition("@")[0] or user.get_username()
        create_team(f"{who}’s team", owner=user)
