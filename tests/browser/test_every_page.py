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
from playwright.sync_api import Browser

from kvdiag import urls
from tests.browser.screens import Site, broken, reader, reports_of, rest_of, settle, team_of

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
        wrong = [
            problem
            for name, (address, user, act) in (pages if os.environ.get("KVDIAG_EVERY_PAGE") else pages[half::2])
            for problem in problems(browser, live_server.url, name, address, user, act, width, scheme)
        ]
    finally:
        urls.urlpatterns.pop(0)
    assert wrong == []


def problems(
    browser: Browser, site: str, name: str, address: str, user: Any, act: Any, width: int, scheme: str
) -> list[str]:
    """What is wrong with one page."""
    found: list[str] = []
    with reader(browser, site, user, width, scheme) as page:
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
    if name.startswith(STATUSES):
        found = [problem for problem in found if "the server responded with a status of" not in problem]
    return [f"{name}, {width}, {scheme}: {problem}" for problem in found]
