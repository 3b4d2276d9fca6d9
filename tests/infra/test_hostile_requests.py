"""Requests that nobody means well: no answer lacks its guards, and none is a failure of ours."""

from __future__ import annotations

import json
import logging
import logging.config
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as site
from django.db import DataError
from django.test import Client, RequestFactory

from ingest.models import Upload
from kvdiag.middleware import WithoutNul
from reports import sharing_links
from tests.teams import world as worlds
from tests.teams.conftest import signed_in
from tests.teams.world import World

pytestmark = pytest.mark.django_db

GUARDS = {
    "X-Robots-Tag": "noindex, nofollow, noarchive",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}


@pytest.fixture
def world(settings: Any, tmp_path: Path) -> World:
    settings.KVDIAG_UPLOADS = tmp_path / "uploads"
    (tmp_path / "uploads").mkdir()
    return worlds.make_world()


@pytest.fixture
def static_file(settings: Any, tmp_path: Path) -> Iterator[str]:
    settings.STATIC_ROOT = tmp_path / "static"
    (tmp_path / "static").mkdir()
    (tmp_path / "static" / "drawing.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    yield "/static/drawing.svg"


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/static/drawing.svg", {}, 200),
        ("/static/none.css", {}, 404),
        ("/nowhere", {}, 404),
        ("/", {"host": "elsewhere.example"}, 400),
        ("/api/v1/reports", {"authorization": "Bearer kvd_unknown"}, 401),
        ("/api/v1/reports", {}, 401),
        ("/s/AAAAAAAAAAAAAAAAAAAAAA/", {}, 404),
        ("/healthz", {}, 200),
    ],
)
def test_every_answer_has_its_guards(static_file: str, path: str, headers: dict[str, str], status: int) -> None:
    answer = Client().get(path, headers=headers)
    assert answer.status_code == status
    assert {name: answer.headers.get(name) for name in GUARDS} == GUARDS
    assert "frame-ancestors 'none'" in answer["Content-Security-Policy"]


@pytest.mark.parametrize("path", ["/compare/?r=http://[&r=x", "/compare/?r=http://[/r/abcdefgh"])
def test_a_broken_link_is_no_report_to_compare(path: str) -> None:
    assert Client().get(path).status_code == 200


def test_digits_that_are_no_decimal_are_no_numbers(world: World) -> None:
    """For str.isdigit "²" is a digit, for int it is no number."""
    report = world.launch()
    _, token = sharing_links.make_link(report.upload, sharing_links.Wish(who="team"), by=world.alice)
    alice = signed_in(world.alice)
    assert alice.get(f"/s/{token}/?launch=²").status_code == 200
    assert alice.get(f"/teams/{world.team.slug}/trail/?before=²").status_code == 200
    sheet = {"max_views": "²", "days": "7", "who": "link", "what": "facts"}
    assert alice.post(f"/r/{report.upload.public_id}/share/", sheet).status_code == 400
    deployment = f"/deployments/{report.upload.deployment.public_id}"
    assert alice.post(f"{deployment}/change/", {"owner": "²"}).status_code < 500
    assert alice.post(f"{deployment}/baseline/", {"report": "²"}).status_code < 500


# --- Forms that other pages send --------------------------------------------------------------------------------------


class Browser:
    """A person's browser before the site: its cookies, and the token that a page gave it."""

    def __init__(self, world: World, *, secure: bool = False) -> None:
        self.client, self.secure = Client(enforce_csrf_checks=True), secure
        form = {"login": world.bob.email, "password": worlds.PASSWORD, "csrfmiddlewaretoken": self.token("/signin/")}
        own = {"origin": "null", "sec-fetch-site": "same-origin"}
        assert self.client.post("/account/login/", form, headers=own, secure=secure).status_code == 302
        self.page = f"/teams/{world.team.slug}/tokens/"
        self.given = self.token(self.page)

    def token(self, path: str) -> str:
        text = self.client.get(path, follow=True, secure=self.secure).content.decode()
        return text.split('name="csrfmiddlewaretoken" value="')[1].split('"')[0]

    def send(self, headers: dict[str, str], token: str | None = None) -> int:
        """The status of a form posted with these headers, and the page's own token or another."""
        form = {"name": "ci", "scopes": ["upload"], "csrfmiddlewaretoken": token or self.given}
        return self.client.post(self.page, form, headers=headers, secure=self.secure).status_code


@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "null", "sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"origin": "null", "sec-fetch-site": "same-site"}, 403),
        ({"origin": "null", "sec-fetch-site": "cross-site"}, 403),
        ({"origin": "null", "sec-fetch-site": "none"}, 403),
        ({"origin": "https://elsewhere.example", "sec-fetch-site": "cross-site"}, 403),
        ({"origin": "https://elsewhere.example", "sec-fetch-site": "same-origin"}, 403),
    ],
)
def test_a_form_counts_only_from_a_page_of_this_site(
    world: World, secure: bool, headers: dict[str, str], status: int
) -> None:
    """Whoever sends it holds the right token: what is looked at is where it comes from."""
    assert Browser(world, secure=secure).send(headers) == status


def test_over_https_a_form_must_say_where_it_comes_from(world: World) -> None:
    browser = Browser(world, secure=True)
    assert browser.send({"origin": "null"}) == 403
    assert browser.send({}) == 403
    assert browser.send({"origin": "https://testserver"}) == 200


def test_our_own_page_needs_the_token_as_ever(world: World) -> None:
    own = {"origin": "null", "sec-fetch-site": "same-origin"}
    assert Browser(world).send(own, token="a" * 64) == 403


def test_over_plain_http_the_token_must_be_the_sessions_own(world: World) -> None:
    """There a browser says nothing of the sending page; a neighbour may plant a cookie, but not in the session."""
    browser = Browser(world)
    assert browser.send({"origin": "null"}) == 200
    stranger = Client()
    stranger.get("/signin/", follow=True)
    browser.client.cookies[site.CSRF_COOKIE_NAME] = planted = stranger.cookies[site.CSRF_COOKIE_NAME].value
    assert browser.send({"origin": "null"}, token=planted) == 403
    assert browser.send({"origin": "http://testserver"}, token=planted) == 200, "the planted pair itself is a good one"
    browser.token(browser.page)
    assert browser.send({"origin": "null"}, token=planted) == 403, "looking at a page makes it no better"


def test_scripts_cannot_read_what_forms_are_known_by(world: World) -> None:
    assert Browser(world).client.cookies[site.CSRF_COOKIE_NAME]["httponly"]


FILE = {"files": [{"name": "server.log", "bytes": 3}]}


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(FILE | {"tags": 5}),
        json.dumps(FILE | {"tags": {"a": 1}}),
        json.dumps(FILE | {"name": "\ud800", "deployment": "\ud800\0", "tags": ["\ud800"]}),
        "[" * 100_000,
    ],
)
def test_a_description_of_an_upload_may_be_any_json(world: World, body: str) -> None:
    answer = signed_in(world.alice).post("/api/uploads/", body, content_type="application/json")
    assert answer.status_code in (201, 400)


def test_names_and_tags_are_kept_without_control_characters(world: World) -> None:
    signed_in(world.alice).post(
        "/",
        "INFO a log\n",
        content_type="text/plain",
        headers={"x-kvdiag-deployment": "pro%00d%ED%A0%80", "x-kvdiag-tags": "gpu%00=h100", "upload-name": "a%1B[2Jb"},
    )
    upload = Upload.objects.get()
    assert (upload.deployment_key, upload.tags, upload.name) == ("prod\ufffd\ufffd\ufffd", ["gpu=h100"], "a[2Jb")


def test_a_nul_that_the_database_cannot_keep_is_the_askers_mistake(rf: RequestFactory) -> None:
    guard = WithoutNul(lambda _: None)  # type: ignore[arg-type,return-value]
    said = guard.process_exception(rf.get("/r/%00/"), DataError("PostgreSQL text fields cannot contain NUL (0x00)"))
    assert said is not None and said.status_code == 400
    assert guard.process_exception(rf.get("/"), DataError("value too long")) is None


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("Forbidden: /s/KhV_TX_ybFOUPDooSMAFYg/", "Forbidden: /s/…MAFYg/"),
        ("Bad Request: /badge/KhV_TX_ybFOUPDooSMAFYg.svg", "Bad Request: /badge/…MAFYg.svg"),
        ("Not Found: /s/KhV_TX_ybFOUPDooSMAFYg/log/find", "Not Found: /s/…MAFYg/log/find"),
        ("Not Found: /invitation/TJ0i2sspFR6Pbk0wuuRZfC5jfdpwg6A8kFZx3qjsxBY/", "Not Found: /invitation/…jsxBY/"),
        ("Not Found: /account/password/reset/key/3-cabc12-0123456789abcdef/", "…bcdef/"),
        ("Bad: kvd_tBVVuq1OeyZjh-SRIZaNPBAsN9HURID09TQxZ6XWO6c.", "Bad: kvd_…WO6c."),
        ("Not Found: /reports/delete/", "Not Found: /reports/delete/"),
    ],
)
def test_the_log_has_no_address_that_opens_something(line: str, kept: str) -> None:
    (formatter,) = logging.config.dictConfigClass(site.LOGGING).config["formatters"].values()
    made = logging.config.DictConfigurator({}).configure_formatter(dict(formatter))
    try:
        raise RuntimeError(line)
    except RuntimeError as problem:
        record = logging.LogRecord("django.request", logging.WARNING, "", 0, "%s", (line,), None)
        record.exc_info = (RuntimeError, problem, problem.__traceback__)
    told = made.format(record)
    assert told.count(kept) == 2  # the message and the traceback
