"""What is said when an address leads nowhere or a page failed: a page, JSON or text."""

import logging

import pytest
from django.test import Client, RequestFactory

from kvdiag import error_pages

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
