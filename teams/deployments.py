"""The series that launches join: by the name their sender gave, or by what they start on what."""

import hashlib
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from teams.audit import record
from teams.models import Deployment, Team


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What tells one deployment from another when nobody named it.

    model     as the launch names it: a path or a repository
    hardware  count and kind of the GPUs, as far as the log says
    layout    parallel layout and number formats: what an operator would call another deployment when it changes
    """

    model: str
    hardware: str
    layout: tuple[tuple[str, Any], ...]

    @property
    def key(self) -> str:
        """A short, stable name for the fingerprint."""
        text = repr((self.model, self.hardware, self.layout))
        return "auto:" + hashlib.sha256(text.encode()).hexdigest()[:20]

    @property
    def name(self) -> str:
        """A proposed name, which a person may change: the model's last part and the tensor parallel size."""
        base = self.model.rstrip("/").rpartition("/")[2] or "unnamed model"
        tp = dict(self.layout).get("tp")
        return f"{base} tp{tp}"[:200] if tp and tp > 1 else base[:200]


def named_deployment(team: Team, name: str, *, owner: Any) -> Deployment:
    """The deployment of this name in the team, made when there is none; a merged one leads to where it went."""
    name = plain_name(name)
    return _joined(team, name.casefold(), name, owner)


def fitting_deployment(team: Team, fingerprint: Fingerprint, *, owner: Any) -> Deployment:
    """The deployment that a launch without a name joins."""
    deployment = _joined(team, fingerprint.key, fingerprint.name, owner)
    if not deployment.model:
        deployment.model, deployment.hardware = fingerprint.model[:300], fingerprint.hardware[:120]
        deployment.save(update_fields=["model", "hardware"])
    return deployment


def _joined(team: Team, key: str, name: str, owner: Any) -> Deployment:
    signed_in = owner if getattr(owner, "pk", None) else None
    deployment, _ = Deployment.objects.get_or_create(team=team, key=key, defaults={"name": name, "owner": signed_in})
    seen = set()
    while deployment.merged_into is not None and deployment.pk not in seen:
        seen.add(deployment.pk)
        deployment = deployment.merged_into
    return deployment


def rename_deployment(deployment: Deployment, name: str, *, by: Any) -> None:
    """Call a deployment otherwise. Its key stays, so that pipelines which send by the old name still reach it."""
    name = plain_name(name) or deployment.name
    record(by, "deployment.rename", team=deployment.team, object=name, before=deployment.name)
    deployment.name = name
    deployment.save(update_fields=["name"])


def plain_name(name: str) -> str:
    """A name on one line, without what is not printed: a NUL, which PostgreSQL does not take, or marks that turn the
    reading of what stands beside it."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in name).split())[:200]


def give_deployment(deployment: Deployment, owner: Any, *, by: Any) -> None:
    """Make a member the one who looks after a deployment."""
    deployment.owner = owner
    deployment.save(update_fields=["owner"])
    record(by, "deployment.owner", team=deployment.team, object=deployment.name, owner=str(owner))


@transaction.atomic
def merge_deployments(source: Deployment, target: Deployment, *, by: Any) -> None:
    """Move all uploads of one deployment into another; later launches with the source's key follow."""
    if source.team_id != target.team_id or source.pk == target.pk:
        raise ValueError("only two deployments of one team can be merged")
    if target.merged_into_id is not None:
        raise ValueError("a deployment that is part of another takes no launches")
    source.uploads.update(deployment=target)
    Deployment.objects.filter(merged_into=source).update(merged_into=target)
    source.merged_into = target
    source.save(update_fields=["merged_into"])
    record(by, "deployment.merge", team=target.team, object=target.name, merged=source.name)
