"""Who may see and do what: every permission question of the site is answered in this file.

Reading is a filter: `visible(Upload, to=user)` is the rows a person may see, so that a page looks its object up
among them and answers 404 for everything else. Doing is a question: `may(user, Action.SHARE, upload)`.

An upload belongs to a team, or to its uploader alone, or to nobody. Nobody's upload (sent without signing in) is
readable by whoever holds its unguessable address, and is never listed.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from django.db.models import Model, Q, QuerySet
from django.utils import timezone

from teams.models import ApiToken, Membership, Role, Scope, Team
from teams.tokens import is_secret_of


class Action(StrEnum):
    """What a person may ask to do."""

    VIEW = "view"
    UPLOAD = "upload"
    EDIT = "edit"  # titles, tags, findings' states, baselines, saved views of the team
    SHARE = "share"
    DELETE = "delete"
    REDACT = "redact"
    RESTORE = "restore"
    EXPORT = "export"
    MANAGE = "manage"  # members, notifications, thresholds, retention, the trail
    CLAIM = "claim"
    JUDGE = "judge"  # say of a finding that it is helpful or wrong


@dataclass(frozen=True, slots=True)
class Need:
    """The least role and, for a token, the scope that an action asks for."""

    role: Role
    scope: Scope


NEEDS = {
    Action.VIEW: Need(Role.VIEWER, Scope.READ),
    Action.EXPORT: Need(Role.EDITOR, Scope.READ),
    Action.UPLOAD: Need(Role.EDITOR, Scope.UPLOAD),
    Action.EDIT: Need(Role.EDITOR, Scope.WRITE),
    Action.SHARE: Need(Role.EDITOR, Scope.WRITE),
    Action.DELETE: Need(Role.EDITOR, Scope.WRITE),
    Action.REDACT: Need(Role.EDITOR, Scope.WRITE),
    Action.RESTORE: Need(Role.EDITOR, Scope.WRITE),
    Action.CLAIM: Need(Role.EDITOR, Scope.WRITE),
    Action.JUDGE: Need(Role.VIEWER, Scope.WRITE),
    Action.MANAGE: Need(Role.OWNER, Scope.WRITE),
}

RANK = {Role.VIEWER: 0, Role.EDITOR: 1, Role.OWNER: 2}

# How a model hangs on its team and, where it has one, on its upload. Labels, not classes: this app knows no other.
TEAM_OF = {
    "teams.team": "",
    "teams.membership": "team",
    "teams.invitation": "team",
    "teams.apitoken": "team",
    "teams.deployment": "team",
    "teams.auditentry": "team",
    "ingest.upload": "team",
    "ingest.storedreport": "upload__team",
    "reports.sharelink": "upload__team",
    "reports.baseline": "deployment__team",
    "reports.comparison": "report__upload__team",
    "reports.trackedfinding": "deployment__team",
    "reports.alert": "deployment__team",
    "reports.badge": "deployment__team",
    "reports.opinion": "report__upload__team",
    "reports.channel": "team",
    "reports.delivery": "channel__team",
    "reports.savedview": "team",
    "reports.prediction": "deployment__team",
    "reports.searchentry": "team",
}
UPLOAD_OF = {
    "ingest.upload": "",
    "ingest.storedreport": "upload__",
    "reports.sharelink": "upload__",
    "reports.comparison": "report__upload__",
    "reports.opinion": "report__upload__",
}


def token_of(user: Any) -> ApiToken | None:
    """The API token a request came with; None for a browser session."""
    return cast(ApiToken | None, getattr(user, "api_token", None))


def is_person(user: Any) -> bool:
    """True when somebody is signed in."""
    return bool(getattr(user, "is_authenticated", False))


def team_ids(user: Any) -> QuerySet[Membership, int]:
    """The teams a person is in; with a token, only the token's team."""
    memberships = Membership.objects.filter(user_id=user.pk) if is_person(user) else Membership.objects.none()
    token = token_of(user)
    if token is not None:
        memberships = memberships.filter(team_id=token.team_id)
    return memberships.values_list("team_id", flat=True)


def teams_of(user: Any) -> QuerySet[Team]:
    """The teams a person is in, by name."""
    return Team.objects.filter(pk__in=team_ids(user)).order_by("name", "pk")


def visible(what: type[Model] | QuerySet[Any], *, to: Any, trash: bool = False) -> QuerySet[Any]:
    """The rows a person may see.

    trash  True for the rows in the trash, in place of those outside it
    """
    queryset = what if isinstance(what, QuerySet) else what._default_manager.all()
    label = queryset.model._meta.label_lower
    token = token_of(to)
    if token is not None and Scope.READ not in token.scopes and label not in UPLOAD_OF:
        return queryset.none()
    team = TEAM_OF[label]
    allowed = Q(**{f"{team}__in" if team else "pk__in": team_ids(to)})
    if label in UPLOAD_OF:
        upload = UPLOAD_OF[label]
        if token is not None and Scope.READ not in token.scopes:
            # A pipeline's key sees what it sent, and nothing else of the team.
            allowed &= Q(**{f"{upload}uploader": to.pk})
        if is_person(to) and token is None:
            allowed |= Q(**{f"{upload}team": None, f"{upload}uploader": to.pk})
        if label in ("ingest.upload", "ingest.storedreport"):
            allowed |= Q(**{f"{upload}team": None, f"{upload}uploader": None})
        allowed &= Q(**{f"{upload}deleted_at__isnull": not trash})
        # what has expired is gone, also while nothing runs that deletes it
        allowed &= Q(**{f"{upload}expires_at": None}) | Q(**{f"{upload}expires_at__gt": timezone.now()})
    return queryset.filter(allowed)


def role_in(team: Team | int | None, user: Any) -> Role | None:
    """A person's role in a team; None outside it."""
    if team is None or not is_person(user):
        return None
    team_id = team if isinstance(team, int) else team.pk
    token = token_of(user)
    if token is not None and token.team_id != team_id:
        return None
    role = Membership.objects.filter(team_id=team_id, user_id=user.pk).values_list("role", flat=True).first()
    return Role(role) if role else None


def may(user: Any, action: Action | str, obj: Any) -> bool:
    """True when the person may do this to the object: a team, or anything that hangs on one.

    A token also needs the action's scope. What is nobody's may be viewed, and claimed by whoever is signed in;
    deleting it takes its delete token (`holds_delete_token`).
    """
    action = Action(action)
    need = NEEDS[action]
    token = token_of(user)
    if token is not None and need.scope not in token.scopes:
        return False
    team_id, uploader_id = owners(obj)
    if team_id is not None:
        role = role_in(team_id, user)
        return role is not None and RANK[role] >= RANK[need.role]
    if uploader_id is not None:
        return is_person(user) and token is None and uploader_id == user.pk and action is not Action.CLAIM
    if action is Action.CLAIM:
        return is_person(user)
    return action is Action.VIEW


def owners(obj: Any) -> tuple[int | None, int | None]:
    """The team and the uploader an object belongs to, as ids."""
    label = obj._meta.label_lower
    path = TEAM_OF[label]
    if not path:
        return obj.pk, None
    holder = obj
    for step in path.split("__")[:-1]:
        holder = getattr(holder, step)
    return holder.team_id, getattr(holder, "uploader_id", None) if label in UPLOAD_OF else None


def holds_delete_token(upload: Any, secret: str) -> bool:
    """True when the secret is the delete token that the upload's sender was given."""
    return bool(secret) and is_secret_of(secret, upload.delete_token_hash or "")
