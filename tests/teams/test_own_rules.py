"""A team's own thresholds of the rules, and its own expressions of what is hidden."""

from __future__ import annotations

import resource

import pytest
from django.test import Client

from ingest import lease, services
from teams import redaction, rule_thresholds
from tests.teams import world as worlds
from tests.teams.conftest import signed_in
from tests.teams.world import World

SAMPLE = "request of customer=acme-gmbh took 3 s\n"
RULE = {"name": "Customer name", "expression": r"(?<=customer=)[\w-]+", "sample": SAMPLE}


def settings_of(world: World) -> dict[str, object]:
    world.team.refresh_from_db()
    settings: dict[str, object] = world.team.settings
    return settings


# --- Thresholds ---------------------------------------------------------------------------------------------


def test_an_owner_holds_other_thresholds_and_takes_them_back(world: World) -> None:
    page, owner = f"/teams/{world.team.slug}/thresholds/", signed_in(world.alice)
    assert owner.post(page, {"free_wanted": "3 GiB", "usage_full": "99 %", "rank_spread": ""}).status_code == 302
    assert settings_of(world)["rule_thresholds"] == {"free_wanted": 3, "usage_full": 0.99}
    text = signed_in(world.vera).get(page).content.decode()
    assert 'name="free_wanted" value="3"' in text and "readonly" in text
    assert signed_in(world.bob).post(page, {"free_wanted": "1"}).status_code == 403
    owner.post(page, {"free_wanted": "5"})
    assert "rule_thresholds" not in settings_of(world), "kvdiag's own value is no other threshold"


@pytest.mark.parametrize(("typed", "said"), [
    ({"free_wanted": "much"}, "free_wanted is a size in GiB"),
    ({"free_wanted": "9999"}, "lies between"),
    ({"usage_high": "0.999"}, "is more than usage_full"),
])  # fmt: skip
def test_a_threshold_without_sense_is_refused_in_words(world: World, typed: dict[str, str], said: str) -> None:
    answer = signed_in(world.alice).post(f"/teams/{world.team.slug}/thresholds/", typed)
    assert answer.status_code == 400 and said in answer.content.decode()
    assert "rule_thresholds" not in settings_of(world)


def test_what_another_version_does_not_know_stops_no_log() -> None:
    held = rule_thresholds.of({"rule_thresholds": {"gone": 1, "usage_full": 2, "thin_share": 0.25}})
    assert held is not None and {one.name for one in held.overridden()} == {"thin_share"}
    assert rule_thresholds.of({}) is None


def test_the_process_that_reads_a_log_is_given_the_teams_own(world: World) -> None:
    world.team.settings = {"rule_thresholds": {"free_wanted": 3}}
    world.team.save()
    for team, expected in ((world.team, world.team.settings), (None, {})):
        upload = worlds.upload(team=team, uploader=world.bob if team else None, log="a line\n")
        turn = lease.Turn(upload, 1, phases=[])
        job = services._job(turn, services.folder_of(upload.public_id))
        assert job is not None and job["team"] == expected


# --- What is hidden -----------------------------------------------------------------------------------------


def test_an_expression_is_tried_before_it_is_kept(world: World) -> None:
    page, owner = f"/teams/{world.team.slug}/redaction/", signed_in(world.alice)
    text = owner.post(page, {**RULE, "try": "1"}).content.decode()
    assert "1 value would be hidden" in text and "customer=[customer name] took" in text
    assert "redaction" not in settings_of(world)
    assert owner.post(page, {**RULE, "keep": "1"}).status_code == 302
    kept = {"name": "customer name", "expression": RULE["expression"], "ignore_case": False}
    assert settings_of(world)["redaction"] == [kept]
    owner.post(page, {**RULE, "expression": r"acme-\w+", "keep": "1"})
    assert [each["expression"] for each in settings_of(world)["redaction"]] == [r"acme-\w+"]  # type: ignore[attr-defined]
    owner.post(page, {"drop": "customer name"})
    assert "redaction" not in settings_of(world)


@pytest.mark.parametrize(("change", "said"), [
    ({"expression": "(open"}, "cannot be read"),
    ({"expression": "a*"}, "fits where nothing stands"),
    ({"expression": "(?=acme)"}, "fits where nothing stands"),
    ({"expression": r"(a)\1"}, "by number"),
    ({"expression": ""}, "1 to 300"),
    ({"name": "<script>"}, "a word or two"),
    ({"sample": "nothing of the kind"}, "hides nothing"),
])  # fmt: skip
def test_an_expression_that_would_not_do_is_refused_in_words(world: World, change: dict[str, str], said: str) -> None:
    answer = signed_in(world.alice).post(f"/teams/{world.team.slug}/redaction/", {**RULE, "keep": "1", **change})
    assert answer.status_code == 400 and said in answer.content.decode()
    assert "redaction" not in settings_of(world)


def test_a_slow_expression_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "SAMPLE_S", 0.05)
    slow = redaction.checked("slow", "(a|aa)+$")
    with pytest.raises(redaction.BadPattern, match="too long"):
        redaction.tried([slow], "a" * 60 + "!")


def test_members_read_what_is_hidden_and_outsiders_do_not(world: World) -> None:
    page = f"/teams/{world.team.slug}/redaction/"
    signed_in(world.alice).post(page, {**RULE, "keep": "1"})
    assert "[customer name]" in signed_in(world.vera).get(page).content.decode()
    assert signed_in(world.bob).post(page, {**RULE, "keep": "1"}).status_code == 403
    assert signed_in(world.charlie).get(page).status_code == 404
    assert Client().get(page).status_code == 302


@pytest.mark.parametrize("expression", ["(?:(?:(?:a{1000}){1000}){1000}){1000}", "(?R)"])
def test_an_expression_that_is_too_much_work_is_refused_and_costs_the_site_nothing(
    world: World, expression: str
) -> None:
    """Compiling cannot be given up, so it is done elsewhere."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rule = {**RULE, "expression": expression, "keep": "1"}
    answer = signed_in(world.alice).post(f"/teams/{world.team.slug}/redaction/", rule)
    assert answer.status_code == 400 and "redaction" not in settings_of(world)
    assert "too much work" in answer.content.decode()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10  # KiB
