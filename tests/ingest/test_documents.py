"""The report and the log as JSON, and who may read them."""

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from ingest import documents, services
from ingest.models import State, Upload
from teams.models import Membership, Role, Team

pytestmark = pytest.mark.django_db


@pytest.fixture
def team() -> Team:
    return Team.objects.create(name="Inference", slug="inference")


@pytest.fixture
def people(team: Team) -> dict[str, Client]:
    """Alice owns the team, Bob may only look, Charlie is not in it."""
    clients = {"nobody": Client()}
    for name, role in (("alice", Role.OWNER), ("bob", Role.VIEWER), ("charlie", None)):
        user = get_user_model().objects.create_user(name, password="a long password")
        if role:
            Membership.objects.create(team=team, user=user, role=role)
        clients[name] = Client()
        clients[name].force_login(user)
    return clients


def ready(upload: Upload) -> Upload:
    services.diagnose_upload(upload.pk)
    upload.refresh_from_db()
    return upload


def test_the_document_is_the_engines_own(accept, client: Client) -> None:
    upload = ready(accept("report\n"))
    answer = client.get(f"/r/{upload.public_id}.json")
    assert answer.status_code == 200 and answer.json() == upload.report.document
    assert "noindex" in answer["X-Robots-Tag"]


def test_while_it_is_made_the_answer_says_when_to_ask_again(accept, client: Client) -> None:
    upload = accept("report\n")
    answer = client.get(f"/r/{upload.public_id}.json")
    assert answer.status_code == 202 and answer["Retry-After"] == "1"
    assert answer.json()["state"] == "queued" and answer.json()["phase"] == "received"
    assert client.get(f"/r/{upload.public_id}/log").status_code == 409


def test_an_upload_that_could_not_be_diagnosed_is_a_422_with_its_reason(accept, client: Client) -> None:
    upload = ready(accept("other\n"))
    answer = client.get(f"/r/{upload.public_id}.json")
    assert answer.status_code == 422
    assert "not an SGLang log" in answer.json()["error"] and answer.json()["code"] == "not_sglang"


def test_an_unknown_id_is_a_404(client: Client) -> None:
    assert client.get("/r/nothing-here.json").status_code == 404


def test_a_range_of_lines_comes_numbered(accept, client: Client, monkeypatch) -> None:
    asked = []

    def log_range(path, first, last):
        asked.append((path.name, first, last))
        return [(number, f"line {number}") for number in range(first, min(last, 5) + 1)]

    monkeypatch.setattr(documents, "log_range", log_range)
    upload = ready(accept("report\n"))
    said = client.get(f"/r/{upload.public_id}/log?from=4&to=9").json()
    assert said["lines"] == [[4, "line 4"], [5, "line 5"]] and said["to"] == 5
    client.get(f"/r/{upload.public_id}/log?from=1&to=999999")
    assert asked[-1][1:] == (1, documents.MAX_LINES)


@pytest.mark.parametrize("query", ["from=x", "to=1.5", "file=-1&from=1", "file=7", "from=99999999999999999999"])
def test_a_range_that_makes_no_sense_is_refused(accept, client: Client, query: str) -> None:
    upload = ready(accept("report\n"))
    assert client.get(f"/r/{upload.public_id}/log?{query}").status_code in (400, 404)


def test_a_log_that_was_not_kept_is_gone_and_its_report_stays(accept, client: Client) -> None:
    upload = ready(accept("report\n", keep_log=False))
    assert client.get(f"/r/{upload.public_id}/log").status_code == 410
    assert client.get(f"/r/{upload.public_id}.json").status_code == 200


def test_a_teams_upload_is_for_its_members(accept, people, team: Team) -> None:
    upload = ready(accept("report\n"))
    Upload.objects.update(team=team)
    for path in (".json", "/status.json"):
        statuses = {name: each.get(f"/r/{upload.public_id}{path}").status_code for name, each in people.items()}
        assert statuses == {"alice": 200, "bob": 200, "charlie": 404, "nobody": 404}, path


@pytest.mark.parametrize("action", ["cancel", "retry", "delete"])
def test_a_teams_upload_is_managed_by_its_editors(accept, people, team: Team, action: str) -> None:
    upload = accept("report\n")
    Upload.objects.update(team=team)
    for name in ("nobody", "charlie", "bob"):
        assert people[name].post(f"/r/{upload.public_id}/{action}").status_code == 404
    assert people["alice"].post(f"/r/{upload.public_id}/{action}").status_code == 303


def test_nobodys_upload_is_managed_by_the_browser_that_sent_it(client: Client) -> None:
    client.get("/", headers={"accept": "text/html"})
    client.post("/", {"text": "report\n"}, headers={"accept": "text/html"})
    upload = Upload.objects.get()
    assert Client().post(f"/r/{upload.public_id}/cancel").status_code == 404
    assert client.post(f"/r/{upload.public_id}/cancel").status_code == 303
    upload.refresh_from_db()
    assert upload.state == State.CANCELLED


def test_a_member_uploads_to_the_team_and_charlie_cannot(people, team: Team) -> None:
    people["alice"].post("/", {"text": "report\n"})
    assert Upload.objects.get().team == team
    assert people["charlie"].post("/", {"text": "report\n", "team": "inference"}).status_code == 403
    assert people["bob"].post("/", {"text": "report\n", "team": "inference"}).status_code == 403


def test_deleting_by_a_form_of_another_page_is_refused(accept) -> None:
    upload = accept("report\n")
    careful = Client(enforce_csrf_checks=True)
    assert careful.post(f"/r/{upload.public_id}/delete").status_code == 403
