"""Badges: a picture of a deployment's state that says nothing else, and no oracle for those who guess addresses."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from ingest.models import StoredReport
from reports import badges, sharing_trash
from reports.badges import State, drawing
from reports.deployments import merge
from reports.models import Badge
from reports.retention import forget_ended
from reports.sharing_pages import export_lines
from teams.models import AuditEntry, Deployment
from tests.api.conftest import key_of
from tests.teams.conftest import signed_in
from tests.teams.world import World

SVG = "{http://www.w3.org/2000/svg}"


def deployment_of(stored: StoredReport) -> Deployment:
    assert stored.upload.deployment is not None
    return stored.upload.deployment


def address(world: World, deployment: Deployment) -> str:
    return badges.address_of(badges.make_badge(deployment, by=world.bob)[1])


def words(path: str) -> str:
    answer = Client().get(path)
    assert answer.status_code == 200
    return " ".join(each.text or "" for each in ElementTree.fromstring(answer.content).iter(f"{SVG}text"))


def stage(stored: StoredReport, stage: str) -> None:
    StoredReport.objects.filter(pk=stored.pk).update(stage=stage)


@pytest.mark.parametrize(
    ("outcome", "at", "word"),
    [
        ("ready", "serving", "ready"),
        ("failed", "kv_cache", "failed"),
        ("failed", "", "failed"),
        ("failed", "serving", "died while serving"),
        ("incomplete", "weights", "unknown"),
    ],
)
def test_a_badge_says_how_the_newest_start_ended(world: World, outcome: str, at: str, word: str) -> None:
    world.launch()
    stored = world.launch(outcome=outcome)
    stage(stored, at)
    assert words(address(world, deployment_of(stored))) == f"kvdiag {word}"


def test_a_badge_reveals_nothing_but_the_state(world: World) -> None:
    first, second = world.launch("one-of-ours"), world.launch("another", tokens=80_000)
    stage(first, "serving")
    stage(second, "serving")
    one, two = (Client().get(address(world, deployment_of(each))) for each in (first, second))
    assert one.content == two.content == drawing(State.READY).encode()
    assert dict(one.headers) == dict(two.headers)


def test_what_leads_nowhere_looks_like_a_deployment_of_unknown_state(world: World) -> None:
    unknown = address(world, deployment_of(world.launch("cut", outcome="incomplete")))
    deployment = deployment_of(world.launch("off"))
    renewed = address(world, deployment)
    ended = address(world, deployment)
    badges.end_badges(deployment, by=world.bob)
    emptied = world.launch("emptied")
    empty = address(world, deployment_of(emptied))
    sharing_trash.to_trash(emptied.upload, by=world.bob)
    paths = [unknown, renewed, ended, empty, "/badge/never-made.svg", f"/badge/{deployment.public_id}.svg"]
    answers = [Client().get(path) for path in paths]
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.content for answer in answers} == {drawing(State.UNKNOWN).encode()}
    assert len({tuple(sorted(answer.headers.items())) for answer in answers}) == 1


def test_a_report_past_its_time_is_no_state(world: World) -> None:
    stored = world.launch()
    path = address(world, deployment_of(stored))
    stored.upload.expires_at = timezone.now() - timedelta(seconds=1)
    stored.upload.save()
    assert words(path) == "kvdiag unknown"


def test_a_readme_may_show_it_and_no_search_engine_lists_it(world: World) -> None:
    answer = Client().get(address(world, deployment_of(world.launch())))
    assert answer["Content-Type"].startswith("image/svg+xml")
    assert answer["Cache-Control"] == "public, max-age=60"
    assert "noindex" in answer["X-Robots-Tag"]
    assert not answer.cookies and "Cookie" not in answer.get("Vary", "")
    assert "Cross-Origin-Resource-Policy" not in answer.headers
    assert Client().head(answer.request["PATH_INFO"]).status_code == 200
    assert Client().post(answer.request["PATH_INFO"]).status_code == 405


@pytest.mark.parametrize("state", State)
def test_the_picture_needs_no_style_and_no_script(state: State) -> None:
    """A README's image proxy and the site's own policy take them out."""
    picture = drawing(state)
    parsed = ElementTree.fromstring(picture)
    assert parsed.get("aria-label") == f"kvdiag: {state}"
    assert not re.search(r"<style|style=|<script|href", picture)
    ends = [float(each.get("x", 0)) + float(each.get("textLength", 0)) for each in parsed.iter(f"{SVG}text")]
    assert max(ends) < float(parsed.get("width", 0))


def test_it_is_off_until_an_editor_makes_it(world: World) -> None:
    deployment = deployment_of(world.launch())
    sheet = f"/deployments/{deployment.public_id}/badge/"
    assert "It is off" in signed_in(world.bob).get(sheet).content.decode()
    assert f'href="{sheet}"' in signed_in(world.bob).get(f"/deployments/{deployment.public_id}/").content.decode()
    assert sheet not in signed_in(world.vera).get(f"/deployments/{deployment.public_id}/").content.decode()
    assert signed_in(world.vera).post(sheet, {"deed": "make"}).status_code == 403
    assert not Badge.objects.exists()


def made_by(page: Any) -> str:
    found = re.search(r"!\[State of the deployment\]\(http://testserver(/badge/[\w-]+\.svg)\)", page.content.decode())
    assert found
    return found[1]


def test_the_sheet_shows_the_address_once_and_keeps_its_hash(world: World) -> None:
    stored = world.launch()
    stage(stored, "serving")
    bob, sheet = signed_in(world.bob), f"/deployments/{deployment_of(stored).public_id}/badge/"
    path = made_by(bob.post(sheet, {"deed": "make", "once": "one"}))
    token = path.removeprefix("/badge/").removesuffix(".svg")
    assert len(token) >= 22  # 128 bits
    assert words(path) == "kvdiag ready"
    assert token not in bob.get(sheet).content.decode()
    assert token not in str(Badge.objects.values().get())
    assert token not in str(list(AuditEntry.objects.values()))


def test_an_answer_that_is_loaded_again_makes_no_second_badge(world: World) -> None:
    bob, sheet = signed_in(world.bob), f"/deployments/{deployment_of(world.launch()).public_id}/badge/"
    form = {"deed": "make", "once": "one"}
    assert made_by(bob.post(sheet, form)) == made_by(bob.post(sheet, form))
    bob.post(sheet, {"deed": "end"})
    again = bob.post(sheet, form)
    assert again.status_code == 400 and "has ended" in again.content.decode()
    assert not Badge.objects.filter(ended_at=None).exists()


def test_a_new_address_ends_the_one_before_and_switching_off_ends_all(world: World) -> None:
    stored = world.launch()
    stage(stored, "serving")
    deployment = deployment_of(stored)
    bob, sheet = signed_in(world.bob), f"/deployments/{deployment.public_id}/badge/"
    first = made_by(bob.post(sheet, {"deed": "make", "once": "one"}))
    second = made_by(bob.post(sheet, {"deed": "make", "once": "two"}))
    assert (words(first), words(second)) == ("kvdiag unknown", "kvdiag ready")
    assert bob.post(sheet, {"deed": "end"}).status_code == 302
    assert words(second) == "kvdiag unknown"
    actions = list(
        AuditEntry.objects.filter(action__startswith="badge.").order_by("pk").values_list("action", flat=True)
    )
    assert actions == ["badge.make", "badge.make", "badge.end"]


def test_a_merged_deployments_badge_shows_where_its_launches_went(world: World) -> None:
    source, target = deployment_of(world.launch("old", outcome="failed")), deployment_of(world.launch("new"))
    StoredReport.objects.update(stage="serving")
    path = address(world, source)
    merge(source, target, by=world.bob)
    assert words(path) == "kvdiag ready"
    sheet = signed_in(world.bob).get(f"/deployments/{source.public_id}/badge/")
    assert sheet["Location"] == f"/deployments/{target.public_id}/badge/"
    badges.end_badges(target, by=world.bob)
    assert words(path) == "kvdiag unknown"
    with pytest.raises(badges.Refused, match="part of another now"):  # also with a copy from before the merge
        badges.make_badge(source, by=world.bob)
    keyed = Client(headers={"Authorization": f"Bearer {key_of(world, world.bob)}"})
    assert keyed.post(f"/api/v1/deployments/{source.public_id}/badge").status_code == 422
    assert not Badge.objects.filter(ended_at=None).exists()


def test_the_api_makes_and_ends_it(world: World) -> None:
    stored = world.launch(outcome="failed")
    stage(stored, "serving")
    deployment = deployment_of(stored)
    client = Client(headers={"Authorization": f"Bearer {key_of(world, world.bob)}"})
    path = f"/api/v1/deployments/{deployment.public_id}/badge"
    assert client.get(path).json() == {
        "is_on": False, "hint": None, "made_at": None, "made_by": None, "url": None, "markdown": None,
    }  # fmt: skip
    made = client.post(path)
    assert made.status_code == 201
    url = made.json()["url"]
    assert made.json()["markdown"] == f"![State of the deployment]({url})"
    assert words(url.removeprefix("http://testserver")) == "kvdiag died while serving"
    shown = client.get(path).json()
    assert shown["is_on"] and shown["url"] is None and shown["made_by"] == "Bob Example"
    assert client.delete(path).status_code == 204
    assert client.get(path).json()["is_on"] is False


def test_the_export_names_badges_and_no_secret_and_old_ones_are_forgotten(world: World) -> None:
    deployment = deployment_of(world.launch())
    badge, token = badges.make_badge(deployment, by=world.bob)
    lines = "".join(export_lines(world.team, whole=True))
    assert '"type": "badge"' in lines and token not in lines and badge.token_hash not in lines
    badges.end_badges(deployment, by=world.bob)
    assert forget_ended()["badges"] == 0
    Badge.objects.update(ended_at=timezone.now() - timedelta(days=91))
    assert forget_ended()["badges"] == 1
