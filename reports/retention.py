"""What the rest of the site keeps no longer than it is of use; the uploads' own times are in ingest/upkeep.py."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Q
from django.db.models.signals import post_delete
from django.dispatch import receiver
from django.utils import timezone

from ingest.models import Upload
from reports.deployments_watch import refresh
from reports.models import Badge, Delivery, ShareLink
from teams.models import ApiToken, Deployment, Invitation, SetupLink

REMEMBERED = timedelta(days=90)  # after its end a link or delivery still answers "who saw this, when?"


def forget_ended() -> dict[str, int]:
    """Delete links, invitations, tokens and deliveries that ended long ago, and sessions that ended; how many."""
    now = timezone.now()
    long_ago = now - REMEMBERED
    ended = Q(revoked_at__lt=long_ago) | Q(expires_at__lt=long_ago)
    gone = {
        "links": ShareLink.objects.filter(ended),
        "badges": Badge.objects.filter(ended_at__lt=long_ago),
        "invitations": Invitation.objects.filter(ended | Q(accepted_at__lt=long_ago)),
        "tokens": ApiToken.objects.filter(ended),
        "deliveries": Delivery.objects.filter(at__lt=long_ago),
        "set-up links": SetupLink.objects.filter(expires_at__lt=now),
        "sessions": Session.objects.filter(expire_date__lt=now),
    }
    return {what: rows.delete()[0] for what, rows in gone.items()}


@receiver(post_delete, sender=Upload)
def tell_deployment(sender: Any, instance: Upload, **more: Any) -> None:
    """A deployment that lost a launch shows the one before."""
    deployment_id = instance.deployment_id
    if deployment_id is None:
        return

    def tell() -> None:
        for deployment in Deployment.objects.filter(pk=deployment_id):
            refresh(deployment)

    transaction.on_commit(tell)
