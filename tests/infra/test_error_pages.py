"""What is said when an address leads nowhere or a page failed: a page, JSON or text."""

import json
import logging
from contextlib import closing
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psycopg
import pytest
from django.test import Client, RequestFactory

from kvdiag import error_pages
from tests.live import LiveStack

pytestmark = pytest.mark.django_db


def test_a_browser_gets_a_page_with_a_way_on() -> None:
    answer = Client().get("/nowhere", headers={"accept": "text/html"})
    page = answer.content.decode()
    assert answer.status_code == 404 and "<h1>Not found</h1>" in page and "Upload a log" in page


def test_a_program_gets_json_and_a_terminal_text() -> None:
    said = Client().get("/nowhere", headers={"accept": "application/json"})
    assert said.status_code == 404 and said.json()["error"]["code"] == "not_found"
    told = Client().get("/nowhere", headers={"accept": "*/*"})
    assert told["Content-Type"].startswith("text/plain") and told.content.decode() == error_pages.NOT_FOUND + "\n"


def test_a_form_without_its_token_is_told_apart_from_a_missing_page() -> None:
    answer = Client(enforce_csrf_checks=True).post("/sample/kimi-k25-8gpu/", headers={"accept": "text/html"})
    assert answer.status_code == 403 and "reload the page" in answer.content.decode()


def test_a_failure_has_a_reference_that_the_log_has_too(rf: RequestFactory, caplog) -> None:
    with caplog.at_level(logging.ERROR):
        try:
            raise RuntimeError("broken")
        except RuntimeError:
            answer = error_pages.failed(rf.get("/", headers={"accept": "text/html"}))
    page = answer.content.decode()
    assert answer.status_code == 500
    (record,) = caplog.records
    assert record.args[0] in page and record.exc_info


def asked(url: str, accept: str, **headers: str) -> tuple[int, str, str | None]:
    """Status, body, and after how many seconds to ask again."""
    try:
        with urlopen(Request(url, headers={"Accept": accept} | headers)) as answer:
            return answer.status, answer.read().decode(), answer.headers["Retry-After"]
    except HTTPError as problem:
        with problem:
            return problem.code, problem.read().decode(), problem.headers["Retry-After"]


@pytest.mark.services
def test_a_database_that_is_away_is_no_mistake_of_ours_and_over_when_it_is_back(
    postgres_url: str, redis_url: str, tmp_path: Path
) -> None:
    stack = LiveStack.start(tmp_path / "data", DATABASE_URL=postgres_url, REDIS_URL=redis_url).wait_until_ready()
    server, _, name = postgres_url.rpartition("/")
    page, document = stack.url + "/r/none/", stack.url + "/api/v1/reports/none"
    try:
        assert asked(page, "text/html")[0] == asked(document, "*/*")[0] == 404
        with closing(psycopg.connect(f"{server}/postgres", autocommit=True)) as administrator:
            administrator.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            try:
                administrator.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname=%s", [name])
                for _ in range(2):  # with the connection that was cut, and with none
                    status, told, again = asked(page, "text/html")
                    assert status == 503 and "database does not answer" in told and int(again or 0) > 0
                for headers in ({}, {"Authorization": "Bearer kvd_none"}):
                    status, told, again = asked(document, "*/*", **headers)
                    assert status == 503 and json.loads(told)["error"]["code"] == "not_available"
                    assert int(again or 0) > 0
            finally:
                administrator.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        assert asked(page, "text/html")[0] == asked(document, "*/*")[0] == 404
    finally:
        stack.stop()
