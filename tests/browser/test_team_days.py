"""What a team does day by day, by clicks: people, deployments, alerts, the trash."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from ingest.models import Upload
from reports.models import Channel, SavedView
from teams.models import Deployment, Membership, Role
from tests.teams.conftest import world  # noqa: F401 - a fixture of the same name
from tests.teams.world import PASSWORD, World

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def page(browser: Browser, live_server: Any, world: World) -> Any:  # noqa: F811
    """The owner's browser."""
    context = browser.new_context(base_url=live_server.url)
    page = context.new_page()
    page.set_default_timeout(20_000)
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto("/signin/")
    page.get_by_label("E-mail").fill(world.alice.email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name=world.team.name)).to_be_visible()
    yield page
    context.close()


def names(page: Page) -> list[str]:
    """The deployments on the dashboard, in their order."""
    return page.locator("section[aria-label=Deployments] th .cell-link").all_inner_texts()


def test_somebody_is_invited_and_given_another_role(
    page: Page,
    browser: Browser,
    world: World,  # noqa: F811
) -> None:
    settings = f"/teams/{world.team.slug}/members/"
    page.goto(settings)
    page.get_by_label("E-mail").fill("nora@example.org")
    page.locator("form.form--row").get_by_label("Role").select_option("viewer")
    page.get_by_role("button", name="Make invitation").click()
    link = page.locator("#invitation-link").inner_text()

    guest = browser.new_context().new_page()
    guest.goto(link)
    guest.get_by_label("Your name").fill("Nora Blum")
    guest.get_by_label("Password").fill("a long enough phrase")
    guest.get_by_role("button", name="Make account and join").click()
    expect(guest.get_by_role("heading", name=world.team.name)).to_be_visible()
    assert guest.goto(link.replace("/join/", "/none/")).status == 404  # type: ignore[union-attr]
    guest.context.close()

    page.goto(settings)
    row = page.get_by_role("row").filter(has_text="Nora Blum")
    row.get_by_label("Role").select_option("editor")
    row.get_by_role("button", name="Change").click()
    expect(page.get_by_role("row").filter(has_text="Nora Blum").get_by_role("cell").first).to_have_text("Editor")
    assert Membership.objects.get(user__email="nora@example.org").role == Role.EDITOR
    page.goto(f"/teams/{world.team.slug}/trail/")
    expect(page.get_by_role("row").filter(has_text="nora@example.org").first).to_be_visible()


def test_deployments_are_filtered_kept_as_a_view_renamed_and_merged(
    page: Page,
    world: World,  # noqa: F811
) -> None:
    world.launch("kimi-prod", tokens=150_000)
    world.launch("kimi-prod", tokens=140_000)
    world.launch("kimi-test", tokens=90_000)
    world.launch("llama", tokens=500_000, outcome="failed", model="/models/Llama-3.3-70B")

    page.goto("/dashboard/")
    page.keyboard.press("/")
    expect(page.get_by_label("Search reports")).to_be_focused()
    page.get_by_label("Filter deployments").fill("kimi")
    page.get_by_label("Order").select_option("tokens")
    page.get_by_role("button", name="Apply").click()
    page.wait_for_url("**q=kimi**")
    assert names(page) == ["kimi-prod", "kimi-test"]
    page.get_by_text("Keep this view").click()
    page.get_by_label("Name", exact=True).fill("Our Kimi")
    page.get_by_role("button", name="Keep", exact=True).click()
    page.goto("/dashboard/")
    assert len(names(page)) == 3
    page.get_by_role("link", name="Our Kimi").click()
    assert names(page) == ["kimi-prod", "kimi-test"]
    assert SavedView.objects.get().name == "Our Kimi"

    page.get_by_role("link", name="kimi-prod").click()
    tokens = page.locator("svg.history").first.locator("circle")
    expect(tokens).to_have_count(2)
    page.get_by_text("Change", exact=True).first.click()
    page.get_by_label("Name", exact=True).fill("kimi-live")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("heading", name="kimi-live")).to_be_visible()

    test = Deployment.objects.get(name="kimi-test")
    page.goto(f"/deployments/{test.public_id}/")
    page.get_by_text("Change", exact=True).first.click()
    page.get_by_label("Merge into").select_option(label="kimi-live")
    page.get_by_role("button", name="Merge").click()
    expect(page.get_by_role("heading", name="kimi-live")).to_be_visible()
    expect(tokens).to_have_count(3)


def test_fewer_tokens_are_told_and_a_channel_is_added(page: Page, world: World) -> None:  # noqa: F811
    world.launch("kimi-prod", tokens=150_000)
    world.launch("kimi-prod", tokens=120_000)
    page.goto("/dashboard/")
    expect(page.get_by_role("row").filter(has_text="kimi-prod").first).to_contain_text("−20\u00a0%")
    page.get_by_role("link", name="kimi-prod", exact=True).first.click()
    expect(page.get_by_text("20 % fewer").or_(page.get_by_text("−20\u00a0%")).first).to_be_visible()

    page.get_by_role("link", name="Alerts").click()
    page.get_by_label("Kind").select_option("email")
    page.get_by_label("Address").fill("oncall@example.org")
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_text("oncall@example.org").first).to_be_visible()
    assert Channel.objects.get().address == "oncall@example.org"


def test_a_deleted_report_comes_back_from_the_trash(page: Page, world: World) -> None:  # noqa: F811
    stored = world.launch("kimi-prod")
    report = f"/r/{stored.upload.public_id}/"
    page.goto(report)
    page.get_by_text("More", exact=True).click()
    page.get_by_role("button", name="Delete").click()
    page.wait_for_url("**/dashboard/")
    assert page.goto(report).status == 404  # type: ignore[union-attr]

    page.goto(f"/teams/{world.team.slug}/trash/")
    page.get_by_role("button", name="Restore").click()
    assert page.goto(report).status == 200  # type: ignore[union-attr]
    assert Upload.objects.get().deleted_at is None
