"""The only writers of people, teams and API tokens. Callers have asked `access` first."""

from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction
from django.utils import timezone
from django.utils.text import slugify

from teams.audit import person_name, record
from teams.models import ApiToken, Invitation, Membership, Role, Scope, SetupLink, Team
from teams.tokens import TOKEN_BYTES, hash_secret, new_secret, secret_from

TOKEN_PREFIX = "kvd_"  # lets secret scanners recognise a leaked key
INVITATION_LASTS = timedelta(days=7)
SETUP_LINK_LASTS = timedelta(days=1)


class Refused(Exception):
    """A change that the team's own order forbids; the text is a sentence for the person who asked."""


def setup_link() -> str | None:
    """The path with which the first person makes an account; None once anybody has one.

    Each call replaces the links printed before, so that only the newest start's line works.
    """
    if get_user_model().objects.exists():
        return None
    secret = new_secret()
    with transaction.atomic():
        SetupLink.objects.filter(used_at=None).delete()
        SetupLink.objects.create(token_hash=hash_secret(secret), expires_at=timezone.now() + SETUP_LINK_LASTS)
    return f"/setup/{secret}/"


def open_setup_link(secret: str) -> SetupLink | None:
    """The set-up link of this secret while it works: unused, in time, and nobody has an account yet."""
    if get_user_model().objects.exists():
        return None
    return SetupLink.objects.filter(token_hash=hash_secret(secret), used_at=None, expires_at__gt=timezone.now()).first()


@transaction.atomic
def use_setup_link(link: SetupLink, *, email: str, password: str, name: str, team_name: str) -> Any:
    """Make the first account, an operator's, and the first team. Raises Refused when the link was used meanwhile."""
    if not SetupLink.objects.filter(pk=link.pk, used_at=None).update(used_at=timezone.now()):
        raise Refused("This set-up link has been used. Sign in instead.")
    user = new_person(email=email, password=password, name=name)
    user.is_staff = user.is_superuser = True
    user.save(update_fields=["is_staff", "is_superuser"])
    create_team(team_name, owner=user)
    return user


def new_person(*, email: str, password: str, name: str = "") -> Any:
    """A person who signs in by e-mail and password; the address counts as verified.

    It is for those who came by a link of ours: the operator's own, or one that was sent to that address.
    """
    from allauth.account.models import EmailAddress

    first, _, last = name.strip().partition(" ")
    user = get_user_model().objects.create_user(
        username=email.lower()[:150], email=email.lower(), password=password, first_name=first, last_name=last
    )
    EmailAddress.objects.create(user=user, email=email.lower(), verified=True, primary=True)
    return user


def unverified_people(team: Team) -> set[int]:
    """The members, by id, of whom nobody knows that their address is theirs: they typed it in, and no mail was sent."""
    from allauth.account.models import EmailAddress

    people = set(team.memberships.values_list("user_id", flat=True))
    return people - set(EmailAddress.objects.filter(user__in=people, verified=True).values_list("user_id", flat=True))


@transaction.atomic
def create_team(name: str, *, owner: Any) -> Team:
    """A new team with one owner; its address is made from the name."""
    base = slugify(name)[:50] or "team"
    slug, number = base, 2
    while Team.objects.filter(slug=slug).exists():
        slug, number = f"{base}-{number}", number + 1
    team = Team.objects.create(name=name.strip(), slug=slug)
    Membership.objects.create(team=team, user=owner, role=Role.OWNER)
    record(owner, "team.create", team=team, object=team.name)
    return team


def rename_team(team: Team, name: str, *, by: Any) -> None:
    """Give a team another name; its address stays, so that links keep working."""
    record(by, "team.rename", team=team, object=name, before=team.name)
    team.name = name.strip()
    team.save(update_fields=["name"])


def change_settings(team: Team, changes: dict[str, Any], *, by: Any) -> None:
    """Set or, with None, unset the team's own thresholds and times."""
    team.settings = {key: value for key, value in {**team.settings, **changes}.items() if value is not None}
    team.save(update_fields=["settings"])
    record(by, "team.settings", team=team, changed=sorted(changes))


@transaction.atomic
def invite(team: Team, email: str, role: Role, *, by: Any, limit: int = 20) -> tuple[Invitation, str]:
    """An invitation and the path that accepts it, which is shown and sent once.

    An earlier open invitation of the same address ends. Raises Refused when the team is full.
    """
    if team.memberships.count() >= limit:
        raise Refused(f"The team has {limit} members, the most it may have.")
    if team.memberships.filter(user__email__iexact=email).exists():
        raise Refused(f"{email} is a member already.")
    now = timezone.now()
    team.invitations.filter(email__iexact=email, accepted_at=None, revoked_at=None).update(revoked_at=now)
    secret = new_secret()
    invitation = Invitation.objects.create(
        team=team,
        email=email.lower(),
        role=role,
        token_hash=hash_secret(secret),
        invited_by=by,
        expires_at=now + INVITATION_LASTS,
    )
    record(by, "member.invite", team=team, object=email, role=role)
    return invitation, f"/invitation/{secret}/"


def open_invitation(secret: str) -> Invitation | None:
    """The invitation of this secret while it works."""
    invitation = Invitation.objects.select_related("team").filter(token_hash=hash_secret(secret)).first()
    return invitation if invitation and invitation.is_open() else None


@transaction.atomic
def accept_invitation(invitation: Invitation, user: Any) -> Membership:
    """Bring a person into the team with the invitation's role. Raises Refused when it was used meanwhile."""
    used = Invitation.objects.filter(pk=invitation.pk, accepted_at=None, revoked_at=None)
    if not used.update(accepted_at=timezone.now()):
        raise Refused("This invitation has been used or revoked.")
    membership, _ = Membership.objects.get_or_create(
        team=invitation.team, user=user, defaults={"role": invitation.role}
    )
    record(user, "member.join", team=invitation.team, object=person_name(user), role=membership.role)
    return membership


def revoke_invitation(invitation: Invitation, *, by: Any) -> None:
    """End an invitation at once."""
    invitation.revoked_at = timezone.now()
    invitation.save(update_fields=["revoked_at"])
    record(by, "member.uninvite", team=invitation.team, object=invitation.email)


def _keep_an_owner(membership: Membership) -> None:
    """Raise Refused when the team would be left without an owner."""
    others = membership.team.memberships.select_for_update().filter(role=Role.OWNER).exclude(pk=membership.pk)
    if membership.role == Role.OWNER and not others.exists():
        raise Refused("A team needs an owner. Make somebody else an owner first.")


@transaction.atomic
def change_role(membership: Membership, role: Role, *, by: Any) -> None:
    """Give a member another role. Raises Refused for the last owner."""
    if role != Role.OWNER:
        _keep_an_owner(membership)
    record(
        by, "member.role", team=membership.team, object=person_name(membership.user), before=membership.role, role=role
    )
    membership.role = role
    membership.save(update_fields=["role"])


@transaction.atomic
def remove_member(membership: Membership, *, by: Any) -> None:
    """Take a member out, with the keys she made for this team. Raises Refused for the last owner."""
    _keep_an_owner(membership)
    team, user = membership.team, membership.user
    ApiToken.objects.filter(team=team, user=user, revoked_at=None).update(revoked_at=timezone.now())
    membership.delete()
    action = "member.leave" if by == user else "member.remove"
    record(by, action, team=team, object=person_name(user))


@transaction.atomic
def transfer(team: Team, to: Membership, *, by: Any) -> None:
    """Make another member the owner; the one who hands over stays as an editor."""
    to.role = Role.OWNER
    to.save(update_fields=["role"])
    if to.user != by:
        team.memberships.filter(user=by).update(role=Role.EDITOR)
    record(by, "team.transfer", team=team, object=person_name(to.user))


def create_token(
    *, user: Any, team: Team, name: str, scopes: list[Scope], expires_at: datetime | None, form: str = ""
) -> tuple[ApiToken, str]:
    """An API token and its secret, which is shown this once. The same form (`form_seed`) gives the same token again."""
    if form:
        secret = secret_from(f"token\n{user.pk}\n{team.pk}\n{form}", TOKEN_BYTES, TOKEN_PREFIX)
    else:
        secret = new_secret(prefix=TOKEN_PREFIX)
    values = {
        "name": name.strip() or "unnamed",
        "hint": secret[-4:],
        "scopes": [str(scope.value) for scope in scopes],
        "expires_at": expires_at,
    }
    token, is_new = ApiToken.objects.get_or_create(
        user=user, team=team, token_hash=hash_secret(secret), defaults=values
    )
    if is_new:
        record(user, "token.create", team=team, object=token.name, scopes=token.scopes)
    return token, secret


def revoke_token(token: ApiToken, *, by: Any) -> None:
    """End a token at once."""
    token.revoked_at = timezone.now()
    token.save(update_fields=["revoked_at"])
    record(by, "token.revoke", team=token.team, object=token.name)


def user_of_token(secret: str) -> Any | None:
    """The person a token acts as, with the token as her `api_token`; None when it opens nothing.

    A person who left the team, or was switched off, takes her tokens with her. The time of use is kept to the minute,
    so that a busy pipeline does not write at every request.
    """
    if not secret.startswith(TOKEN_PREFIX):
        return None
    token = ApiToken.objects.select_related("user", "team").filter(token_hash=hash_secret(secret)).first()
    if token is None or not token.is_valid() or not token.user.is_active:
        return None
    if not Membership.objects.filter(team=token.team, user=token.user).exists():
        return None
    now = timezone.now()
    if token.last_used_at is None or now - token.last_used_at > timedelta(minutes=1):
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    user = token.user
    user.api_token = token
    return user
