"""What a shared page asks for while it is read: scenarios and single lines, within the link and for as long as it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from ingest.models import StoredReport
from reports import sharing_links
from reports.models import ShareLink
from reports.sharing_links import What, Who
from reports.sharing_scope import scenario_within_facts
from tests.teams.test_sharing import LOG, link
from tests.teams.world import World, document, report, upload


@pytest.fixture
def stored(world: World) -> StoredReport:
    """A report whose arguments name places that no facts show."""
    made = document()
    arguments = made["launches"][0]["arguments"]
    arguments["speculative_draft_model_path"] = {"value": "/secret/draft", "origin": "given"}
    arguments["host"] = {"value": "db-host-7", "origin": "given"}
    return report(upload(team=world.team, uploader=world.bob, log=LOG), made)


def ask(url: str, client: Client | None = None, **settings: str) -> Any:
    return (client or Client()).get(f"{url}what-if", {"launch": "1", **settings})


def test_a_reader_of_facts_asks_what_if_and_gets_figures(world: World, stored: StoredReport) -> None:
    _, url = link(world, stored)
    answer = ask(url, mem_fraction_static="0.9")
    assert answer.status_code == 200
    shown = answer.json()["shown"]
    assert shown["outcomes"][0]["figure"].startswith("≈ 188,0")
    assert shown["diff"][-1]["text"] == shown["copied"] == "--mem-fraction-static 0.9"


def test_the_figures_are_those_of_the_report_itself(world: World, stored: StoredReport) -> None:
    _, url = link(world, stored)
    client = Client()
    client.force_login(world.bob, backend="django.contrib.auth.backends.ModelBackend")
    own = ask(f"/r/{stored.upload.public_id}/", client, mem_fraction_static="0.9").json()
    shared = ask(url, mem_fraction_static="0.9").json()
    assert shared["shown"]["outcomes"] == own["shown"]["outcomes"]
    assert shared["figure"] == own["figure"]


@pytest.mark.parametrize("changes", [{}, {"draft": "off"}, {"mem_fraction_static": "0.5"}, {"tp_size": "4"}])
def test_no_answer_to_a_reader_of_facts_holds_text_of_the_log(
    world: World, stored: StoredReport, changes: dict[str, str]
) -> None:
    _, url = link(world, stored)
    answer = ask(url, **changes)
    page = Client().get(url, {f"wf.{name}": value for name, value in changes.items()})
    assert answer.status_code == page.status_code == 200
    for text in (answer.content.decode(), page.content.decode()):
        for hidden in ("/models/", "/secret/", "db-host-7", "api-key", "<masked>", "--model-path"):
            assert hidden not in text, hidden
    assert "command" not in answer.json()


def test_a_flag_keeps_its_value_only_where_the_facts_show_it() -> None:
    flags = [
        {"flag": "--speculative-draft-model-path", "from": "/secret/draft", "to": None},
        {"flag": "--kv-cache-dtype", "from": "auto", "to": "fp8_e4m3"},
        {"flag": "--mem-fraction-static", "from": 0.88, "to": "0.9"},
        {"flag": "--disable-radix-cache", "from": "", "to": None},
    ]
    found = scenario_within_facts({"flags": flags, "command": "python --model-path /secret", "verdict": {"text": "x"}})
    assert [(flag["from"], flag["to"]) for flag in found["flags"]] == [
        ("…", None),
        ("auto", "fp8_e4m3"),
        (0.88, "0.9"),
        ("", None),
    ]
    assert "secret" not in json.dumps(found)


def test_asking_counts_no_view(world: World, stored: StoredReport) -> None:
    made, url = link(world, stored, max_views=2)
    client = Client()
    assert ask(url, client).status_code == 404, "behind the door nothing is answered"
    client.post(url)
    for fraction in ("0.8", "0.85", "0.9"):
        assert ask(url, client, mem_fraction_static=fraction).status_code == 200
    made.refresh_from_db()
    assert made.views == 1


def test_a_password_stands_before_the_scenarios_too(world: World, stored: StoredReport) -> None:
    _, url = link(world, stored, who=Who.PASSWORD, password="correct horse")
    assert ask(url).status_code == 404


@pytest.mark.parametrize("end", ["revoked", "expired"])
def test_a_link_that_has_ended_answers_nothing(world: World, stored: StoredReport, end: str) -> None:
    made, url = link(world, stored, what=What.LOG)
    assert ask(url).status_code == 200
    assert Client().get(f"{url}log/lines?file=0&n=2").json() == {"lines": [[2, LOG.splitlines()[1]]]}
    if end == "revoked":
        sharing_links.revoke(made, by=world.alice)
    else:
        ShareLink.objects.filter(pk=made.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert ask(url).status_code == 404
    assert Client().get(f"{url}log/lines?file=0&n=2").status_code == 404


def test_single_lines_are_part_of_a_link_with_the_log_only(world: World, stored: StoredReport) -> None:
    _, url = link(world, stored)
    assert Client().get(f"{url}log/lines?file=0&n=2").status_code == 404


def test_no_answer_is_listed_remembered_or_handed_on(world: World, stored: StoredReport) -> None:
    _, url = link(world, stored)
    answer = ask(url)
    assert "noindex" in answer["X-Robots-Tag"]
    assert answer["Referrer-Policy"] == "no-referrer"
    assert "no-store" in answer["Cache-Control"]


def test_what_is_no_setting_is_said(world: World, stored: StoredReport) -> None:
    _, url = link(world, stored)
    assert ask(url, mem_fraction_static="2").status_code == 400
