"""From the first start to a shared report, on the running site; a key in the log must be nowhere afterwards."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.live import ROOT, LiveStack

pytestmark = [pytest.mark.browser, pytest.mark.slow]

LOG = ROOT / "tests" / "corpus" / "kimi-k25-8gpu" / "log.txt"
KEY = "sk-planted-9f8e7d6c5b4a392817065544"


def setup_link(stack: LiveStack) -> str:
    """The link that the start printed, a moment after it was ready."""
    ends = time.monotonic() + 90
    while time.monotonic() < ends:
        if found := re.search(r"the first account is made at (\S+)", stack.said()):
            return found[1]
        time.sleep(0.1)
    pytest.fail(f"no set-up link was printed:\n{stack.said()}")


def with_a_key(tmp_path: Path) -> Path:
    """The corpus log as it would be had its server been started with an API key."""
    text = LOG.read_text()
    assert "server_args=ServerArgs(" in text
    planted = text.replace("server_args=ServerArgs(", f"server_args=ServerArgs(api_key='{KEY}', ", 1)
    planted += f"Mar 02 09:30:00 host-a sglang[1834]: curl -H 'Authorization: Bearer {KEY}' http://localhost:30000/\n"
    path = tmp_path / "server.log"
    path.write_text(planted)
    return path


@pytest.fixture
def own_stack(tmp_path: Path) -> LiveStack:
    """A site of this test's own: nobody else may have made the first account."""
    stack = LiveStack.start(tmp_path / "data", KVDIAG_MIN_FREE_DISK_BYTES="1").wait_until_ready()
    yield stack  # type: ignore[misc]
    stack.stop()


def test_a_team_from_its_first_start_to_a_shared_report(own_stack: LiveStack, browser: Browser, tmp_path: Path) -> None:
    stack = own_stack
    page = browser.new_context(base_url=stack.url).new_page()
    page.goto(setup_link(stack))
    page.get_by_label("E-mail").fill("mara@example.org")
    page.get_by_label("Your name").fill("Mara Reuter")
    page.get_by_label("Password").fill("a long enough phrase")
    page.get_by_label("Your team’s name").fill("Inference EU")
    page.get_by_role("button", name="Make account and team").click()
    expect(page.get_by_role("heading", name="Inference EU")).to_be_visible()
    expect(page.get_by_role("heading", name="No deployment yet")).to_be_visible()

    page.goto("/teams/inference-eu/tokens/")
    page.get_by_label("Name", exact=True).fill("nightly")
    page.get_by_role("button", name="Make token").click()
    token = page.locator("#new-token").inner_text()
    environment = {**os.environ, "KVDIAG_URL": stack.url, "KVDIAG_TOKEN": token, "PYTHONPATH": str(ROOT)}
    push = [sys.executable, "-m", "kvdiag.diagnosis.push", "push", str(with_a_key(tmp_path)), "--deployment", "kimi"]
    done = subprocess.run(push, capture_output=True, text=True, env=environment, timeout=180)
    assert done.returncode in (0, 1), done.stderr
    address = done.stdout.splitlines()[0]

    page.goto("/dashboard/")
    expect(page.get_by_role("link", name="kimi", exact=True)).to_be_visible()
    page.goto(f"{address}share/")
    page.get_by_role("button", name="Make link").click()
    shared = page.locator("#made-link").inner_text()
    reader = browser.new_context().new_page()
    reader.goto(shared)
    expect(reader.get_by_text("figures and findings, without the log")).to_be_visible()
    assert reader.goto(address).status == 404, "the report itself is the team's alone"  # type: ignore[union-attr]

    texts = [page.request.get(f"{address}{part}").text() for part in ("", "log?from=1&to=2000", "log.txt")]
    texts += [page.request.get(f"{address.rstrip('/')}{end}").text() for end in (".json", ".md", ".html")]
    texts += [reader.request.get(shared).text(), page.request.get("/api/v1/openapi.json").text()]
    headers = {"Authorization": f"Bearer {token}"}
    texts.append(
        page.request.get(f"/api/v1/reports/{address.strip('/').rpartition('/')[2]}/document", headers=headers).text()
    )
    texts += [stack.said(), stack.logs()]
    assert [place for place, text in enumerate(texts) if KEY in text] == []
    assert files_with(stack.data, KEY) == []

    assert stack.stop() == 0
    assert files_with(stack.data, KEY) == [], "after the broker wrote its own file"
    assert files_with(stack.data, token) == [], "a token is kept as a hash"
    assert files_with(stack.data, shared.strip("/").rpartition("/")[2]) == [], "so is a link"


def files_with(folder: Path, text: str) -> list[Path]:
    """Files below a folder, database and broker among them, that hold the text."""
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]
