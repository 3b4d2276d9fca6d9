"""The audit trail: who did what to a team, its people, links and reports."""

from typing import Any

from teams.models import AuditEntry, Team


def person_name(user: Any) -> str:
    """How pages call a person: the name, or else the e-mail address; "" for nobody."""
    if not getattr(user, "is_authenticated", False):
        return ""
    return str(user.get_full_name() or user.email or user.get_username())


def record(actor: Any, action: str, *, team: Team | None, object: str = "", **detail: Any) -> AuditEntry:
    """Write one line of the trail. `detail` holds names, roles and ids, never a secret or log text."""
    signed_in = getattr(actor, "is_authenticated", False)
    return AuditEntry.objects.create(
        team=team,
        actor=actor if signed_in else None,
        actor_name=person_name(actor)[:150],
        action=action,
        object=object[:200],
        detail=detail,
    )
