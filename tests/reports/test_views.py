"""The pages of a report over HTTP: who sees what, which launch, which headers."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from ingest.arrival import folder_of
from ingest.models import State, StoredReport, Upload
from ingest.stored import columns_of
from reports.rule_pages import rules_context
from teams.models import Membership, Team
from tests.documents import document, with_ranks

pytestmark = pytest.mark.django_db

LINES = [f"[2026-11-29 09:14:{n:02d} TP{n % 2}] line number {n}" for n in range(1, 41)]


def stored(made: dict[str, Any], **fields: Any) -> Upload:
    """An upload with its report."""
    upload = Upload.objects.create(state=State.READY, phase="ready", **fields)
    StoredReport.objects.create(upload=upload, engine=made["engine"], **columns_of(made))
    return upload


@pytest.fixture
def upload() -> Upload:
    return stored(document("kimi-k25-8gpu"))


@pytest.fixture
def with_log() -> Upload:
    made = document("kimi-k25-8gpu")
    made["upload"]["files"][0]["lines"] = len(LINES)
    upload = stored(made, files=[{"name": "a.log", "path": "masked/a.log", "lines": len(LINES)}])
    folder = folder_of(upload.public_id) / "masked"
    folder.mkdir(parents=True)
    (folder / "a.log").write_text("\n".join(LINES) + "\n", "utf-8")
    return upload


def test_a_report_has_a_page(client: Client, upload: Upload) -> None:
    answer = client.get(f"/r/{upload.public_id}/")
    assert answer.status_code == 200
    assert "Memory limits the KV cache" in answer.content.decode()


def test_a_report_is_not_for_search_engines_caches_or_frames(client: Client, upload: Upload) -> None:
    answer = client.get(f"/r/{upload.public_id}/")
    assert "noindex" in answer["X-Robots-Tag"]
    assert "no-store" in answer["Cache-Control"]
    assert "unsafe-inline" not in answer["Content-Security-Policy"]
    assert '<meta name="robots" content="noindex' in answer.content.decode()


def test_a_page_has_no_inline_script_and_no_inline_style(client: Client, upload: Upload) -> None:
    page = client.get(f"/r/{upload.public_id}/").content.decode()
    assert " style=" not in page and "<style" not in page
    assert " onclick=" not in page and "javascript:" not in page
    scripts = [part.split(">", 1)[0] for part in page.split("<script")[1:]]
    assert all("src=" in script or 'type="application/json"' in script for script in scripts)


def test_before_there_is_a_report_the_address_shows_the_progress(client: Client) -> None:
    upload = Upload.objects.create(state=State.QUEUED)
    answer = client.get(f"/r/{upload.public_id}/")
    assert answer.status_code == 200
    assert "Memory budget" not in answer.content.decode()


def test_the_last_launch_is_shown_unless_another_is_asked_for(client: Client) -> None:
    upload = stored(document("llama-two-launches"))
    assert "The weights take 65.86" in client.get(f"/r/{upload.public_id}/").content.decode()
    first = client.get(f"/r/{upload.public_id}/?launch=1").content.decode()
    assert "CUDA graphs ran out of memory in capture" in first
    assert client.get(f"/r/{upload.public_id}/?launch=99").status_code == 200


@pytest.mark.parametrize("path", ["", "ranks.csv", "what-if", "log.txt", "log/find?q=x", "log/lines?n=1"])
def test_a_team_report_is_there_for_its_team_alone(client: Client, path: str) -> None:
    user = get_user_model()
    bob, charlie = (user.objects.create_user(name, password="x") for name in ("bob", "charlie"))
    team = Team.objects.create(name="Inference", slug="inference")
    Membership.objects.create(team=team, user=bob, role="viewer")
    upload = stored(document("kimi-k25-8gpu"), team=team)
    address = f"/r/{upload.public_id}/{path}"
    assert client.get(address).status_code == 404
    client.force_login(charlie)
    assert client.get(address).status_code == 404
    client.force_login(bob)
    assert client.get(address).status_code != 404 or "log/" in path


@pytest.mark.parametrize("suffix", [".md", ".html"])
def test_exports_are_for_the_team_alone(client: Client, suffix: str) -> None:
    team = Team.objects.create(name="Inference", slug="inference")
    upload = stored(document("kimi-k25-8gpu"), team=team)
    assert client.get(f"/r/{upload.public_id}{suffix}").status_code == 404


def test_the_offline_file_is_handed_over_as_a_file(client: Client, upload: Upload) -> None:
    answer = client.get(f"/r/{upload.public_id}.html")
    assert answer["Content-Disposition"].startswith("attachment")
    assert "159,277" in answer.content.decode()


def test_the_table_of_ranks_has_a_row_for_each(client: Client) -> None:
    upload = stored(with_ranks(64))
    answer = client.get(f"/r/{upload.public_id}/ranks.csv")
    rows = list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"))))
    assert len(rows) == 64
    assert (rows[0]["rank"], rows[0]["kv_gib"], rows[0]["kv_tokens"]) == ("TP0", "10.42", "159277")


def test_a_rank_that_looks_like_a_formula_stays_text(client: Client) -> None:
    made = document("kimi-k25-8gpu")
    made["launches"][0]["ranks"][0]["id"] = "=HYPERLINK(1)"
    upload = stored(made)
    assert "'=HYPERLINK(1)" in client.get(f"/r/{upload.public_id}/ranks.csv").content.decode()


def test_the_log_can_be_searched(client: Client, with_log: Upload) -> None:
    found = client.get(f"/r/{with_log.public_id}/log/find", {"q": "number 1", "rank": "TP0"}).json()
    assert found["lines"] == [10, 12, 14, 16, 18]
    assert found["count"] == 5


def test_a_pattern_that_cannot_run_is_answered_in_words(client: Client, with_log: Upload) -> None:
    answer = client.get(f"/r/{with_log.public_id}/log/find", {"q": "/(/"})
    assert answer.status_code == 400
    assert "cannot be searched" in answer.json()["error"]


def test_single_lines_come_by_their_numbers(client: Client, with_log: Upload) -> None:
    got = client.get(f"/r/{with_log.public_id}/log/lines", {"n": "3,40,9999,x"}).json()
    assert got["lines"] == [[3, LINES[2]], [40, LINES[39]]]


def test_a_report_without_its_log_says_so(client: Client, upload: Upload) -> None:
    assert client.get(f"/r/{upload.public_id}/log/find", {"q": "x"}).status_code == 410
    assert client.get(f"/r/{upload.public_id}/log.txt").status_code == 410
    page = client.get(f"/r/{upload.public_id}/").content.decode()
    assert "Only the lines this report rests on are shown" in page


def test_the_log_is_handed_over_as_a_file_never_shown(client: Client, with_log: Upload) -> None:
    answer = client.get(f"/r/{with_log.public_id}/log.txt")
    assert answer["Content-Disposition"].startswith("attachment")
    assert answer["Content-Type"].startswith("text/plain")
    assert b"".join(answer.streaming_content).decode().splitlines() == LINES


def test_what_if_answers_with_figures_and_a_drawing(client: Client, upload: Upload) -> None:
    answer = client.get(f"/r/{upload.public_id}/what-if", {"mem_fraction_static": "0.5"})
    assert answer.status_code == 200
    found = answer.json()
    assert found["verdict"]["tone"] == "critical"
    assert found["figure"]["data"]


def test_what_if_refuses_what_is_no_setting(client: Client, upload: Upload) -> None:
    answer = client.get(f"/r/{upload.public_id}/what-if", {"mem_fraction_static": "2"})
    assert answer.status_code == 400
    assert answer.json()["error"].endswith(".")


def test_compare_asks_for_reports_when_it_has_none(client: Client) -> None:
    assert "Links of reports" in client.get("/compare/").content.decode()


def test_compare_sets_the_launches_of_one_log_side_by_side(client: Client) -> None:
    upload = stored(document("llama-two-launches"))
    page = client.get("/compare/", {"r": upload.public_id}).content.decode()
    assert "2 launches compared" in page
    assert "gone" in page and "new" in page


def test_compare_takes_whole_links_and_hides_what_is_equal(client: Client) -> None:
    one, two = stored(document("kimi-k25-8gpu")), stored(document("kimi-k25-8gpu"))
    links = [f"http://testserver/r/{one.public_id}/?launch=1", f"/r/{two.public_id}/"]
    page = client.get("/compare/", {"r": links}).content.decode()
    assert "2 launches compared" in page
    assert "No row differs." in page


def test_compare_says_what_is_no_link(client: Client) -> None:
    assert "This is no link of a report" in client.get("/compare/", {"r": "garbage!"}).content.decode()
    assert "This is no link of a report" not in client.get("/compare/", {"r": ""}).content.decode()


def test_compare_does_not_tell_a_report_from_none(client: Client) -> None:
    team = Team.objects.create(name="Inference", slug="inference")
    secret = stored(document("kimi-k25-8gpu"), team=team)
    answers = [
        client.get("/compare/", {"r": given}).content.decode().replace(given, "")
        for given in (secret.public_id, "nothing-of-this-name")
    ]
    assert answers[0] == answers[1]


def test_compare_warns_when_models_differ_and_compares_all_the_same(client: Client) -> None:
    one, two = stored(document("kimi-k25-8gpu")), stored(document("llama-refused"))
    page = client.get("/compare/", {"r": [one.public_id, two.public_id]}).content.decode()
    assert "different models" in page
    assert "2 launches compared" in page


def test_the_design_has_a_page(client: Client) -> None:
    assert client.get("/design/").status_code == 200
    assert "/design/" not in client.get("/").content.decode()  # it is for who works on the pages


def test_rules_have_a_list_and_a_page_each(client: Client) -> None:
    from kvdiag.diagnosis.rules import all_rules

    assert client.get("/rules/").status_code == 200
    for rule in all_rules():
        page = client.get(f"/rules/{rule.id}/").content.decode()
        assert all(name in page for name in rule.sections)
    assert client.get("/rules/no-such-rule/").status_code == 404


@pytest.mark.parametrize(
    ("rule", "group"),
    [
        ("retraction-storm", "serving"),
        ("prefill-batch-transient", "serving"),
        ("full-pool-exhausted", "serving"),
        ("decode-graph-oom", "graphs"),
        ("dev-shm-too-small", "host"),
        ("weights-exceed-gpu", "start"),
    ],
)
def test_a_rule_is_counted_where_its_problem_shows(rule: str, group: str) -> None:
    context = rules_context(rule)
    assert context is not None and context["rule"].group == group


def test_the_document_in_the_page_is_valid_json(client: Client, upload: Upload) -> None:
    page = client.get(f"/r/{upload.public_id}/").content.decode()
    for part in page.split('type="application/json">')[1:]:
        json.loads(part.split("</script>", 1)[0])


def test_a_rules_page_says_how_it_does_on_labelled_logs(client: Client) -> None:
    page = client.get("/rules/decode-graph-oom/").content.decode()
    assert "On logs whose cause is known" in page
    assert "decode-graph-oom-4ranks-chained" in page
    assert "Of the labelled logs that prove it, it is named in" in client.get("/rules/no-fault/").content.decode()
