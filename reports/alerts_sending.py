"""Alerts on their way to a team's channels: e-mail, signed webhooks, Slack and Discord text."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from typing import Any

from django.conf import settings
from django.core.mail import send_mail
from django.db import transaction
from django.utils.crypto import salted_hmac

from reports import alerts_address
from reports.models import Alert, Channel, Delivery

Kind = Channel.Kind


def send_alert(alert: Alert) -> None:
    """Queue an alert for every channel of its team, once the rows are committed. The tasks carry ids only."""
    from reports.tasks import deliver_alert

    for channel in Channel.objects.filter(team_id=alert.deployment.team_id, is_on=True):
        ids = (alert.pk, channel.pk)
        transaction.on_commit(lambda ids=ids: deliver_alert.delay(*ids))  # type: ignore[misc]


def signing_key(channel: Channel) -> str:
    """The key a receiver checks signatures with: derived from the site's key, so that no row holds it."""
    return str(salted_hmac("kvdiag.webhook", channel.public_id, algorithm="sha256").hexdigest())


def signature(key: str, at: int, body: bytes) -> str:
    """`t=<epoch seconds>,v1=<hex>`: HMAC-SHA256 over time, dot and body, so that an old call cannot be replayed."""
    return f"t={at},v1={hmac.new(key.encode(), f'{at}.'.encode() + body, hashlib.sha256).hexdigest()}"


def report_url(alert: Alert) -> str:
    """The report's address; relative when the site does not know its own name."""
    return f"{settings.KVDIAG_PUBLIC_URL}/r/{alert.report.upload.public_id}/"


def words_of(alert: Alert) -> str:
    """The alert as one line of text for a chat or a mail's subject."""
    return f"{alert.deployment.name}: {alert.text}"


def payload_of(alert: Alert) -> dict[str, Any]:
    """The alert as the webhook's JSON."""
    return {
        "event": f"alert.{alert.kind}",
        "id": alert.pk,
        "at": alert.at.isoformat(),
        "team": alert.deployment.team.slug,
        "deployment": {"id": alert.deployment.public_id, "name": alert.deployment.name},
        "text": alert.text,
        "report": {"id": alert.report.upload.public_id, "url": report_url(alert)},
    }


def test_payload(channel: Channel) -> dict[str, Any]:
    """What a test send carries."""
    return {"event": "test", "team": channel.team.slug, "text": "A test from kvdiag. Alerts will arrive like this."}


def deliver(channel: Channel, alert: Alert | None) -> tuple[Delivery, bool]:
    """Send an alert, or a test without one, through a channel, and write down what came of it.

    The second value is True when another try may help: the other side was not reached, or failed by its own fault.
    """
    may_help = False
    text = words_of(alert) if alert else "A test from kvdiag. Alerts will arrive like this."
    delivery = Delivery(channel=channel, alert=alert)
    try:
        if channel.kind == Kind.EMAIL:
            _mail(channel, text, alert)
        else:
            delivery.status = _call(channel, text, alert)
        delivery.is_sent = delivery.status is None or 200 <= delivery.status < 300
        if not delivery.is_sent:
            delivery.error = f"The other side answered {delivery.status}."
            may_help = (delivery.status or 0) >= 500
    except alerts_address.Refused as refused:
        delivery.error = str(refused)[:300]
    except OSError as problem:
        delivery.error = f"The other side could not be reached: {problem.strerror or type(problem).__name__}."[:300]
        may_help = channel.kind != Kind.EMAIL
    delivery.save()
    return delivery, may_help


def _mail(channel: Channel, text: str, alert: Alert | None) -> None:
    if not settings.KVDIAG_SENDS_MAIL:
        raise alerts_address.Refused("This site sends no mail; its operator sets KVDIAG_SMTP_URL.")
    link = f"\n\n{report_url(alert)}\n" if alert else "\n"
    send_mail(" ".join(f"[kvdiag] {text}".split())[:200], f"{text}{link}", None, [channel.address])


def _call(channel: Channel, text: str, alert: Alert | None) -> int:
    link = f" {report_url(alert)}" if alert and settings.KVDIAG_PUBLIC_URL else ""
    payload: dict[str, Any]
    if channel.kind == Kind.SLACK:
        payload = {"text": _plain_for_chat(text) + link}
    elif channel.kind == Kind.DISCORD:
        payload = {"content": (text + link)[:2000], "allowed_mentions": {"parse": []}}
    else:
        payload = payload_of(alert) if alert else test_payload(channel)
    body = json.dumps(payload, separators=(",", ":")).encode()
    headers = {}
    if channel.kind == Kind.WEBHOOK:
        headers["X-Kvdiag-Signature"] = signature(signing_key(channel), int(time.time()), body)
    return alerts_address.post(channel.address, body, headers, allow_internal=settings.KVDIAG_INTERNAL_WEBHOOKS)


def _plain_for_chat(text: str) -> str:
    """Text that Slack takes as text: no mention, no link markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
