"""The token's team, its tokens and share links; the site's limits."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from django.conf import settings
from django.db.models import Q
from django.http import HttpRequest, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from ninja import Path, Query, Router, Status

from ingest.answers import absolute
from ingest.models import Upload
from kvdiag.api.callers import SENDERS_TOKEN, Token, TokenOrNobody, must, must_read, must_share, spend, team_of
from kvdiag.api.problems import No, Problem, answers
from kvdiag.api.reports import Id, find, stored_of
from kvdiag.api.schemas import (
    AuditPage,
    ChannelOut,
    InvitationOut,
    MemberOut,
    RuleOpinionsOut,
    RuleOut,
    SavedViewOut,
    ShareIn,
    ShareOut,
    SharePage,
    TeamOut,
    TokenIn,
    TokenOut,
)
from reports import opinions, sharing_links
from reports.cursor import page
from reports.models import SavedView, ShareLink
from reports.sharing_pages import export_lines
from teams import access, services
from teams.access import Action
from teams.audit import record
from teams.models import ApiToken, AuditEntry, Scope, Team

router = Router()


def owned_team(request: HttpRequest) -> tuple[Any, Team]:
    """The caller and her token's team, if she may manage it; raises a 403 otherwise. Counts the request."""
    user, team = spend(request), team_of(request)
    must(user, Action.MANAGE, team)
    return user, team


@router.get(
    "/limits",
    auth=TokenOrNobody(),
    response={200: dict[str, Any], 401: dict[str, Any]},
    tags=["site"],
    summary="Every limit of the site",
)
def limits(request: HttpRequest) -> Any:
    """Sizes in bytes, times in seconds unless the name says otherwise, rates per minute. As configured here."""
    own = {
        "anonymous_uploads": settings.KVDIAG_ANONYMOUS_UPLOADS,
        "formats": ["text", "gzip", "zstd", "xz", "bzip2", "zip", "tar"],
    }
    return {**settings.KVDIAG_LIMITS.as_dict(), **own}


@router.get("/team", auth=Token(), response=answers(200, TeamOut), tags=["team"], summary="The token's team")
def read_team(request: HttpRequest) -> Any:
    """Team, role and scopes the token works with."""
    user = spend(request)
    team, token = team_of(request), access.token_of(user)
    role = access.role_in(team, user)
    may_read = access.may(user, Action.VIEW, team)
    return {
        "name": team.name,
        "slug": team.slug,
        "role": role.value if role else "",
        "scopes": token.scopes if token else [],
        "settings": team.settings if may_read else {},
    }


@router.get("/team/members", auth=Token(), response=answers(200, list[MemberOut]), tags=["team"], summary="Members")
def read_members(request: HttpRequest) -> Any:
    """Who is in the team."""
    spend(request)
    must_read(request)
    team = team_of(request)
    unverified = services.unverified_people(team)
    return [
        {
            "email": each.user.email,
            "email_verified": each.user_id not in unverified,
            "name": each.user.get_full_name(),
            "role": each.role,
            "since": each.created_at,
        }
        for each in team.memberships.select_related("user").order_by("pk")
    ]


@router.get(
    "/team/channels", auth=Token(), response=answers(200, list[ChannelOut]), tags=["team"], summary="Notifications"
)
def read_channels(request: HttpRequest) -> Any:
    """Where alerts go, each with what came of its newest 20 deliveries."""
    user = spend(request)
    must_read(request)
    may_manage = access.may(user, Action.MANAGE, team_of(request))
    return [
        {
            "id": each.public_id,
            "kind": each.kind,
            "address": each.address if may_manage else None,
            "is_on": each.is_on,
            "deliveries": [
                {"at": one.at, "alert": one.alert_id, "is_sent": one.is_sent, "status": one.status, "error": one.error}
                for one in each.deliveries.order_by("-pk")[:20]
            ],
        }
        for each in team_of(request).channels.order_by("pk")
    ]


@router.get(
    "/team/invitations",
    auth=Token(),
    response=answers(200, list[InvitationOut]),
    tags=["team"],
    summary="Open invitations",
)
def read_invitations(request: HttpRequest) -> Any:
    """Who was invited and has not come yet; for owners."""
    _, team = owned_team(request)
    found = team.invitations.filter(accepted_at=None, revoked_at=None).order_by("-created_at")
    return [each for each in found if each.is_open()]


@router.get(
    "/team/views", auth=Token(), response=answers(200, list[SavedViewOut]), tags=["team"], summary="Saved views"
)
def read_views(request: HttpRequest) -> Any:
    """Filters of the dashboard and the findings under a name: one's own and the team's."""
    user = spend(request)
    must_read(request)
    own = Q(owner=None) | Q(owner=user.pk)
    return [
        {"id": each.public_id, "page": each.page, "name": each.name, "query": each.query, "is_own": bool(each.owner_id)}
        for each in SavedView.objects.filter(own, team=team_of(request)).order_by("pk")
    ]


@router.get(
    "/team/opinions",
    auth=Token(),
    response=answers(200, list[RuleOpinionsOut]),
    tags=["team"],
    summary="What readers said of findings",
)
def read_team_opinions(request: HttpRequest) -> Any:
    """Helpful and wrong by rule and engine, with the reasons that were given; for owners."""
    user, team = owned_team(request)
    return [
        {
            **{name: getattr(row, name) for name in ("rule", "engine", "helpful", "wrong")},
            "reasons": [
                {
                    "report": each.report.upload.public_id,
                    "says": each.says,
                    "reason": each.reason,
                    "said_at": each.said_at,
                }
                for each in row.reasons
            ],
        }
        for row in opinions.counted(team, to=user)
    ]


@router.get("/rules", auth=TokenOrNobody(), response=answers(200, list[RuleOut]), tags=["site"], summary="Every rule")
def read_rules(request: HttpRequest) -> Any:
    """The rules of the engine with their documentation."""
    from kvdiag.diagnosis.rules import all_rules

    spend(request)
    return [
        {
            "id": each.id,
            "title": each.title,
            "severity": each.severity.value,
            "releases": each.releases,
            "sections": each.sections,
            "url": absolute(request, f"/rules/{each.id}/"),
        }
        for each in all_rules()
    ]


@router.get("/team/audit", auth=Token(), response=answers(200, AuditPage, 400), tags=["team"], summary="Audit trail")
def read_audit(
    request: HttpRequest,
    cursor: Annotated[str, Query(max_length=300)] = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
) -> Any:
    """Who did what, newest first; for owners."""
    user, _ = owned_team(request)
    rows = page(access.visible(AuditEntry, to=user), by="at", size=limit, cursor=cursor)
    items = [
        {
            "id": each.pk,
            "at": each.at,
            "actor": each.actor_name,
            "action": each.action,
            "object": each.object,
            "detail": each.detail,
        }
        for each in rows.rows
    ]
    return {"items": items, "next": rows.next}


NDJSON = {"description": "OK", "content": {"application/x-ndjson": {"schema": {"type": "string"}}}}


@router.get(
    "/team/export",
    auth=Token(),
    response=answers(404, Problem),
    openapi_extra={"responses": {200: NDJSON}},
    tags=["team"],
    summary="Everything, as JSON Lines",
)
def export(request: HttpRequest) -> Any:
    """One object a line, each with its type; documents are whole. The trail and addresses are for owners."""
    user = spend(request)
    team = team_of(request)
    must(user, Action.EXPORT, team)
    record(user, "team.export", team=team, object=team.name)
    whole = access.may(user, Action.MANAGE, team)
    return StreamingHttpResponse(export_lines(team, whole=whole), content_type="application/x-ndjson")


# --- Tokens -----------------------------------------------------------------------------------------------------------


def token_shown(token: ApiToken, secret: str | None = None) -> dict[str, Any]:
    """A token without what opens anything, but for the answer that makes it."""
    names = ("name", "hint", "scopes", "created_at", "expires_at", "last_used_at")
    return {"id": token.pk, **{name: getattr(token, name) for name in names}, "secret": secret}


@router.get("/tokens", auth=Token(), response=answers(200, list[TokenOut]), tags=["tokens"], summary="Your tokens")
def list_tokens(request: HttpRequest) -> Any:
    """The caller's tokens in this team that are not revoked."""
    user = spend(request)
    must_read(request)
    tokens = ApiToken.objects.filter(user=user, team=team_of(request), revoked_at=None).order_by("-pk")
    return [token_shown(each) for each in tokens]


@router.post("/tokens", auth=Token(), response=answers(201, TokenOut), tags=["tokens"], summary="Make a token")
def make_token(request: HttpRequest, wish: TokenIn) -> Any:
    """A new token with at most the scopes, and at most the time, of the one that makes it."""
    user = spend(request)
    own = access.token_of(user)
    if own is None or Scope.WRITE not in own.scopes or not set(wish.scopes) <= set(own.scopes):
        raise No(
            403, "not_allowed", "A token needs the scope write to make others, and gives them no scope of its own lack."
        )
    expires_at = timezone.now() + timedelta(days=wish.days) if wish.days else None
    if own.expires_at is not None:
        expires_at = min(expires_at or own.expires_at, own.expires_at)
    token, secret = services.create_token(
        user=user, team=own.team, name=wish.name, scopes=[Scope(each) for each in wish.scopes], expires_at=expires_at
    )
    return Status(201, token_shown(token, secret))


@router.delete(
    "/tokens/{token_id}", auth=Token(), response=answers(204, None), tags=["tokens"], summary="Revoke a token"
)
def drop_token(request: HttpRequest, token_id: Annotated[int, Path(ge=1, le=2**62)]) -> Any:
    """End one of the caller's tokens at once."""
    user = spend(request)
    own = access.token_of(user)
    tokens = ApiToken.objects.filter(user=user, team=team_of(request), revoked_at=None)
    token = get_object_or_404(tokens, pk=token_id)
    if own is None or (Scope.WRITE not in own.scopes and own.pk != token.pk):
        raise No(403, "not_allowed", "A token without the scope write may revoke itself only.")
    services.revoke_token(token, by=user)
    return Status(204, None)


# --- Shares -----------------------------------------------------------------------------------------------------------


def share_shown(link: ShareLink, url: str | None = None) -> dict[str, Any]:
    """A link without what opens it, but for the answer that makes it."""
    names = ("hint", "what", "who", "created_at", "expires_at", "max_views", "views", "last_viewed_at")
    return {
        "id": link.public_id,
        "report": link.upload.public_id,
        **{name: getattr(link, name) for name in names},
        "url": url,
    }


@router.get("/shares", auth=Token(), response=answers(200, SharePage, 400), tags=["shares"], summary="All links")
def list_all_shares(
    request: HttpRequest,
    cursor: Annotated[str, Query(max_length=300)] = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
) -> Any:
    """Every link into the team's reports that was not revoked, newest first; ended ones with their end."""
    user = spend(request)
    must(user, Action.SHARE, team_of(request))
    links = access.visible(ShareLink, to=user).filter(upload__team=team_of(request), revoked_at=None)
    found = page(links.select_related("upload"), by="created_at", size=limit, cursor=cursor)
    return {"items": [share_shown(each) for each in found.rows], "next": found.next}


@router.get(
    "/reports/{report_id}/shares",
    auth=TokenOrNobody(),
    openapi_extra=SENDERS_TOKEN,
    response=answers(200, list[ShareOut]),
    tags=["shares"],
    summary="Links in force",
)
def list_shares(request: HttpRequest, report_id: Path[Id]) -> Any:
    """Links that lead to a report."""
    user = spend(request)
    upload = find(user, report_id)
    must_share(request, user, upload)
    return [share_shown(each) for each in sharing_links.links_in_force(upload)]


@router.post(
    "/reports/{report_id}/shares",
    auth=TokenOrNobody(),
    openapi_extra=SENDERS_TOKEN,
    response=answers(201, ShareOut, 409),
    tags=["shares"],
    summary="Share a report",
)
def make_share(request: HttpRequest, report_id: Path[Id], wish: ShareIn) -> Any:
    """Make a link: facts only or with the masked log, for anyone, with a password, or for members."""
    user = spend(request)
    upload = find(user, report_id)
    must_share(request, user, upload)
    stored_of(upload)
    try:
        link, token = sharing_links.make_link(
            upload,
            sharing_links.Wish(
                what=wish.what,
                who=wish.who,
                expires_at=timezone.now() + timedelta(days=wish.days) if wish.days else None,
                password=wish.password,
                max_views=wish.max_views,
                show_preview=wish.show_preview,
            ),
            by=user,
        )
    except sharing_links.Refused as refused:
        raise No(422, "invalid", str(refused)) from None
    return Status(201, share_shown(link, absolute(request, f"/s/{token}/")))


@router.delete(
    "/shares/{share_id}",
    auth=TokenOrNobody(),
    openapi_extra=SENDERS_TOKEN,
    response=answers(204, None),
    tags=["shares"],
    summary="Revoke a link",
)
def drop_share(request: HttpRequest, share_id: Path[Id]) -> Any:
    """End a link at once."""
    user = spend(request)
    seen = Q(pk__in=access.visible(ShareLink, to=user).values("pk")) | Q(upload__in=access.visible(Upload, to=user))
    link = get_object_or_404(ShareLink.objects.filter(seen).select_related("upload__team"), public_id=share_id)
    must_share(request, user, link.upload)
    sharing_links.revoke(link, by=user)
    return Status(204, None)
