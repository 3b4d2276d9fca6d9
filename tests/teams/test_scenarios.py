"""Scenarios that are kept: by a form, until a launch shows how true they were."""

from __future__ import annotations

from html import unescape

import pytest
from django.test import Client

from ingest.models import StoredReport
from reports.deployments import merge
from reports.models import Prediction
from tests.teams.conftest import signed_in
from tests.teams.world import World

NINETY = "?launch=1&wf.mem_fraction_static=0.9"


@pytest.fixture
def stored(world: World) -> StoredReport:
    return world.launch(fraction=0.88, tokens=159_277)


def keep(client: Client, stored: StoredReport, **form: str) -> str:
    """What the report's page says after the form was sent."""
    path = f"/r/{stored.upload.public_id}/"
    answer = client.post(f"{path}scenarios/", {"launch": "1", **form}, follow=True)
    assert answer.redirect_chain[0][0].startswith(f"{path}?launch=1")
    return answer.content.decode()


def test_the_address_of_the_page_gives_the_scenario(world: World, stored: StoredReport) -> None:
    said = keep(signed_in(world.bob), stored, scenario=NINETY)
    prediction = Prediction.objects.get()
    assert prediction.change == {"mem_fraction_static": 0.9}
    assert (prediction.kept_by_name, prediction.launch_number) == ("Bob Example", 1)
    assert prediction.tokens is not None and prediction.tokens > 159_277
    assert "--mem-fraction-static 0.9" in said and "not tried yet" in said


def test_the_start_that_tries_it_is_told_on_both_reports_and_the_deployment(world: World, stored: StoredReport) -> None:
    keep(signed_in(world.bob), stored, scenario=NINETY)
    foreseen = Prediction.objects.get()
    assert foreseen.tokens is not None and foreseen.free_gib is not None
    tried = world.launch(fraction=0.9, tokens=round(foreseen.tokens * 0.99), free=foreseen.free_gib - 0.25)
    foreseen.refresh_from_db()
    assert foreseen.outcome == tried and foreseen.error_percent == pytest.approx(1.01, abs=0.01)
    assert foreseen.free_error_gib == pytest.approx(-0.25)
    deployment = stored.upload.deployment
    assert deployment is not None
    reader = signed_in(world.vera)
    for path in (
        f"/r/{stored.upload.public_id}/",
        f"/r/{tried.upload.public_id}/",
        f"/deployments/{deployment.public_id}/",
    ):
        text = reader.get(path).content.decode()
        assert f"{tried.kv_tokens:,}, off by 1.01" in text and "−0.25" in text, path
        assert "Keep this scenario" not in text, "a viewer only reads"


def test_a_start_with_other_flags_settles_nothing(world: World, stored: StoredReport) -> None:
    keep(signed_in(world.bob), stored, scenario=NINETY)
    world.launch(fraction=0.91, tokens=200_000)
    assert Prediction.objects.get().outcome is None


def test_a_page_without_scripts_holds_the_scenario_of_its_address(world: World, stored: StoredReport) -> None:
    editor, path = signed_in(world.bob), f"/r/{stored.upload.public_id}/"
    sent = editor.get(path, {"launch": "1", "knobs": "set", "wf.mem_fraction_static": "0.9"}, follow=True)
    held = sent.content.decode().split('name="scenario" value="')[1].split('"')[0]
    keep(editor, stored, scenario=unescape(held))
    assert Prediction.objects.get().change == {"mem_fraction_static": 0.9}


@pytest.mark.parametrize(("query", "said"), [
    ("", "change a setting"),
    ("wf.mem_fraction_static=7", "lies between 0 and 1"),
    ("wf.mem_fraction_static=0.5", "foresees no KV tokens"),
    ("wf.no_such_flag=1", "no such change"),
])  # fmt: skip
def test_what_is_no_scenario_is_refused_in_words(world: World, stored: StoredReport, query: str, said: str) -> None:
    text = keep(signed_in(world.bob), stored, scenario=query)
    assert said in text.lower() or said in text
    assert not Prediction.objects.exists()


def test_an_editor_forgets_a_scenario_and_a_merge_takes_it_along(world: World, stored: StoredReport) -> None:
    editor = signed_in(world.bob)
    keep(editor, stored, scenario=NINETY)
    source, target = stored.upload.deployment, world.launch("other").upload.deployment
    assert source is not None and target is not None
    merge(source, target, by=world.alice)
    kept = Prediction.objects.get()
    assert kept.deployment == target
    assert signed_in(world.charlie).post(f"/scenarios/{kept.pk}/drop/").status_code == 404
    assert editor.post(f"/scenarios/{kept.pk}/drop/").status_code == 302
    assert not Prediction.objects.exists()
    assert list(world.team.audit.filter(action__startswith="scenario").values_list("action", flat=True)) == [
        "scenario.keep", "scenario.drop",
    ]  # fmt: skip


def test_nobodys_reports_and_shared_pages_keep_nothing(world: World, stored: StoredReport) -> None:
    from reports import sharing_links
    from tests.teams.test_sharing import in_a_week

    _, token = sharing_links.make_link(stored.upload, sharing_links.Wish(expires_at=in_a_week()), by=world.alice)
    keep(signed_in(world.bob), stored, scenario=NINETY)
    text = Client().get(f"/s/{token}/").content.decode()
    assert "Keep this scenario" not in text and "Bob Example" not in text


def test_a_scenario_on_another_card_is_not_kept(world: World, stored: StoredReport) -> None:
    for rank in stored.document["launches"][0]["ranks"]:
        rank["capacity_gib"] = 95.59
    stored.save()
    said = keep(signed_in(world.bob), stored, scenario="?launch=1&wf.card=H200&wf.mem_fraction_static=0.9")
    assert "this scenario is not kept" in said
    assert not Prediction.objects.filter(kept_by_name="Bob Example").exists()
