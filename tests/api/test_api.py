"""The API: what a token may see and do, and the one form of every error."""

from __future__ import annotations

import base64
import dataclasses
import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from ingest.models import StoredReport
from kvdiag.diagnosis.rules import all_rules
from reports import sharing_trash
from reports.deployments import pin
from reports.models import Channel, Prediction, SavedView, ShareLink
from teams.models import ApiToken, Membership, Role, Scope
from teams.services import invite
from teams.tokens import hash_secret
from tests.api.conftest import Keyed, key_of
from tests.teams import world as worlds
from tests.teams.world import World

V1 = "/api/v1"
JSON = "application/json"


@pytest.fixture
def stored(world: World) -> StoredReport:
    return world.launch(log="one\ntwo\nthree\n", findings=[("thin-slack-after-capture", "warning")])


def code(answer: Any) -> str:
    body = answer.json()
    assert set(body["error"]) == {"code", "message", "id"}
    return str(body["error"]["code"])


def test_a_request_without_a_token_is_answered_401(world: World) -> None:
    answer = Client().get(f"{V1}/reports")
    assert (answer.status_code, code(answer)) == (401, "token_missing")
    assert answer["WWW-Authenticate"] == "Bearer"


def test_a_browser_session_opens_nothing_here(world: World) -> None:
    client = Client()
    client.force_login(world.alice, backend="django.contrib.auth.backends.ModelBackend")
    assert client.get(f"{V1}/reports").status_code == 401


@pytest.mark.parametrize("how", ["unknown", "revoked", "ended", "left the team", "switched off"])
def test_a_token_that_opens_nothing_is_refused_everywhere(world: World, how: str) -> None:
    ends = timezone.now() - timedelta(seconds=1) if how == "ended" else None
    secret = key_of(world, world.bob, expires_at=ends) if how != "unknown" else "kvd_never-made"
    if how == "revoked":
        ApiToken.objects.update(revoked_at=timezone.now())
    if how == "left the team":
        Membership.objects.filter(user=world.bob).delete()
    if how == "switched off":
        world.bob.is_active = False
        world.bob.save()
    client = Client(headers={"Authorization": f"Bearer {secret}"})
    for path in (f"{V1}/reports", f"{V1}/limits", "/r/anything.json"):
        answer = client.get(path)
        assert (answer.status_code, code(answer)) == (401, "token_invalid"), path


def test_a_token_in_the_address_is_no_token(world: World) -> None:
    assert Client().get(f"{V1}/reports?token={key_of(world, world.bob)}").status_code == 401


def test_a_token_opens_no_settings_page(world: World, keyed: Keyed) -> None:
    assert keyed(world.alice).get("/account/").status_code == 302
    assert keyed(world.alice).get("/teams/inference-eu/tokens/").status_code == 302


def test_reports_are_listed_in_pages_without_a_gap(world: World, keyed: Keyed) -> None:
    sent = [world.launch(tokens=1000 + number).upload.public_id for number in range(7)]
    client, seen, cursor = keyed(world.vera), [], ""
    while True:
        body = client.get(f"{V1}/reports", {"limit": 3, "cursor": cursor}).json()
        seen += [each["id"] for each in body["items"]]
        cursor = body["next"]
        if not cursor:
            break
    assert seen == sent[::-1]


FORGED = (
    ["v", "abc", 1],
    ["t", "0001-01-01T00:00:00+23:59", 1],
    ["v", 1e400, 1],
    ["v", True, 1],
    ["t", "2025-01-01", 1],
)


def test_a_cursor_that_is_none_of_ours_is_refused(world: World, keyed: Keyed) -> None:
    forged = [base64.urlsafe_b64encode(json.dumps(each).encode()).decode() for each in FORGED]
    for cursor in ("bm90IG91cnM", *forged):
        for path in ("reports", "uploads", "findings"):
            answer = keyed(world.vera).get(f"{V1}/{path}", {"cursor": cursor})
            assert (answer.status_code, code(answer)) == (400, "bad_cursor"), (path, cursor)


def test_a_report_gives_its_figures_document_findings_and_lines(
    world: World, keyed: Keyed, stored: StoredReport
) -> None:
    client, base = keyed(world.vera), f"{V1}/reports/{stored.upload.public_id}"
    summary = client.get(base).json()
    assert (summary["state"], summary["outcome"], summary["kv_tokens"]) == ("ready", "ready", stored.kv_tokens)
    assert client.get(f"{base}/document").json() == stored.document
    assert [each["rule"] for each in client.get(f"{base}/findings").json()] == ["thin-slack-after-capture"]


def test_outsiders_get_404_for_every_object_of_a_team(world: World, keyed: Keyed, stored: StoredReport) -> None:
    deployment = stored.upload.deployment
    assert deployment is not None
    charlie = keyed(world.charlie, team=world.other_team)
    for path in (
        f"/reports/{stored.upload.public_id}",
        f"/reports/{stored.upload.public_id}/document",
        f"/reports/{stored.upload.public_id}/log",
        f"/reports/{stored.upload.public_id}/shares",
        f"/deployments/{deployment.public_id}",
        f"/deployments/{deployment.public_id}/launches",
        f"/compare?a={stored.upload.public_id}&b={stored.upload.public_id}",
    ):
        answer = charlie.get(V1 + path)
        assert (answer.status_code, code(answer)) == (404, "not_found"), path
    assert charlie.get(f"{V1}/reports").json()["items"] == []


def test_a_token_works_in_its_own_team_only(world: World, keyed: Keyed, stored: StoredReport) -> None:
    Membership.objects.create(team=world.other_team, user=world.bob, role="owner")
    client = keyed(world.bob, team=world.other_team)
    assert client.get(f"{V1}/reports/{stored.upload.public_id}").status_code == 404


def test_an_upload_key_sends_and_follows_its_own_and_reads_nothing_else(
    world: World, keyed: Keyed, stored: StoredReport
) -> None:
    client = keyed(world.alice, [Scope.UPLOAD])
    assert client.get(f"{V1}/reports").status_code == 403
    assert client.get(f"{V1}/reports/{stored.upload.public_id}").status_code == 404
    made = client.post(f"{V1}/reports", b"some log\n", content_type="application/octet-stream")
    assert made.status_code == 201
    assert client.get(f"{V1}/reports/{made.json()['id']}").status_code == 200


def test_a_sent_log_lands_in_its_team_and_deployment_with_its_tags(world: World, keyed: Keyed) -> None:
    from ingest.models import Upload

    headers = {"X-Kvdiag-Deployment": "prod", "X-Kvdiag-Tags": "image=25.01,driver=580", "Idempotency-Key": "job-7"}
    client = keyed(world.bob, [Scope.UPLOAD])
    made = client.post(f"{V1}/reports", b"some log\n", content_type="application/octet-stream", headers=headers)
    again = client.post(f"{V1}/reports", b"some log\n", content_type="application/octet-stream", headers=headers)
    assert (made.status_code, again.status_code) == (201, 200)
    assert made.json()["id"] == again.json()["id"]
    upload = Upload.objects.get()
    assert (upload.team, upload.uploader, upload.deployment_key) == (world.team, world.bob, "prod")
    assert upload.tags == ["image=25.01", "driver=580"]


def test_viewers_keys_change_nothing(world: World, keyed: Keyed, stored: StoredReport) -> None:
    client, base = keyed(world.vera), f"{V1}/reports/{stored.upload.public_id}"
    assert client.delete(base).status_code == 403
    assert client.post(f"{base}/shares", {}, content_type=JSON).status_code == 403
    assert client.post(f"{V1}/reports", b"x", content_type="application/octet-stream").status_code == 403
    finding = client.get(f"{V1}/findings").json()["items"][0]["id"]
    assert client.patch(f"{V1}/findings/{finding}", {"state": "acknowledged"}, content_type=JSON).status_code == 403


def test_the_scope_read_changes_nothing_even_for_an_owner(world: World, keyed: Keyed, stored: StoredReport) -> None:
    client = keyed(world.alice, [Scope.READ])
    assert client.delete(f"{V1}/reports/{stored.upload.public_id}").status_code == 403
    assert client.get(f"{V1}/team/audit").status_code == 403


def test_delete_and_restore(world: World, keyed: Keyed, stored: StoredReport) -> None:
    client, base = keyed(world.bob), f"{V1}/reports/{stored.upload.public_id}"
    assert client.delete(base).status_code == 204
    assert client.get(base).status_code == 404
    assert client.post(f"{base}/restore").status_code == 200
    assert client.get(base).status_code == 200


def test_a_share_is_made_once_shown_and_revoked(world: World, keyed: Keyed, stored: StoredReport) -> None:
    client, base = keyed(world.bob), f"{V1}/reports/{stored.upload.public_id}/shares"
    made = client.post(base, {"days": 1, "max_views": 3}, content_type=JSON)
    assert made.status_code == 201
    path = made.json()["url"].removeprefix("http://testserver")
    assert Client().get(path).status_code == 200
    assert client.get(base).json()[0]["url"] is None
    assert client.delete(f"{V1}/shares/{made.json()['id']}").status_code == 204
    assert Client().get(path).status_code == 404
    assert ShareLink.objects.get().revoked_at is not None


def test_an_endless_link_for_anyone_is_refused(world: World, keyed: Keyed, stored: StoredReport) -> None:
    answer = keyed(world.bob).post(f"{V1}/reports/{stored.upload.public_id}/shares", {"days": None}, content_type=JSON)
    assert (answer.status_code, code(answer)) == (422, "invalid")


def test_a_token_makes_no_mightier_token(world: World, keyed: Keyed) -> None:
    client = keyed(world.bob, [Scope.READ, Scope.WRITE], expires_at=timezone.now() + timedelta(days=1))
    assert client.post(f"{V1}/tokens", {"name": "x", "scopes": ["upload"]}, content_type=JSON).status_code == 403
    made = client.post(f"{V1}/tokens", {"name": "x", "scopes": ["read"], "days": None}, content_type=JSON)
    assert made.status_code == 201 and made.json()["secret"].startswith("kvd_")
    assert made.json()["expires_at"] is not None, "no longer than the token that made it"
    assert all(each["secret"] is None for each in client.get(f"{V1}/tokens").json())


def test_a_kept_scenario_is_compared_with_the_launch_that_tries_it(
    world: World, keyed: Keyed, stored: StoredReport
) -> None:
    body = {"change": {"mem_fraction_static": 0.9}, "keep": True}
    answer = keyed(world.bob).post(f"{V1}/reports/{stored.upload.public_id}/what-if", body, content_type=JSON)
    assert answer.status_code == 200
    prediction = Prediction.objects.get()
    assert prediction.outcome is None and prediction.tokens is not None
    world.launch(fraction=0.9, tokens=prediction.tokens)
    prediction.refresh_from_db()
    assert prediction.error_percent == 0
    client, deployment = keyed(world.bob), stored.upload.deployment
    assert deployment is not None
    (told,) = client.get(f"{V1}/deployments/{deployment.public_id}/predictions").json()
    assert (told["change"], told["kept_by"]) == ({"mem_fraction_static": 0.9}, "Bob Example")
    assert (told["tokens"], told["printed_tokens"], told["error_percent"]) == (prediction.tokens,) * 2 + (0,)
    assert client.delete(f"{V1}/predictions/{told['id']}").status_code == 204
    assert not Prediction.objects.exists()


@pytest.mark.parametrize("change", [{}, {"mem_fraction_static": 0.88}, {"mem_fraction_static": 0.5}])
def test_a_scenario_that_nothing_could_be_compared_with_is_not_kept(
    world: World, keyed: Keyed, stored: StoredReport, change: dict[str, float]
) -> None:
    """No change, the observed value again, a fraction at which the server does not start."""
    body = {"change": change, "keep": True}
    answer = keyed(world.bob).post(f"{V1}/reports/{stored.upload.public_id}/what-if", body, content_type=JSON)
    assert (answer.status_code, code(answer)) == (422, "invalid")
    assert not Prediction.objects.exists()


def test_a_scenario_that_cannot_be_meant_is_refused(world: World, keyed: Keyed, stored: StoredReport) -> None:
    body = {"change": {"mem_fraction_static": 7}}
    answer = keyed(world.bob).post(f"{V1}/reports/{stored.upload.public_id}/what-if", body, content_type=JSON)
    assert (answer.status_code, code(answer)) == (400, "invalid")


def test_reports_of_nobody_are_read_without_a_token_and_never_listed(world: World, keyed: Keyed) -> None:
    row = worlds.upload(team=None, uploader=None)
    worlds.report(row)
    assert Client().get(f"{V1}/reports/{row.public_id}/document").status_code == 200
    assert keyed(world.alice).get(f"{V1}/reports").json()["items"] == []


def test_the_sender_of_nobodys_report_shares_it_with_its_delete_token(world: World) -> None:
    row = worlds.upload(team=None, uploader=None, delete_token_hash=hash_secret("shown once"))
    worlds.report(row)
    shares = f"{V1}/reports/{row.public_id}/shares"
    assert Client().post(shares, {"days": 1}, content_type=JSON).status_code == 403
    assert Client(headers={"Upload-Token": "a guess"}).get(shares).status_code == 403
    sender = Client(headers={"Upload-Token": "shown once"})
    made = sender.post(shares, {"days": 1}, content_type=JSON)
    assert made.status_code == 201 and "/s/" in made.json()["url"]
    (listed,) = sender.get(shares).json()
    assert Client().delete(f"{V1}/shares/{listed['id']}").status_code == 403
    assert sender.delete(f"{V1}/shares/{listed['id']}").status_code == 204
    assert sender.get(shares).json() == []


def test_what_the_settings_pages_list_is_read_by_programs(world: World, keyed: Keyed, stored: StoredReport) -> None:
    invite(world.team, "new@example.org", Role.VIEWER, by=world.alice)
    for owner, name in ((world.bob, "mine"), (world.alice, "hers"), (None, "ours")):
        SavedView.objects.create(team=world.team, owner=owner, name=name, query="state=failed")
    (invited,) = keyed(world.alice).get(f"{V1}/team/invitations").json()
    assert (invited["email"], invited["role"]) == ("new@example.org", "viewer")
    assert keyed(world.bob).get(f"{V1}/team/invitations").status_code == 403
    views = keyed(world.bob).get(f"{V1}/team/views").json()
    assert [(each["name"], each["is_own"]) for each in views] == [("mine", True), ("ours", False)]
    deployment = stored.upload.deployment
    assert deployment is not None
    path = f"{V1}/deployments/{deployment.public_id}"
    assert keyed(world.bob).get(path).json()["baseline"] is None
    pin(deployment, stored, by=world.bob)
    assert keyed(world.bob).get(path).json()["baseline"] == stored.upload.public_id
    sharing_trash.to_trash(stored.upload, by=world.bob)
    assert keyed(world.bob).get(path).json()["baseline"] is None


def test_every_rule_is_there_with_its_documentation(db: None) -> None:
    rules = {each["id"]: each for each in Client().get(f"{V1}/rules").json()}
    assert set(rules) == {rule.id for rule in all_rules()}
    assert rules["thin-slack-after-capture"]["sections"]["What to do"]


def test_limits_are_those_of_the_configuration(world: World, settings: Any) -> None:
    body = Client().get(f"{V1}/limits").json()
    assert body["max_upload_bytes"] == settings.KVDIAG_LIMITS.max_upload_bytes
    assert body["trash_days"] == settings.KVDIAG_LIMITS.trash_days


def test_the_export_has_everything_and_no_secret(world: World, keyed: Keyed, stored: StoredReport) -> None:
    client = keyed(world.alice)
    client.post(f"{V1}/reports/{stored.upload.public_id}/shares", {"days": 1}, content_type=JSON)
    text = b"".join(client.get(f"{V1}/team/export")).decode()  # type: ignore[arg-type]
    kinds = {json.loads(line)["type"] for line in text.splitlines()}
    assert {"team", "member", "deployment", "upload", "report", "finding", "share", "audit"} <= kinds
    for secret_hash in (*ApiToken.objects.values_list("token_hash", flat=True), ShareLink.objects.get().token_hash):
        assert secret_hash not in text


def test_an_export_tells_an_editor_no_more_than_the_pages_do(world: World, keyed: Keyed, stored: StoredReport) -> None:
    """The address of a chat's webhook is a key to the chat; it and the trail are for those who manage the team."""
    hook = "https://hooks.example.org/services/T0/B0/secret"
    Channel.objects.create(team=world.team, kind="slack", address=hook)
    whole, parts = (
        b"".join(keyed(person).get(f"{V1}/team/export")).decode()  # type: ignore[arg-type]
        for person in (world.alice, world.bob)
    )
    assert hook in whole and '"type": "audit"' in whole
    assert hook not in parts and '"type": "audit"' not in parts and '"type": "channel"' in parts


def test_every_list_the_pages_show_is_reachable(world: World, keyed: Keyed, stored: StoredReport) -> None:
    deployment = stored.upload.deployment
    assert deployment is not None
    client = keyed(world.alice)
    for path in (
        "/team", "/team/members", "/team/audit", "/team/channels", "/tokens", "/shares", "/uploads",
        "/uploads?trash=true", "/deployments", "/findings", "/alerts",
        f"/deployments/{deployment.public_id}", f"/deployments/{deployment.public_id}/launches",
        f"/compare?a={stored.upload.public_id}&b={stored.upload.public_id}",
    ):  # fmt: skip
        assert client.get(V1 + path).status_code == 200, path


def test_the_documentation_page_names_the_readers_own_token(world: World) -> None:
    secret = key_of(world, world.bob)
    client = Client()
    client.force_login(world.bob, backend="django.contrib.auth.backends.ModelBackend")
    text = client.get("/api/").content.decode()
    assert f"kvd_…{secret[-4:]}" in text and secret not in text
    assert "/api/v1/reports/{report_id}/what-if" in text
    assert Client().get("/limits/").status_code == 200


def test_a_full_team_is_told_so_and_takes_more_once_there_is_room(world: World, keyed: Keyed, settings: Any) -> None:
    settings.KVDIAG_LIMITS = dataclasses.replace(settings.KVDIAG_LIMITS, team_reports=2)
    client = keyed(world.bob, [Scope.UPLOAD])

    def send() -> Any:
        return client.post(f"{V1}/reports", b"some log\n", content_type="application/octet-stream")

    assert [send().status_code for _ in range(2)] == [201, 201]
    refused = send()
    assert (refused.status_code, code(refused)) == (409, "team_full")
    settings.KVDIAG_LIMITS = dataclasses.replace(settings.KVDIAG_LIMITS, team_reports=3)
    assert send().status_code == 201


def test_prometheus_reads_figures_and_never_a_zero_for_what_is_not_known(world: World, keyed: Keyed) -> None:
    world.launch('prod "eu"', tokens=100_000, free=7.43)
    world.launch("broken", tokens=None, free=None, outcome="failed", findings=[("a-rule", "critical")])
    world.launch("cut", free=2.09, ready_after=None, outcome="incomplete", stage="kv_cache")
    answer = keyed(world.vera, [Scope.READ]).get(f"{V1}/metrics")
    assert answer["Content-Type"].startswith("text/plain; version=0.0.4")
    lines = answer.content.decode().splitlines()
    assert 'kvdiag_kv_tokens{deployment="prod \\"eu\\""} 100000' in lines
    assert 'kvdiag_ready{deployment="broken"} 0' in lines and 'kvdiag_open_findings{deployment="broken"} 1' in lines
    assert not any(
        line.startswith(('kvdiag_free_gib{deployment="cut"', 'kvdiag_ready{deployment="cut"')) for line in lines
    )
    assert not any(
        line.startswith(('kvdiag_kv_tokens{deployment="broken"', 'kvdiag_free_gib{deployment="broken"'))
        for line in lines
    )
