"""Who sends a request: a person, a token, or a browser that only has its own secret."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest

from ingest.refusals import Refused
from teams import access
from teams.current import home_of
from teams.models import Team
from teams.own_forms import is_ours, is_unplaced
from teams.tokens import hash_secret

SESSION_KEY = "uploader"
PROVED_KEY = "proved"  # ids of nobody's uploads whose delete token this browser gave
MOST_PROVED = 50


@dataclass(frozen=True)
class Sender:
    """Whoever sends an upload.

    user          the person, or None
    team          where the upload goes; None for the person alone, or nobody
    address_hash  keyed, so that the table of uploads is no list of addresses
    owner_hash    of the browser's own secret; empty where there is no browser session yet
    """

    user: Any
    team: Team | None
    address_hash: str
    owner_hash: str

    @property
    def limit(self) -> int:
        """Bytes of one request body."""
        limits = settings.KVDIAG_LIMITS
        return int(limits.max_member_upload_bytes if self.user else limits.max_upload_bytes)

    @property
    def is_only_an_address(self) -> bool:
        """True when nothing but the network address tells this sender from others."""
        return self.user is None and not self.owner_hash

    @property
    def key(self) -> str:
        """What tells this sender from others, for idempotency keys and rates."""
        if self.user is None:
            return f"browser {self.owner_hash}" if self.owner_hash else f"address {self.address_hash}"
        token = access.token_of(self.user)
        return f"token {token.pk}" if token else f"user {self.user.pk}"


def sender_of(request: HttpRequest, team_slug: str = "") -> Sender:
    """The sender, checked: may upload, and to the team that was named.

    Raises Refused: 401 without an account where one is needed, 403 for a team that is not the sender's.
    """
    user = getattr(request, "user", None)
    if not access.is_person(user):
        if request.headers.get("Authorization"):
            raise Refused(401, "bad_token", "The key in the Authorization header is not valid, or no longer valid.")
        if not settings.KVDIAG_ANONYMOUS_UPLOADS:
            raise Refused(
                401,
                "sign_in",
                "This site takes logs from its teams only. Sign in, or send a key: -H 'Authorization: Bearer …'.",
            )
        return Sender(None, None, address_hash(request), browser_hash(request))
    token = access.token_of(user)
    if token is not None:
        if not access.may(user, access.Action.UPLOAD, token.team):
            raise Refused(403, "scope", "This key may not upload. Make one with the scope “upload”.")
        return Sender(user, token.team, address_hash(request), "")
    return Sender(user, _team(user, team_slug), address_hash(request), browser_hash(request))


def _team(user: Any, slug: str) -> Team | None:
    """The team named, or the first that the person may upload to; "-" keeps the upload to the person alone."""
    if slug == "-":
        return None
    if not slug:
        return home_of(user)
    for team in access.teams_of(user):
        if team.slug == slug and access.may(user, access.Action.UPLOAD, team):
            return team
    raise Refused(403, "team", "You are not in that team, or may only read there.")


def address_of(request: HttpRequest) -> str:
    """The sender's address; behind proxies we trust, the one the outermost of them saw."""
    proxies = settings.KVDIAG_TRUSTED_PROXIES
    if proxies:
        forwarded = [part.strip() for part in request.headers.get("X-Forwarded-For", "").split(",") if part.strip()]
        if len(forwarded) >= proxies:
            return forwarded[-proxies]
    return str(request.META.get("REMOTE_ADDR", ""))


def address_hash(request: HttpRequest) -> str:
    return hmac.new(settings.SECRET_KEY.encode(), address_of(request).encode(), hashlib.sha256).hexdigest()


def browser_hash(request: HttpRequest) -> str:
    """The hash of this browser's secret; empty when it has none."""
    secret = request.session.get(SESSION_KEY, "") if hasattr(request, "session") else ""
    return hash_secret(secret) if secret else ""


def give_browser_secret(request: HttpRequest) -> None:
    """Lets this browser manage what it is about to send, without an account."""
    if SESSION_KEY not in request.session:
        request.session[SESSION_KEY] = secrets.token_urlsafe(16)


def refuse_other_sites(request: HttpRequest) -> None:
    """No other web page may send logs through its visitor's browser.

    The doors take bodies without a form token, so they look at what browsers say of the page that sends. Programs say
    nothing there and pass.
    """
    site = request.headers.get("Sec-Fetch-Site")
    origin = request.headers.get("Origin")
    elsewhere = site not in (None, "same-origin", "none")
    if is_unplaced(request):  # our own form has its token, which `refuse_forged` looks at once it is read
        elsewhere = request.content_type != "multipart/form-data"
    elif site is None and origin is not None:
        elsewhere = urlsplit(origin).netloc != request.get_host()
    if elsewhere:
        raise _sent_elsewhere()


def refuse_forged(request: HttpRequest) -> None:
    """The same for a form that has been read, of which the browser did not say where it comes from."""
    if is_unplaced(request) and not is_ours(request):
        raise _sent_elsewhere()


def _sent_elsewhere() -> Refused:
    return Refused(403, "cross_site", "Another web site tried to send this log through your browser.")


def may_manage(request: HttpRequest, upload: Any) -> bool:
    """True for whoever may cancel, retry and delete the upload: its team's editors, its uploader, or its sender.

    The sender of nobody's upload is known by the browser's secret or by the delete token in a header.
    """
    if access.may(request.user, access.Action.DELETE, upload):
        return True
    return sent_it(request, upload, request.headers.get("Upload-Token", ""))


def is_nobodys(upload: Any) -> bool:
    """True for what was sent without an account."""
    return upload.team_id is None and upload.uploader_id is None


def sent_it(request: HttpRequest, upload: Any, delete_token: str = "") -> bool:
    """True for the sender of nobody's upload: the browser that sent it, or whoever holds its delete token."""
    if not is_nobodys(upload):
        return False
    own = browser_hash(request)
    if own and upload.owner_hash and hmac.compare_digest(own, upload.owner_hash):
        return True
    if hasattr(request, "session") and upload.public_id in request.session.get(PROVED_KEY, ()):
        return True
    return access.holds_delete_token(upload, delete_token)


def prove_sent(request: HttpRequest, upload: Any, delete_token: str) -> bool:
    """Lets this browser manage nobody's upload that was sent elsewhere; False when the token is not its own."""
    if not sent_it(request, upload, delete_token):
        return False
    request.session[PROVED_KEY] = [*request.session.get(PROVED_KEY, ())[-MOST_PROVED:], upload.public_id]
    return True
