"""Who calls the API: a token, or nobody. A browser's session counts for nothing here, so no page can borrow it."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from ninja.security import HttpBearer

from ingest import rate
from ingest.sender import address_hash, is_nobodys
from kvdiag.api.problems import not_allowed
from teams import access
from teams.access import Action
from teams.models import Team


class Token(HttpBearer):
    """`Authorization: Bearer kvd_…`, checked by teams.middleware before we are asked."""

    def authenticate(self, request: HttpRequest, token: str) -> Any:
        return request.user if access.token_of(request.user) is not None else None


class TokenOrNobody(Token):
    """The same, where nobody's reports may be read and sent without a token."""

    openapi_security_schema = None

    def __call__(self, request: HttpRequest) -> Any:
        return caller(request)


def caller(request: HttpRequest) -> Any:
    """The token's person, or nobody."""
    return request.user if access.token_of(request.user) is not None else AnonymousUser()


def spend(request: HttpRequest) -> Any:
    """Count a request against its sender's rate, and tell who it is. Raises Refused (429)."""
    user, limits = caller(request), settings.KVDIAG_LIMITS
    token = access.token_of(user)
    if token is not None:
        rate.spend("read", f"token {token.pk}", limits.token_requests_per_minute)
    else:
        rate.spend("read", address_hash(request), limits.anonymous_reads_per_minute)
    return user


def team_of(request: HttpRequest) -> Team:
    """The team of the token."""
    token = access.token_of(request.user)
    if token is None:
        raise not_allowed()
    return token.team


def must(user: Any, action: Action, obj: Any) -> None:
    """Raises a 403 unless the caller may do this."""
    if not access.may(user, action, obj):
        raise not_allowed()


def must_share(request: HttpRequest, user: Any, upload: Any) -> None:
    """Raises a 403 unless the caller may share this, or holds the delete token of nobody's upload (`Upload-Token`)."""
    secret = request.headers.get("Upload-Token", "")
    if not (is_nobodys(upload) and access.holds_delete_token(upload, secret)):
        must(user, Action.SHARE, upload)


SENDERS_TOKEN = {
    "parameters": [
        {
            "in": "header",
            "name": "Upload-Token",
            "required": False,
            "schema": {"type": "string", "maxLength": 100},
            "description": "The delete token of an upload that was sent without an account",
        }
    ]
}


def must_read(request: HttpRequest) -> None:
    """Raises a 403 for a token that may not read the team's objects."""
    must(request.user, Action.VIEW, team_of(request))
