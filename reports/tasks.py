"""Celery's door to alerts and to what ends by itself. Tasks carry ids only."""

from celery import shared_task
from celery.utils.log import get_task_logger

from reports import alerts_findings, alerts_sending, retention
from reports.models import Alert, Channel

logger = get_task_logger(__name__)
TRIES = 3


@shared_task(soft_time_limit=30, time_limit=45, max_retries=TRIES)
def deliver_alert(alert_id: int, channel_id: int) -> None:
    """Send one alert through one channel; tried again after 1, 2 and 4 minutes while the other side fails."""
    alert = Alert.objects.select_related("deployment__team", "report__upload").filter(pk=alert_id).first()
    channel = Channel.objects.filter(pk=channel_id, is_on=True).first()
    if alert is None or channel is None or channel.deliveries.filter(alert=alert, is_sent=True).exists():
        return
    _, may_help = alerts_sending.deliver(channel, alert)
    tries = deliver_alert.request.retries or 0
    if may_help and tries < TRIES:
        raise deliver_alert.retry(countdown=60 * 2**tries)


@shared_task
def wake_muted_findings() -> None:
    """Reopen findings whose mute has ended."""
    woken = alerts_findings.wake_muted()
    if woken:
        logger.info("%d muted findings are open again", woken)


@shared_task
def forget_ended() -> None:
    """Delete what ended long ago: links, invitations, deliveries, sessions."""
    gone = {what: count for what, count in retention.forget_ended().items() if count}
    if gone:
        logger.info("forgot %s", gone)
