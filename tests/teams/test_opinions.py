"""What readers say of findings: who may, one answer each, masked reasons, and what the owner reads."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from ingest.models import StoredReport
from ingest.services import delete_upload
from reports import sharing_redaction, sharing_trash
from reports.models import Opinion
from reports.sharing_pages import export_lines
from teams.models import Scope
from teams.tokens import hash_secret
from tests.api.conftest import key_of
from tests.teams import world as worlds
from tests.teams.conftest import signed_in
from tests.teams.world import World

RULE = "thin-slack-after-capture"
ANCHOR = f"finding-{RULE}"


@pytest.fixture
def stored(world: World) -> StoredReport:
    return world.launch(findings=[(RULE, "warning"), (RULE, "warning"), ("weights-exceed-budget", "critical")])


def say(client: Client, stored: StoredReport, says: str, **more: str) -> Any:
    form = {"launch": "1", "finding": ANCHOR, "says": says, **more}
    return client.post(f"/r/{stored.upload.public_id}/opinion/", form)


def answers() -> list[tuple[str, str, str, str]]:
    return list(Opinion.objects.order_by("pk").values_list("reader_key", "finding", "says", "reason"))


def foot(client: Client, stored: StoredReport, anchor: str = ANCHOR) -> str:
    """The foot of one finding on the page."""
    page = client.get(f"/r/{stored.upload.public_id}/").content.decode()
    return page.split(f'id="{anchor}"')[1].split('class="finding__foot"')[1].split("</details>\n")[0]


def test_a_member_says_it_by_a_form_and_sees_her_answer(world: World, stored: StoredReport) -> None:
    vera = signed_in(world.vera)
    assert foot(vera, stored).count('aria-pressed="false"') == 2
    answer = say(vera, stored, "helpful")
    assert answer.status_code == 302
    assert answer["Location"] == f"/r/{stored.upload.public_id}/?launch=1#{ANCHOR}"
    assert answers() == [(f"user {world.vera.pk}", ANCHOR, "helpful", "")]
    opinion = Opinion.objects.get()
    assert (opinion.rule, opinion.engine, opinion.launch_number) == (RULE, "0.1.0", 1)
    shown = foot(vera, stored)
    assert 'value="" aria-pressed="true">Helpful' in shown and 'value="wrong" aria-pressed="false">Wrong' in shown
    assert 'aria-pressed="true"' not in foot(signed_in(world.bob), stored), "each sees her own"
    assert 'aria-pressed="true"' not in foot(vera, stored, f"{ANCHOR}-2"), "one answer a finding"


def test_an_answer_is_changed_and_taken_back(world: World, stored: StoredReport) -> None:
    bob = signed_in(world.bob)
    say(bob, stored, "wrong", reason="the fraction was capped")
    assert answers() == [(f"user {world.bob.pk}", ANCHOR, "wrong", "the fraction was capped")]
    assert "the fraction was capped" in foot(bob, stored)
    say(bob, stored, "helpful")
    assert answers() == [(f"user {world.bob.pk}", ANCHOR, "helpful", "")]
    say(bob, stored, "")
    assert answers() == []


def test_each_person_and_each_finding_has_an_answer_of_its_own(world: World, stored: StoredReport) -> None:
    for client in (signed_in(world.bob), signed_in(world.vera)):
        for anchor in (ANCHOR, f"{ANCHOR}-2", "finding-weights-exceed-budget"):
            say(client, stored, "helpful", finding=anchor)
    assert len(answers()) == 6
    assert set(Opinion.objects.values_list("rule", flat=True)) == {RULE, "weights-exceed-budget"}


def test_a_reason_is_masked_as_a_log_is(world: World, stored: StoredReport) -> None:
    world.team.settings = {"redaction": [{"name": "project", "expression": r"zeus-\d+", "ignore_case": False}]}
    world.team.save()
    secret = "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"
    say(signed_in(world.bob), stored, "wrong", reason=f"see\nzeus-12,\x1b[31m key {secret}")
    (kept,) = answers()
    assert secret not in kept[3] and "zeus-12" not in kept[3] and "\x1b" not in kept[3] and "\n" not in kept[3]
    assert kept[3].startswith("see ")


def test_a_reason_has_five_hundred_characters(world: World, stored: StoredReport) -> None:
    bob = signed_in(world.bob)
    say(bob, stored, "wrong", reason="x" * 500)
    assert len(answers()[0][3]) == 500
    said = bob.post(
        f"/r/{stored.upload.public_id}/opinion/",
        {"launch": "1", "finding": ANCHOR, "says": "wrong", "reason": "y" * 501},
        follow=True,
    )
    assert "at most 500 characters" in said.content.decode()
    assert answers()[0][3] == "x" * 500


@pytest.mark.parametrize(
    "form",
    [{"finding": "finding-no-such"}, {"launch": "2"}, {"launch": "²"}, {"launch": ""}, {"says": "perhaps"}],
)
def test_what_is_not_there_is_not_answered(world: World, stored: StoredReport, form: dict[str, str]) -> None:
    says = form.pop("says", "wrong")
    assert say(signed_in(world.bob), stored, says, **form).status_code in (302, 404)
    assert answers() == []


def test_the_sender_of_nobodys_report_may_say_it_and_its_readers_may_not(world: World) -> None:
    row = worlds.upload(team=None, uploader=None, delete_token_hash=hash_secret("shown once"))
    stored = worlds.report(row, worlds.document(findings=[(RULE, "warning")]))
    stranger = Client()
    assert say(stranger, stored, "wrong").status_code == 404
    assert say(signed_in(world.bob), stored, "wrong").status_code == 404
    assert 'class="say"' not in foot(stranger, stored)
    sender = Client()
    sender.post(f"/r/{row.public_id}/sender/", {"delete_token": "shown once"})
    assert 'class="say"' in foot(sender, stored)
    assert say(sender, stored, "wrong").status_code == 302
    assert answers() == [("sender", ANCHOR, "wrong", "")]


def test_a_report_of_ones_own_is_judged_by_its_owner_alone(world: World) -> None:
    row = worlds.upload(team=None, uploader=world.bob)
    stored = worlds.report(row, worlds.document(findings=[(RULE, "warning")]))
    assert say(signed_in(world.alice), stored, "wrong").status_code == 404
    assert say(signed_in(world.bob), stored, "wrong").status_code == 302


def test_the_owner_reads_what_was_said_by_rule_and_engine(world: World, stored: StoredReport) -> None:
    say(signed_in(world.bob), stored, "wrong", reason="the card was shared")
    say(signed_in(world.vera), stored, "helpful")
    say(signed_in(world.vera), stored, "helpful", finding="finding-weights-exceed-budget")
    newer = StoredReport.objects.create(
        **{
            each.attname: getattr(stored, each.attname)
            for each in StoredReport._meta.concrete_fields
            if each.attname not in ("id", "engine")
        },
        engine="0.2.0",
    )
    say(signed_in(world.bob), newer, "helpful")
    path = f"/teams/{world.team.slug}/opinions/"
    page = signed_in(world.alice).get(path).content.decode()
    assert "1 helpful, <b>1 wrong</b>" in page and "engine 0.2.0" in page and "the card was shared" in page
    assert world.bob.email not in page and "Bob Example" not in page
    assert signed_in(world.bob).get(path).status_code == 403

    def asked(user: Any) -> Any:
        headers = {"Authorization": f"Bearer {key_of(world, user)}"}
        return Client(headers=headers).get("/api/v1/team/opinions")

    told = asked(world.alice).json()
    assert [(row["rule"], row["engine"], row["helpful"], row["wrong"]) for row in told] == [
        (RULE, "0.1.0", 1, 1),
        (RULE, "0.2.0", 1, 0),
        ("weights-exceed-budget", "0.1.0", 1, 0),
    ]
    (reason,) = told[0]["reasons"]
    assert (reason["reason"], reason["says"], reason["report"]) == (
        "the card was shared", "wrong", stored.upload.public_id
    )  # fmt: skip
    assert asked(world.bob).status_code == 403
    sharing_trash.to_trash(stored.upload, by=world.bob)
    assert asked(world.alice).json() == [], "what is in the trash does not count"


def test_the_api_says_it_too(world: World, stored: StoredReport) -> None:
    path = f"/api/v1/reports/{stored.upload.public_id}/opinions"

    def put(user: Any, body: dict[str, Any], scopes: list[Scope] | None = None) -> Any:
        headers = {"Authorization": f"Bearer {key_of(world, user, scopes)}"}
        return Client(headers=headers).put(path, body, content_type="application/json")

    made = put(world.vera, {"rule": RULE, "number": 2, "says": "wrong", "reason": "no"})
    assert made.status_code == 200
    (own,) = made.json()
    assert (own["finding"], own["rule"], own["says"], own["reason"], own["launch"]) == (
        f"{ANCHOR}-2", RULE, "wrong", "no", 1,
    )  # fmt: skip
    assert put(world.vera, {"rule": RULE, "says": "wrong"}, [Scope.READ]).status_code == 403
    assert put(world.vera, {"rule": "no-such", "says": "wrong"}).status_code == 422
    assert put(world.vera, {"rule": RULE, "number": 2, "says": None}).json() == []
    assert answers() == []


def test_a_sender_says_it_by_her_delete_token(world: World) -> None:
    row = worlds.upload(team=None, uploader=None, delete_token_hash=hash_secret("shown once"))
    worlds.report(row, worlds.document(findings=[(RULE, "warning")]))
    path, body = f"/api/v1/reports/{row.public_id}/opinions", {"rule": RULE, "says": "helpful"}
    assert Client().put(path, body, content_type="application/json").status_code == 403
    headers = {"Upload-Token": "shown once"}
    assert Client().put(path, body, content_type="application/json", headers=headers).status_code == 200
    assert Client().get(path, headers=headers).json()[0]["says"] == "helpful"


def test_the_export_has_it_late_redaction_hides_it_and_deleting_the_upload_deletes_it(
    world: World, stored: StoredReport
) -> None:
    say(signed_in(world.bob), stored, "wrong", reason="it is about project-zeus")
    line = next(each for each in export_lines(world.team, whole=False) if '"type": "opinion"' in each)
    assert "project-zeus" in line and RULE in line and '"engine": "0.1.0"' in line
    sharing_redaction.hide(stored.upload, "project-zeus", by=world.bob)
    assert "project-zeus" not in answers()[0][3]
    delete_upload(stored.upload)
    assert answers() == []


def test_shared_and_offline_pages_have_no_buttons(world: World, stored: StoredReport) -> None:
    from reports import sharing_links
    from tests.teams.test_sharing import in_a_week

    wish = sharing_links.Wish(what=sharing_links.What.LOG, expires_at=in_a_week())
    _, token = sharing_links.make_link(stored.upload, wish, by=world.bob)
    assert 'class="say"' not in signed_in(world.bob).get(f"/s/{token}/").content.decode()
    assert 'class="say"' not in signed_in(world.bob).get(f"/r/{stored.upload.public_id}.html").content.decode()
