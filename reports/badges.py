"""Badges: a small picture for a README that says how a deployment's newest start ended, and nothing else.

The only writer of `Badge`. Off until an editor makes one; its address holds 128 random bits of which the hash is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from reports.deployments_series import reports_of
from reports.models import Badge
from teams import access
from teams.audit import person_name, record
from teams.models import Deployment
from teams.tokens import LINK_BYTES, hash_secret, new_secret, secret_from


class Refused(ValueError):
    """A badge that is not made; the text is a sentence for the person who asked."""


class State(StrEnum):
    """What a badge may say."""

    READY = "ready"
    FAILED = "failed"
    DIED = "died while serving"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Look:
    """A state's colour, and the width of its word in pixels: no server knows the reader's fonts."""

    colour: str
    width: int


LABEL, LABEL_WIDTH = "kvdiag", 41
LOOKS = {
    State.READY: Look("#1a7f37", 35),
    State.FAILED: Look("#b3261e", 35),
    State.DIED: Look("#9a3412", 107),
    State.UNKNOWN: Look("#5c6670", 54),
}
MARGIN = 6


def make_badge(deployment: Deployment, *, by: Any, form: str = "") -> tuple[Badge, str]:
    """A badge and its token, which is shown this once; earlier ones of the deployment end. Raises Refused.

    form  what the asker sent, with a random part of its own: the same form gives the same badge again
    """
    token = secret_from(f"badge\n{deployment.pk}\n{form}") if form else new_secret(LINK_BYTES)
    values = {
        "hint": token[-5:],
        "made_by": by if access.is_person(by) else None,
        "made_by_name": person_name(by)[:150],
    }
    with transaction.atomic():
        # two that make one at once: the later one stays
        held = Deployment.objects.select_for_update().get(pk=deployment.pk)
        if held.merged_into_id is not None:
            raise Refused("This deployment is part of another now; make the badge there.")
        badge, is_new = Badge.objects.get_or_create(
            token_hash=hash_secret(token), defaults={"deployment": deployment, **values}
        )
        if not is_new:
            if badge.ended_at is not None:
                raise Refused("The badge that this form made has ended. Reload the page to make another.")
            return badge, token
        ended = badges_of(deployment).exclude(pk=badge.pk).update(ended_at=timezone.now())
        record(
            by, "badge.make", team=deployment.team, object=deployment.name, badge=f"…{badge.hint}", ended_before=ended
        )
    return badge, token


def end_badges(deployment: Deployment, *, by: Any) -> int:
    """Switch a deployment's badge off; how many addresses that ended."""
    with transaction.atomic():
        ended = badges_of(deployment).update(ended_at=timezone.now())
        if ended:
            record(by, "badge.end", team=deployment.team, object=deployment.name, ended=ended)
    return ended


def badges_of(deployment: Deployment) -> Any:
    """The badges in force, newest first: one, or after a merge those of both deployments."""
    return Badge.objects.filter(deployment=deployment, ended_at=None).order_by("-made_at", "-pk")


def state_by_token(token: str) -> State:
    """What the badge of this token says; a token that opens nothing says what a deployment without a start says."""
    badge = Badge.objects.select_related("deployment").filter(token_hash=hash_secret(token), ended_at=None).first()
    return State.UNKNOWN if badge is None else state_of(badge.deployment)


def state_of(deployment: Deployment) -> State:
    """How the newest start of a deployment ended."""
    lasts = Q(upload__expires_at=None) | Q(upload__expires_at__gt=timezone.now())
    newest = reports_of(deployment).filter(lasts).values_list("outcome", "stage").first()
    outcome, stage = newest or ("", "")
    if outcome == "failed":
        return State.DIED if stage == "serving" else State.FAILED
    return State.READY if outcome == "ready" else State.UNKNOWN


def drawing(state: State) -> str:
    """The badge as SVG. Attributes only, no style: the site's own policy lets no style into a page."""
    look = LOOKS[state]
    left, right = LABEL_WIDTH + 2 * MARGIN, look.width + 2 * MARGIN
    words = "".join(
        f'<text x="{x}" y="14" textLength="{width}" lengthAdjust="spacingAndGlyphs">{word}</text>'
        for x, width, word in ((MARGIN, LABEL_WIDTH, LABEL), (left + MARGIN, look.width, state.value))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img" '
        f'aria-label="{LABEL}: {state.value}"><title>{LABEL}: {state.value}</title>'
        f'<clipPath id="r"><rect width="{left + right}" height="20" rx="3"/></clipPath><g clip-path="url(#r)">'
        f'<rect width="{left}" height="20" fill="#3b424a"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{look.colour}"/></g>'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="11">{words}</g></svg>\n'
    )


def address_of(token: str) -> str:
    """The path of the picture."""
    return f"/badge/{token}.svg"


def markdown_of(url: str) -> str:
    """What goes into a README."""
    return f"![State of the deployment]({url})"
