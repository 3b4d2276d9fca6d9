"""Owner, editor, viewer, outsider and nobody on every page and endpoint of the URL configuration.

The addresses are read from the configuration itself: a new one fails here until somebody has said who may use it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.http import HttpResponse
from django.test import Client
from django.urls import get_resolver
from django.urls.resolvers import URLPattern, URLResolver
from django.utils import timezone

from ingest.models import StoredReport
from reports import sharing_links, sharing_trash
from reports.models import Channel, Prediction, SavedView, TrackedFinding
from reports.sharing_links import What, Who, Wish
from teams import services
from teams.models import Role, Scope
from teams.tokens import hash_secret
from tests.teams import world as worlds
from tests.teams.conftest import signed_in
from tests.teams.world import World

PERSONS = ("owner", "editor", "viewer", "outsider", "nobody")
INSIDE = PERSONS[:3]
SECRET = "the-teams-own-words"  # in every name and document of the team: nobody outside may read it


@dataclass(frozen=True)
class Rule:
    """Who may GET and who may POST: the least person of the list, or None for nobody at all.

    Outsiders are told "there is no such thing" (404), never "you may not" (403).
    """

    get: str | None
    post: str | None = None


OPEN, SIGNED = "nobody", "outsider"
PUBLIC = Rule(OPEN)
READ = Rule("viewer")
READ_EDIT = Rule("viewer", "editor")
READ_MANAGE = Rule("viewer", "owner")
EDIT = Rule(None, "editor")
MANAGE = Rule(None, "owner")
OWN_PAGE = Rule(SIGNED, SIGNED)
ACCOUNT = Rule(OPEN, OPEN)  # django-allauth's own pages: about the reader alone

RULES: dict[str, Rule] = {
    "api": PUBLIC, "limits": PUBLIC, "rules": PUBLIC,
    "rule": PUBLIC, "design": PUBLIC, "patterns": PUBLIC,
    "setup": Rule(None, None), "invitation": Rule(OPEN, OPEN),
    "profile": OWN_PAGE, "team_new": OWN_PAGE,
    "dashboard": Rule(SIGNED), "report_list": Rule(SIGNED), "findings": Rule(SIGNED),
    "save_view": Rule(None, SIGNED), "drop_view": EDIT, "findings_change": Rule(None, SIGNED),
    "bulk_delete": Rule(None, SIGNED),
    "team_general": READ_MANAGE, "team_members": READ_MANAGE, "team_tokens": Rule("viewer", "viewer"),
    "team_channels": READ_MANAGE, "team_trash": READ, "team_links": Rule("editor"), "team_trail": Rule("owner"),
    "team_export": Rule("editor"), "team_member_change": MANAGE, "team_invitation_revoke": MANAGE,
    "team_channel_change": MANAGE, "team_token_revoke": MANAGE,
    "team_thresholds": READ_MANAGE, "team_redaction": READ_MANAGE,
    "report": READ, "report-what-if": READ, "report-log-find": READ, "report-log-some": READ, "report-log-text": READ,
    "report-ranks-csv": READ, "report-markdown": READ, "report-offline": READ, "report-json": READ, "report-log": READ,
    "upload-status": READ, "compare": PUBLIC,
    "upload-cancel": EDIT, "upload-retry": EDIT, "upload-delete": EDIT, "trash_upload": EDIT, "restore_upload": EDIT,
    "redact": Rule("editor", "editor"), "share_sheet": Rule("editor", "editor"), "share_revoke": EDIT,
    "claim": EDIT, "deployment": READ, "deployment_change": EDIT, "pin_baseline": EDIT,
    "badge_sheet": Rule("editor", "editor"), "badge": PUBLIC,
    "say_finding": Rule(None, "viewer"), "team_opinions": Rule("owner"),
    "prove_sender": Rule(None, OPEN), "keep_scenario": EDIT, "drop_scenario": EDIT,
    "shared": Rule("viewer", "viewer"), "shared_seen": Rule(None, "viewer"), "shared_log": READ,
    "shared_log_find": READ, "shared_log_some": READ, "shared_what_if": READ, "shared_json": READ,
    "upload": Rule(OPEN, OPEN), "sample": Rule(None, OPEN),
    "upload-begin": Rule(None, OPEN), "upload-known": PUBLIC, "upload-finish": Rule(None, None),
    "upload-part": Rule(None, None),
}  # fmt: skip

# What the API asks of a person's token; the token has every scope.
API: dict[tuple[str, str], Rule] = {
    ("POST", "send_report"): Rule("editor"), ("POST", "analyse"): Rule("editor"),
     ("GET", "list_reports"): Rule(SIGNED), ("GET", "read_report"): READ,
    ("DELETE", "delete_report"): Rule("editor"), ("GET", "read_document"): READ, ("GET", "read_findings"): READ,
    ("GET", "read_log"): READ, ("POST", "what_if"): READ, ("GET", "compare"): READ,
    ("POST", "restore_report"): Rule("editor"), ("GET", "list_deployments"): Rule(SIGNED),
    ("GET", "read_deployment"): READ, ("PATCH", "change_deployment"): Rule("editor"),
    ("POST", "merge_deployment"): Rule("editor"), ("GET", "read_launches"): READ,
    ("GET", "read_predictions"): READ, ("DELETE", "drop_prediction"): Rule("editor"),
    ("PUT", "put_baseline"): Rule("editor"), ("DELETE", "drop_baseline"): Rule("editor"),
    ("GET", "read_opinions"): READ, ("PUT", "say_finding"): READ, ("GET", "read_team_opinions"): Rule("owner"),
    ("GET", "read_badge"): Rule("editor"), ("POST", "make_badge"): Rule("editor"),
    ("DELETE", "drop_badge"): Rule("editor"),
    ("GET", "list_findings"): Rule(SIGNED), ("PATCH", "change_finding"): Rule("editor"),
    ("GET", "list_alerts"): Rule(SIGNED), ("GET", "metrics"): Rule(SIGNED),
    ("GET", "limits"): PUBLIC, ("GET", "read_team"): Rule(SIGNED),
    ("GET", "read_members"): Rule(SIGNED), ("GET", "read_audit"): Rule("owner"), ("GET", "export"): Rule("editor"),
    ("GET", "list_tokens"): Rule(SIGNED), ("POST", "make_token"): Rule(SIGNED), ("DELETE", "drop_token"): Rule("owner"),
    ("GET", "list_uploads"): Rule(SIGNED), ("GET", "read_channels"): Rule(SIGNED),
    ("GET", "read_invitations"): Rule("owner"), ("GET", "read_views"): Rule(SIGNED), ("GET", "read_rules"): PUBLIC,
    ("GET", "list_all_shares"): Rule("editor"), ("GET", "list_shares"): Rule("editor"),
    ("POST", "make_share"): Rule("editor"),
    ("DELETE", "drop_share"): Rule("editor"),
}  # fmt: skip


def patterns(resolver: URLResolver | None = None, path: str = "/", space: str = "") -> Iterator[tuple[str, str]]:
    """Name and path of every address that the site answers."""
    for each in (resolver or get_resolver()).url_patterns:
        below = path + str(each.pattern)
        if isinstance(each, URLResolver):
            yield from patterns(each, below, each.namespace or space)
        elif isinstance(each, URLPattern):
            yield (f"{space}:" if space else "") + str(each.name or below), below


ADDRESSES = dict(patterns())
# Not here: what asks services that only the running site has, the short way to the sign-in page, and what PUT and
# DELETE lead to, which take no other method: the last is tried below.
ELSEWHERE = {"healthz", "readyz", "signin", "/-/put/", "/-/put/<path:name>", "/-/delete/<str:public_id>"}
PAGES = sorted(name for name in ADDRESSES if not name.startswith(("account_", "api-v1:")) and name not in ELSEWHERE)


@dataclass
class Scene:
    """The world with one of everything, and the values that go into addresses."""

    world: World
    stored: StoredReport
    values: dict[str, str]
    special: dict[str, dict[str, str]]

    def client(self, person: str) -> Client:
        users = {"owner": "alice", "editor": "bob", "viewer": "vera", "outsider": "charlie"}
        return signed_in(getattr(self.world, users[person]) if person in users else None)

    def path(self, name: str) -> str:
        """The address of this name, filled in."""
        values = {**self.values, **self.special.get(name, {})}
        path = ADDRESSES[name]
        for part, value in values.items():
            for kind in ("str", "slug", "int"):
                path = path.replace(f"<{kind}:{part}>", value)
        assert "<" not in path, f"say in this test what goes into {path}"
        return path


@pytest.fixture
def scene(world: World) -> Scene:
    log = f"one\ntwo {SECRET}\nthree\n"
    world.team.name = SECRET
    world.team.save()
    document = worlds.document(findings=[("thin-slack-after-capture", "warning")])
    document["launches"][0]["verdict"] = f"Ready. {SECRET}"
    row = worlds.upload(team=world.team, uploader=world.bob, log=log, name=f"{SECRET}.log", deployment_key=SECRET)
    stored = worlds.report(row, document)
    binned = worlds.upload(team=world.team, uploader=world.bob, name=f"{SECRET}.log")
    sharing_trash.to_trash(binned, by=world.bob)
    nobodys = worlds.upload(team=None, uploader=None, delete_token_hash=hash_secret("shown once"))
    worlds.report(nobodys)
    deployment = stored.upload.deployment
    assert deployment is not None
    members = Wish(what=What.LOG, who=Who.TEAM)
    link, token = sharing_links.make_link(row, members, by=world.alice)
    invited, invitation = services.invite(world.team, "new@example.org", Role.VIEWER, by=world.alice)
    key, _ = services.create_token(
        user=world.alice, team=world.team, name="ci", scopes=[Scope.READ], expires_at=timezone.now() + timedelta(days=1)
    )
    channel = Channel.objects.create(team=world.team, kind="webhook", address="https://hooks.example.org/x")
    view = SavedView.objects.create(team=world.team, owner=None, name="ours", query="state=failed")
    scenario = Prediction.objects.create(deployment=deployment, report=stored, change={}, kept_by_name=SECRET)
    member = world.team.memberships.get(user=world.vera)
    values = {
        "public_id": row.public_id, "slug": world.team.slug, "secret": "never-made", "token": token,
        "rule_id": "thin-slack-after-capture", "member": str(member.pk), "invited": str(invited.pk),
        "key": "kimi-k25-8gpu", "sha256": "0" * 64, "number": "0", "report_id": row.public_id,
        "scenario": str(scenario.pk),
    }  # fmt: skip
    special = {
        "invitation": {"secret": invitation.split("/")[2]},
        "team_token_revoke": {"token": str(key.pk)},
        "deployment": {"public_id": deployment.public_id},
        "deployment_change": {"public_id": deployment.public_id},
        "pin_baseline": {"public_id": deployment.public_id},
        "badge_sheet": {"public_id": deployment.public_id},
        "drop_view": {"public_id": view.public_id},
        "share_revoke": {"public_id": link.public_id},
        "team_channel_change": {"public_id": channel.public_id},
        "restore_upload": {"public_id": binned.public_id},
        "claim": {"public_id": nobodys.public_id},
        "prove_sender": {"public_id": nobodys.public_id},
    }
    return Scene(world, stored, values, special)


def is_let_in(answer: HttpResponse) -> bool:
    """True unless the answer refuses the person: a sign-in page, 401, 403 or 404."""
    to_sign_in = answer.status_code == 302 and "/account/login" in answer["Location"]
    return not to_sign_in and answer.status_code not in (401, 403, 404)


def is_refused(answer: HttpResponse, *, hidden: bool) -> bool:
    """True for a plain refusal; when hidden, one that does not confirm that the thing exists."""
    if answer.status_code == 302:
        return "/account/login" in answer["Location"]
    return answer.status_code in ((401, 404) if hidden else (401, 403, 404, 405))


def allowed(person: str, least: str | None) -> bool:
    return least is not None and PERSONS.index(person) <= PERSONS.index(least)


def text_of(answer: HttpResponse) -> str:
    return b"".join(answer).decode(errors="replace") if answer.streaming else answer.content.decode(errors="replace")


def test_somebody_has_said_who_may_use_every_address() -> None:
    assert set(PAGES) == set(RULES)
    assert {name.removeprefix("api-v1:") for name in ADDRESSES if name.startswith("api-v1:")} == {
        *(name for _, name in API),
        "openapi-json",
        "api-root",
    }


def told(scene: Scene, name: str, person: str, least: str | None, answer: HttpResponse) -> list[str]:
    """What is wrong with an answer to a person of whom `least` at least is asked; nothing when all is well."""
    outside = person in ("outsider", "nobody")
    wrong = []
    if allowed(person, least) and not is_let_in(answer):
        wrong.append(f"{person} may, and gets {answer.status_code} from {name}")
    if not allowed(person, least) and not is_refused(answer, hidden=outside):
        wrong.append(f"{person} may not, and gets {answer.status_code} from {name}")
    if outside and name != "invitation" and SECRET in text_of(answer):
        wrong.append(f"{person} reads the team's words at {name}")
    return wrong


def test_pages_are_read_by_those_who_may(scene: Scene) -> None:
    wrong = []
    for person in PERSONS:
        client = scene.client(person)
        for name in PAGES:
            if RULES[name].get is not None:
                wrong += told(scene, name, person, RULES[name].get, client.get(scene.path(name)))
    assert wrong == []


def test_changes_are_made_by_those_who_may(scene: Scene) -> None:
    said = {"launch": "1", "finding": "finding-thin-slack-after-capture", "says": "wrong"}
    forms = {
        "keep_scenario": {"launch": "1"},
        "say_finding": said,
        "claim": {"team": scene.world.team.slug, "delete_token": "shown once"},
    }
    wrong = []
    for person in PERSONS:
        for name in PAGES:
            if RULES[name].post is not None:
                with transaction.atomic():
                    answer = scene.client(person).post(scene.path(name), forms.get(name))
                    transaction.set_rollback(True)
                wrong += told(scene, name, person, RULES[name].post, answer)
    assert wrong == []


def test_pages_without_a_form_take_no_post(scene: Scene) -> None:
    taken = []
    for person in ("owner", "nobody"):
        client = scene.client(person)
        for name in PAGES:
            if RULES[name].post is None and 200 <= client.post(scene.path(name)).status_code < 300:
                taken.append((person, name))
    assert taken == []


def test_no_get_changes_anything(scene: Scene) -> None:
    """Link scanners and prefetchers follow every address they see."""
    client, answered = scene.client("owner"), []
    for name in PAGES:
        if RULES[name].get is None and RULES[name].post is not None:
            answer = client.get(scene.path(name))
            if answer.status_code not in (404, 405):
                answered.append((name, answer.status_code))
    assert answered == []


@pytest.mark.parametrize("change", ["bulk_delete", "findings_change"])
def test_outsiders_change_nothing_that_they_name_in_a_form(scene: Scene, change: str) -> None:
    finding = TrackedFinding.objects.get()
    form = {
        "upload": scene.stored.upload.public_id,
        "finding": finding.public_id,
        "state": "muted",
        "reason": "x",
        "until": str(timezone.localdate() + timedelta(days=2)),
    }
    scene.client("outsider").post(scene.path(change), form)
    assert scene.client("viewer").post(scene.path(change), form).status_code == 403
    finding.refresh_from_db()
    scene.stored.upload.refresh_from_db()
    assert finding.state == "open" and scene.stored.upload.deleted_at is None


@pytest.mark.parametrize("page", ["dashboard", "report_list", "findings"])
def test_the_name_of_another_team_opens_nothing(scene: Scene, page: str) -> None:
    answer = scene.client("outsider").get(scene.path(page), {"team": scene.world.team.slug})
    assert SECRET not in text_of(answer)


def test_comparing_asks_about_every_report(scene: Scene) -> None:
    own = worlds.upload(team=scene.world.other_team, uploader=scene.world.charlie)
    worlds.report(own)
    answer = scene.client("outsider").get("/compare/", {"r": [own.public_id, scene.stored.upload.public_id]})
    assert SECRET not in text_of(answer)


def test_the_api_answers_those_who_may(scene: Scene) -> None:
    from tests.api.conftest import key_of

    world = scene.world
    people = {"owner": world.alice, "editor": world.bob, "viewer": world.vera, "outsider": world.charlie}
    wrong = []
    for person in PERSONS:
        headers = {}
        if person in people:
            team = world.other_team if person == "outsider" else world.team
            headers["Authorization"] = f"Bearer {key_of(world, people[person], team=team)}"
        client = Client(headers=headers)
        for method, name in sorted(API):
            with transaction.atomic():
                answer = call(scene, client, method, name)
                transaction.set_rollback(True)
            wrong += told_by_api(person, method, name, answer)
    assert wrong == []


def call(scene: Scene, client: Client, method: str, name: str) -> HttpResponse:
    """One request to an operation, with a body that fits."""
    deployment, finding = scene.stored.upload.deployment, TrackedFinding.objects.get()
    link = sharing_links.links_in_force(scene.stored.upload)[0]
    assert deployment is not None
    report = scene.stored.upload.public_id
    values = {
        "report_id": scene.special["restore_upload"]["public_id"] if name == "restore_report" else report,
        "deployment_id": deployment.public_id, "finding_id": finding.public_id, "share_id": link.public_id,
        "token_id": scene.special["team_token_revoke"]["token"], "prediction_id": scene.values["scenario"],
    }  # fmt: skip
    path = ADDRESSES[f"api-v1:{name}"]
    for part, value in values.items():
        path = path.replace(f"<{part}>", value)
    bodies: dict[str, Any] = {
        "what_if": {"change": {}}, "change_deployment": {}, "put_baseline": {"report": report},
        "merge_deployment": {"into": deployment.public_id}, "change_finding": {"state": "acknowledged"},
        "say_finding": {"rule": "thin-slack-after-capture", "says": "wrong"},
        "make_share": {"days": 1}, "make_token": {"name": "x", "scopes": ["read"]},
    }  # fmt: skip
    if name in ("send_report", "analyse"):
        return client.post(path, b"a log\n", content_type="application/octet-stream")
    if method == "GET":
        return client.get(path, {"a": report, "b": report} if name == "compare" else None)
    return client.generic(method, path, json.dumps(bodies.get(name, {})), content_type="application/json")


# Refusals that are right although the person may: merging a deployment into itself, revoking another's token, reading
# what is no log.
MEANT = {("merge_deployment", 422), ("drop_token", 404), ("analyse", 422)}
ANYBODYS = ("limits", "read_rules", "send_report", "analyse")


def told_by_api(person: str, method: str, name: str, answer: HttpResponse) -> list[str]:
    """What is wrong with the API's answer to a person."""
    said = f"{person} gets {answer.status_code} for {method} {name}"
    wrong = []
    if person in ("outsider", "nobody") and SECRET in text_of(answer):
        wrong.append(f"{person} reads the team's words by {name}")
    names_an_object = "<" in ADDRESSES[f"api-v1:{name}"]
    if person == "nobody" and name not in ANYBODYS and answer.status_code not in (401, 404):
        wrong.append(said)
    if person == "outsider" and names_an_object and answer.status_code != 404:
        wrong.append(said)
    if person in INSIDE:
        is_meant = (name, answer.status_code) in MEANT
        if allowed(person, API[(method, name)].get):
            wrong += [] if answer.status_code < 300 or is_meant else [said]
        elif answer.status_code != 403 and not is_meant:
            wrong.append(said)
    return wrong


def test_deleting_by_a_program_takes_the_senders_token_or_an_editors_key(scene: Scene) -> None:
    from tests.api.conftest import key_of

    row, path = scene.stored.upload, f"/r/{scene.stored.upload.public_id}/"
    nobodys = worlds.upload(team=None, uploader=None, delete_token_hash=hash_secret("the senders own"))
    for person in PERSONS:
        assert scene.client(person).delete(path).status_code == 404, "a session is no key: no page can use it"
    assert Client().delete(f"/r/{nobodys.public_id}/", headers={"Upload-Token": "a guess"}).status_code == 404
    assert Client().delete(f"/r/{nobodys.public_id}/", headers={"Upload-Token": "the senders own"}).status_code == 204
    keys = {person: key_of(scene.world, getattr(scene.world, person)) for person in ("vera", "bob")}
    assert Client().delete(path, headers={"Authorization": f"Bearer {keys['vera']}"}).status_code == 404
    assert Client().delete(path, headers={"Authorization": f"Bearer {keys['bob']}"}).status_code == 204
    assert not type(row).objects.filter(pk=row.pk).exists()
