"""Forms of a site that tells nobody its addresses: ours work, with and without scripts; those of other pages do not."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from django.conf import settings as site_settings
from django.test import Client
from playwright.sync_api import Browser, BrowserType, Page, expect

from ingest.models import State, Upload
from reports.models import Baseline, Prediction, ShareLink
from teams.models import ApiToken
from tests.conftest import CHROMIUM_ARGUMENTS
from tests.teams import world as worlds
from tests.teams.conftest import world  # noqa: F401 - a fixture of the same name
from tests.teams.world import PASSWORD, World

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LOG = "first line of the log\nsecond line names db-host-7\n"
NAMES = {"this machine": "127.0.0.1", "a name in the network": "kvdiag.lan"}  # browsers trust plain http to the first


@pytest.fixture(scope="module")
def browsers(browser_type: BrowserType, chromium_path: str) -> Iterator[Browser]:
    """A Chromium for which kvdiag.lan is this machine."""
    arguments = [*CHROMIUM_ARGUMENTS, "--host-resolver-rules=MAP kvdiag.lan 127.0.0.1"]
    browser = browser_type.launch(executable_path=chromium_path, args=arguments)
    yield browser
    browser.close()


def page_of(browsers: Browser, live_server: Any, settings: Any, where: str, *, scripts: bool = True) -> Page:
    settings.ALLOWED_HOSTS = ["*"]
    base = live_server.url.replace("localhost", NAMES[where]).replace("127.0.0.1", NAMES[where])
    page = browsers.new_context(base_url=base, java_script_enabled=scripts).new_page()
    page.on("dialog", lambda dialog: dialog.accept())
    page.set_default_timeout(20_000)
    return page


def sign_in(page: Page, world: World) -> None:  # noqa: F811
    page.goto("/signin/")
    page.get_by_label("E-mail").fill(world.alice.email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name=world.team.name)).to_be_visible()


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no scripts"])
@pytest.mark.parametrize("where", NAMES)
def test_a_members_forms_work(
    browsers: Browser,
    live_server: Any,
    settings: Any,
    world: World,  # noqa: F811
    where: str,
    scripts: bool,
) -> None:
    stored = world.launch(log=LOG)
    upload, report = stored.upload, f"/r/{stored.upload.public_id}/"
    page = page_of(browsers, live_server, settings, where, scripts=scripts)
    sign_in(page, world)

    answer = page.goto(report)
    assert answer is not None and answer.headers["referrer-policy"] == "no-referrer"
    page.get_by_text("More", exact=True).click()
    page.get_by_role("button", name="Pin as baseline").click()
    page.wait_for_url("**/deployments/**")
    assert Baseline.objects.get().report == stored

    page.goto(f"{report}?launch=1&wf.mem_fraction_static=0.9")
    page.get_by_role("button", name="Keep this scenario").click()
    expect(page.get_by_text("not tried yet")).to_be_visible()
    assert Prediction.objects.get().change == {"mem_fraction_static": 0.9}

    page.goto(f"{report}share/")
    page.get_by_role("button", name="Make link").click()
    expect(page.locator("#made-link")).to_be_visible()
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("No link leads here.")).to_be_visible()
    assert ShareLink.objects.get().revoked_at is not None

    page.goto(f"{report}hide/")
    page.get_by_label("Text to hide").fill("db-host-7")
    page.get_by_role("button", name="Hide it everywhere").click()
    page.wait_for_url(f"**{report}")
    page.get_by_text("More", exact=True).click()
    page.get_by_role("button", name="Delete").click()
    page.wait_for_url("**/dashboard/")
    upload.refresh_from_db()
    assert upload.deleted_at is not None

    page.goto("/account/")
    page.get_by_role("button", name="Sign out").first.click()
    page.wait_for_url("**/")
    page.goto("/dashboard/")
    page.wait_for_url("**/account/login/**")


@pytest.mark.parametrize(
    ("where", "scripts"), [("this machine", True), ("a name in the network", True), ("a name in the network", False)]
)
def test_a_strangers_forms_work(
    browsers: Browser,
    live_server: Any,
    settings: Any,
    tmp_path: Path,
    world: World,  # noqa: F811
    where: str,
    scripts: bool,
) -> None:
    """Sent without an account, stopped, read after all, and taken into a team after signing in."""
    page = page_of(browsers, live_server, settings, where, scripts=scripts)
    page.goto("/")
    page.locator("textarea").fill(LOG)
    page.get_by_role("button", name="Diagnose").first.click()
    page.wait_for_url("**/r/**")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Read it after all").click()
    expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    upload = Upload.objects.get()
    assert upload.state == State.QUEUED

    worlds.report(upload, tell=False)
    Upload.objects.update(state=State.READY)
    sign_in(page, world)
    page.goto(f"/r/{upload.public_id}/")
    page.get_by_text("More", exact=True).click()
    page.get_by_role("button", name=f"Keep in {world.team.name}").click()
    page.wait_for_url(f"**/r/{upload.public_id}/")
    upload.refresh_from_db()
    assert upload.team == world.team


# --- Other pages ------------------------------------------------------------------------------------------------------

FORM = """<form method="post" action="{target}"><input name="name" value="forged"><input name="scopes" value="write">
<input name="csrfmiddlewaretoken" value="{token}"></form><script>document.forms[0].submit()</script>"""
ATTACKS = {
    "a form": FORM,
    "a form that tells no referrer": '<meta name="referrer" content="no-referrer">' + FORM,
    "a sandboxed frame": '<iframe name="inner" sandbox="allow-forms allow-scripts" srcdoc=\'{form}\'></iframe>',
    "a script": """<meta name="referrer" content="no-referrer"><script>fetch("{target}", {{method: "POST",
mode: "no-cors", credentials: "include", body: new URLSearchParams({{name: "forged", scopes: "write",
csrfmiddlewaretoken: "{token}"}})}})</script>""",
}


@pytest.fixture
def elsewhere() -> Iterator[Any]:
    """A page on another port of the same machine: cookies of the site go along with what it sends."""
    pages: dict[str, str] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(pages.get(self.path, "").encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield pages, server.server_address[1]
    server.shutdown()


@pytest.mark.parametrize("where", NAMES)
def test_what_another_page_sends_is_refused(
    browsers: Browser,
    live_server: Any,
    settings: Any,
    world: World,  # noqa: F811
    elsewhere: Any,
    where: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Even with a good token. Over plain http in the network, where the sender cannot be told, with one it planted."""
    page = page_of(browsers, live_server, settings, where)
    sign_in(page, world)
    page.goto(f"/teams/{world.team.slug}/tokens/")
    token = page.locator("[name=csrfmiddlewaretoken]").first.input_value()
    name, target = site_settings.CSRF_COOKIE_NAME, page.url
    assert name not in page.evaluate("document.cookie"), "scripts cannot read what a form is known by"
    if where != "this machine":
        stranger = Client()
        stranger.get("/signin/", follow=True)
        token = stranger.cookies[name].value
        page.context.add_cookies([{"name": name, "value": token, "domain": NAMES[where], "path": "/teams/"}])
    pages, port = elsewhere
    caplog.set_level("WARNING", logger="django.security.csrf")
    form = FORM.format(target=target, token=token)
    for attack, text in ATTACKS.items():
        caplog.clear()
        pages["/"] = text.format(target=target, token=token, form=form.replace("'", "&#39;"))
        forger = page.context.new_page()
        forger.goto(f"http://{NAMES[where]}:{port}/", wait_until="commit")
        for _ in range(200):
            if not caplog.records:
                forger.wait_for_timeout(50)
        (refused,) = caplog.records
        headers = refused.request.headers
        assert refused.getMessage().startswith("Forbidden"), attack
        assert headers["Origin"] in ("null", f"http://{NAMES[where]}:{port}"), attack
        # a sandboxed frame is of no site, so that a cookie of ours does not go along at all
        brings_session = site_settings.SESSION_COOKIE_NAME in headers.get("Cookie", "")
        assert brings_session is (attack != "a sandboxed frame"), attack
    assert not ApiToken.objects.exists()
