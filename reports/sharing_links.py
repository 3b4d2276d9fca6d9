"""The only writer of share links."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.hashers import check_password, make_password
from django.db.models import F, Q
from django.utils import timezone

from ingest.models import Upload
from reports.models import ShareLink
from teams import access
from teams.audit import person_name, record
from teams.tokens import LINK_BYTES, hash_secret, new_secret, secret_from

LONGEST = timedelta(days=365)
TRIES, TRIES_COUNT = 10, timedelta(minutes=15)  # passwords that may be tried at one link, and in which time
What, Who = ShareLink.What, ShareLink.Who


class Refused(ValueError):
    """A link that may not be made; the text is a sentence for the person who asked."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants to share, with whom, how long.

    expires_at   None only for members of the team
    max_views    None for as many as come
    """

    what: str = What.FACTS
    who: str = Who.LINK
    expires_at: datetime | None = None
    password: str = ""
    max_views: int | None = None
    show_preview: bool = False


def make_link(upload: Upload, wish: Wish, *, by: Any, form: str = "") -> tuple[ShareLink, str]:
    """A link and its token, which is shown this once. Raises Refused.

    form  what the asker sent, with a random part of its own: the same form gives the same link again
    """
    now = timezone.now()
    if wish.what not in What.values or wish.who not in Who.values:
        raise Refused("Choose what to share, and with whom.")
    if wish.who == Who.TEAM and upload.team_id is None:
        raise Refused("This report belongs to no team.")
    if wish.who == Who.PASSWORD and len(wish.password) < 8:
        raise Refused("The password needs at least 8 characters.")
    if wish.expires_at is None and wish.who != Who.TEAM:
        raise Refused("A link for people outside the team needs an end.")
    if wish.expires_at is not None and not now < wish.expires_at <= now + LONGEST:
        raise Refused("The link must end after now, and within a year.")
    if wish.max_views is not None and not 1 <= wish.max_views <= 10_000:
        raise Refused("The view limit is a number from 1 to 10,000.")
    token = secret_from(f"link\n{upload.pk}\n{form}") if form else new_secret(LINK_BYTES)
    values = {
        "hint": token[-5:],
        "what": wish.what,
        "who": wish.who,
        "password": make_password(wish.password) if wish.who == Who.PASSWORD else "",
        "show_preview": wish.show_preview,
        "created_by": by if access.is_person(by) else None,
        "created_by_name": person_name(by)[:150],
        "expires_at": wish.expires_at,
        "max_views": wish.max_views,
    }
    link, is_new = ShareLink.objects.get_or_create(upload=upload, token_hash=hash_secret(token), defaults=values)
    if not is_new:
        if not link.is_open():
            raise Refused("The link that this form made has ended. Reload the page to make another.")
        return link, token
    record(
        by,
        "share.make",
        team=upload.team,
        object=f"…{link.hint}",
        report=upload.public_id,
        what=link.what,
        who=link.who,
    )
    return link, token


def link_of(token: str) -> ShareLink | None:
    """The link of a token, open or not; None when it never existed."""
    links = ShareLink.objects.select_related("upload__team", "upload__uploader")
    return links.filter(token_hash=hash_secret(token)).first()


def links_in_force(upload: Upload) -> list[ShareLink]:
    """The links that still lead to this report, newest first."""
    return [link for link in upload.share_links.filter(revoked_at=None).order_by("-created_at") if link.is_open()]


def revoke(link: ShareLink, *, by: Any) -> None:
    """End a link at once."""
    if link.revoked_at is None:
        link.revoked_at = timezone.now()
        link.save(update_fields=["revoked_at"])
        record(by, "share.revoke", team=link.upload.team, object=f"…{link.hint}", report=link.upload.public_id)


def end_links(upload: Upload) -> int:
    """End every link of an upload, as it goes to the trash: restoring it later must not open old links again."""
    return upload.share_links.filter(revoked_at=None).update(revoked_at=timezone.now())


def count_view(link: ShareLink) -> bool:
    """Count one view; False when the limit was reached, by whoever came a moment earlier."""
    within = Q(max_views=None) | Q(views__lt=F("max_views"))
    counted = ShareLink.objects.filter(within, pk=link.pk).update(views=F("views") + 1, last_viewed_at=timezone.now())
    return bool(counted)


def count_try(link: ShareLink) -> bool:
    """Count one try at the password; False when as many as may come in a while have come.

    Each step is one statement of the database, so that tries that come together are all counted.
    """
    now = timezone.now()
    links, since = ShareLink.objects.filter(pk=link.pk), now - TRIES_COUNT
    if links.filter(Q(tried_since=None) | Q(tried_since__lt=since)).update(tries=1, tried_since=now):
        return True
    return bool(links.filter(tries__lt=TRIES, tried_since__gte=since).update(tries=F("tries") + 1))


def forget_tries(link: ShareLink) -> None:
    """The password was right: others count from the start again."""
    ShareLink.objects.filter(pk=link.pk).update(tries=0, tried_since=None)


def opens(link: ShareLink, password: str) -> bool:
    """True when the password is the link's."""
    return check_password(password, link.password)
