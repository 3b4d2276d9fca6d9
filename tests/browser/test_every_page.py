"""Every page of the site in every state: no barrier, no error, no request to elsewhere, none wider than the screen.

One half of the pages is looked at wide and light, the other narrow and dark; with KVDIAG_EVERY_PAGE=1 all of them are
looked at both ways, which takes twice as long.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.urls import path
from playwright.sync_api import Browser, Page

from kvdiag import urls
from tests.browser.screens import Site, broken, readers, reports_of, rest_of, settle, team_of

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

# A page that answers with a status of its own says so on the console.
STATUSES = ("error-", "upload-refused")


@pytest.mark.parametrize(("half", "width", "scheme"), [(0, 1440, "light"), (1, 360, "dark")])
def test_every_page_is_sound(
    browser: Browser, live_server: Any, settings: Any, tmp_path: Path, half: int, width: int, scheme: str
) -> None:
    settings.KVDIAG_UPLOADS = tmp_path / "uploads"
    settings.KVDIAG_UPLOADS.mkdir()
    urls.urlpatterns.insert(0, path("broken/", broken))
    try:
        site = Site()
        reports_of(site)
        team_of(site)
        rest_of(site)
        pages = list(site.pages.items())
        wrong = []
        with readers(browser, live_server.url, width, scheme) as page_for:
            for name, (address, user, act) in pages if os.environ.get("KVDIAG_EVERY_PAGE") else pages[half::2]:
                page = page_for(user)
                found = problems(page, live_server.url, address, act, may_fail=name.startswith(STATUSES))
                wrong += [f"{name}, {width}, {scheme}: {problem}" for problem in found]
                page.close()
    finally:
        urls.urlpatterns.pop(0)
    assert wrong == []


def problems(page: Page, site: str, address: str, act: Any, *, may_fail: bool) -> list[str]:
    """What is wrong with one page.

    may_fail  where a status of its own, which the browser says on the console, is what was asked for
    """
    found: list[str] = []
    page.on("console", lambda said: found.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on(
        "request",
        lambda request: None if request.url.startswith((site, "data:", "blob:")) else found.append(request.url),
    )
    settle(page, address, act)
    if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
        found.append("wider than the window")
    for part in page.locator("main details:not(.menu)").all():
        part.evaluate("part => { part.open = true; }")
    for each in Axe().run(page).response["violations"]:
        found.append(f"{each['id']}: {[node['html'][:160] for node in each['nodes'][:2]]}")
    if may_fail:
        found = [problem for problem in found if "the server responded with a status of" not in problem]
    return found
