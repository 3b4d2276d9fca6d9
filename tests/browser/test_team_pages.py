"""The team's pages in a browser, wide and narrow, light and dark: readable by all, without an error or an overflow."""

from __future__ import annotations

import re
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, Page, expect

from reports import sharing_links
from reports.sharing_links import What, Wish
from teams.models import Deployment, Scope
from teams.services import create_token, invite
from tests.teams.conftest import world  # noqa: F401 - a fixture of the same name
from tests.teams.test_sharing import in_a_week
from tests.teams.world import World

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LOG = "".join(f"[2026-11-29 09:14:{line % 60:02d} TP0] line {line} avail mem=7.43 GB\n" for line in range(1, 403))


class Reader:
    """A page in which somebody may be signed in; notes errors, refused styles and requests to elsewhere."""

    def __init__(self, browser: Browser, site: str, user: Any = None, *, width: int = 1440, dark: bool = False) -> None:
        scheme = "dark" if dark else "light"
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, base_url=site, reduced_motion="reduce"
        )
        if user is not None:
            client = Client()
            client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
            name = settings.SESSION_COOKIE_NAME
            self.context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": site}])
        self.page: Page = self.context.new_page()
        self.problems: list[str] = []
        self.page.on("console", lambda said: self.problems.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on(
            "request",
            lambda request: (
                None if request.url.startswith((site, "data:", "blob:")) else self.problems.append(request.url)
            ),
        )

    def look(self, path: str) -> list[str]:
        """What is wrong with a page: errors, a sideways overflow, what a screen reader or weak eyes would miss."""
        self.problems.clear()
        self.page.goto(path, wait_until="load")
        wrong = [f"{path}: {problem}" for problem in self.problems]
        if self.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
            wrong.append(f"{path} is wider than the window")
        found = Axe().run(self.page)
        for violation in found.response["violations"]:
            if violation["impact"] in ("serious", "critical"):
                nodes = [node["html"][:160] for node in violation["nodes"][:3]]
                wrong.append(f"{path}: {violation['id']}: {nodes}")
        return wrong


@pytest.fixture
def busy(world: World) -> World:  # noqa: F811
    """A team with two deployments, one of them broken, a finding, a token and an invitation."""
    world.launch(log=LOG, tokens=100_000, release="0.5.7")
    world.launch(log=LOG, tokens=120_000, findings=[("thin-slack-after-capture", "warning")])
    world.launch("staging", tokens=None, outcome="failed", findings=[("weights-exceed-budget", "critical")])
    create_token(user=world.alice, team=world.team, name="nightly", scopes=[Scope.UPLOAD], expires_at=None)
    invite(world.team, "new@example.org", "viewer", by=world.alice)
    return world


def team_paths(busy: World) -> list[str]:
    team, deployment = f"/teams/{busy.team.slug}/", Deployment.objects.get(name="kimi-prod")
    report = deployment.uploads.order_by("-created_at").first()
    assert report is not None
    pages = ("", "members/", "tokens/", "notifications/", "thresholds/", "redaction/", "links/", "trash/", "trail/")
    return [
        "/dashboard/", "/reports/", "/findings/", f"/deployments/{deployment.public_id}/", "/account/", "/teams/new/",
        f"/r/{report.public_id}/share/", f"/r/{report.public_id}/hide/", "/api/", "/limits/",
        *(f"{team}{page}" for page in pages),
    ]  # fmt: skip


@pytest.mark.parametrize(("width", "dark"), [(1440, False), (390, True)])
def test_team_pages_are_sound(browser: Browser, live_server: Any, busy: World, width: int, dark: bool) -> None:
    reader = Reader(browser, live_server.url, busy.alice, width=width, dark=dark)
    assert [wrong for path in team_paths(busy) for wrong in reader.look(path)] == []


@pytest.mark.parametrize(("width", "dark"), [(1440, True), (390, False)])
def test_pages_before_signing_in_are_sound(
    browser: Browser, live_server: Any, busy: World, width: int, dark: bool
) -> None:
    link = invite(busy.team, "another@example.org", "viewer", by=busy.alice)[1]
    _, facts = sharing_links.make_link(_newest(busy), Wish(expires_at=in_a_week()), by=busy.alice)
    _, counted = sharing_links.make_link(_newest(busy), Wish(expires_at=in_a_week(), max_views=3), by=busy.alice)
    reader = Reader(browser, live_server.url, width=width, dark=dark)
    paths = ["/account/login/", "/account/signup/", "/account/password/reset/", link, f"/s/{facts}/", f"/s/{counted}/"]
    assert [wrong for path in paths for wrong in reader.look(path)] == []


def _newest(busy: World) -> Any:
    return Deployment.objects.get(name="kimi-prod").uploads.order_by("-created_at").first()


def test_the_share_sheet_shows_what_the_reader_will_see(browser: Browser, live_server: Any, busy: World) -> None:
    page = Reader(browser, live_server.url, busy.bob).page
    page.goto(f"/r/{_newest(busy).public_id}/share/")
    expect(page.get_by_text("the log's own words")).to_be_hidden()
    page.get_by_label("With the redacted log").check()
    expect(page.get_by_text("the log's own words")).to_be_visible()
    page.get_by_label("Facts only").check()
    page.get_by_role("button", name="Make link").click()
    address = page.locator("#made-link").inner_text()
    reader = Reader(browser, live_server.url)
    reader.page.goto(address)
    expect(reader.page.get_by_text("figures and findings, without the log")).to_be_visible()
    expect(reader.page.get_by_text("the log's own words")).to_have_count(0)
    assert reader.problems == []
    page.goto(page.url)
    page.get_by_role("button", name="Revoke").first.click()
    reader.page.goto(address)
    expect(reader.page.get_by_role("heading", name="This link does not work")).to_be_visible()


def test_a_reader_of_a_link_with_the_log_scrolls_and_searches_it(
    browser: Browser, live_server: Any, busy: World
) -> None:
    _, token = sharing_links.make_link(_newest(busy), Wish(what=What.LOG, expires_at=in_a_week()), by=busy.alice)
    reader = Reader(browser, live_server.url)
    reader.page.goto(f"/s/{token}/")
    reader.page.get_by_label("Search the log").fill("line 377")
    expect(reader.page.locator("[data-log-count]")).to_contain_text("1")
    assert reader.problems == []


def test_a_reader_of_facts_has_the_drawings_and_the_knobs(browser: Browser, live_server: Any, busy: World) -> None:
    link, token = sharing_links.make_link(_newest(busy), Wish(expires_at=in_a_week(), max_views=3), by=busy.alice)
    reader = Reader(browser, live_server.url)
    page = reader.page
    page.goto(f"/s/{token}/")
    page.get_by_role("button", name="Open").click()
    expect(page.locator("#plot-budget .main-svg").first).to_be_visible()
    page.get_by_role("button", name="Every rank").click()
    expect(page.locator("#plot-budget")).to_contain_text("TP7")
    page.get_by_role("button", name="%", exact=True).click()
    expect(page.locator("#twin-budget [data-unit-name]")).to_have_text("%")
    panel = page.locator("#whatif")
    panel.get_by_label("--kv-cache-dtype").select_option("fp8_e4m3")
    expect(panel.locator('[data-out="tokens"]')).to_contain_text("≈")
    expect(page).to_have_url(re.compile("wf.kv_cache_dtype=fp8_e4m3"))
    page.reload()
    expect(panel.get_by_label("--kv-cache-dtype")).to_have_value("fp8_e4m3")
    link.refresh_from_db()
    assert link.views == 1
    assert reader.problems == []
    sharing_links.revoke(link, by=busy.alice)
    panel.get_by_label("--kv-cache-dtype").select_option("auto")
    expect(panel.locator('[data-out="verdict-text"]')).to_contain_text("no longer here")


def test_a_view_is_counted_by_a_browser_and_not_by_a_scanner(browser: Browser, live_server: Any, busy: World) -> None:
    link, token = sharing_links.make_link(_newest(busy), Wish(expires_at=in_a_week()), by=busy.alice)
    Client().get(f"/s/{token}/")
    link.refresh_from_db()
    assert link.views == 0
    reader = Reader(browser, live_server.url)
    with reader.page.expect_response(re.compile("/seen$")) as seen:
        reader.page.goto(f"/s/{token}/")
    assert seen.value.status == 204
    link.refresh_from_db()
    assert link.views == 1


def test_findings_are_muted_by_keyboard_alone(browser: Browser, live_server: Any, busy: World) -> None:
    page = Reader(browser, live_server.url, busy.bob).page
    page.goto("/findings/")
    page.get_by_label("Select staging").focus()
    page.keyboard.press("Space")
    page.get_by_label("Reason").focus()
    page.keyboard.type("waiting for new cards")
    page.get_by_role("button", name="Mute").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text("1 finding changed.")).to_be_visible()
    page.goto("/findings/?state=muted")
    expect(page.get_by_text("waiting for new cards")).to_be_visible()


def test_the_apis_page_fills_its_examples_in_with_the_readers_token(
    browser: Browser, live_server: Any, busy: World
) -> None:
    reader = Reader(browser, live_server.url, busy.alice)
    reader.page.goto("/api/")
    example = reader.page.locator("#c-curl")
    expect(example).to_contain_text("Bearer kvd_…")
    reader.page.get_by_label("Your token").fill("kvd_mine-and-nobody-elses")
    expect(example).to_contain_text('"Authorization: Bearer kvd_mine-and-nobody-elses"')
    reader.page.get_by_label("Your token").fill("")
    expect(example).to_contain_text("Bearer kvd_…")
