"""The progress page while a slow worker reads: what it knows so far, and how far it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from ingest import lease, services
from ingest.isolation import End
from ingest.models import Phase, State, Upload
from ingest.words import Progress
from tests.ingest.test_engine_process import LOG, Run
from tests.ingest.test_first_facts import LONG, SLOW

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.django_db(transaction=True)]


class Worker:
    """Tells the row, one by one, what a slowed engine really said of a log."""

    def __init__(self, messages: list[dict[str, Any]]) -> None:
        received = {"phase": str(Phase.RECEIVED), "at": 0.0, "until": 0.4, "words": "0.6 MiB"}
        files = [{"name": "server.log", "bytes": len(LONG)}]
        self.upload = Upload.objects.create(state=State.QUEUED, files=files, phases=[received])
        self.left = list(messages)
        turn = lease.claim(self.upload.pk)
        assert turn is not None
        self.turn, self.progress = turn, Progress(turn)

    def until(self, is_there: Callable[[dict[str, Any]], bool]) -> None:
        """Goes on up to the first message of a kind."""
        while self.left:
            message = self.left.pop(0)
            self.progress.take(message)
            if is_there(message):
                break
        assert self.turn.beat()


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What a slowed engine said of the long log."""
    run = Run(tmp_path_factory.mktemp("slow") / "upload", LONG, command=SLOW)
    assert run.ended.end is End.REPORT, run.ended.trace
    return run.messages


@pytest.fixture
def worker(messages: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> Worker:
    monkeypatch.setattr(lease, "FLUSH_S", 0.0)
    return Worker(messages)


def facts(message: dict[str, Any]) -> set[str]:
    return {each["fact"] for each in message.get("known", ())}


def test_what_is_known_stands_there_while_the_rest_is_read(page: Page, live_server: Any, worker: Worker) -> None:
    page.goto(f"{live_server.url}/r/{worker.upload.public_id}/")
    known = page.locator("#known")
    expect(known.locator(".skel")).to_have_count(8)
    worker.until(lambda message: 0 < message.get("read", 0) < message.get("of", 0) and message["bytes"])
    unpacking = page.locator("[data-phase=unpacked]")
    expect(unpacking).to_contain_text("% of")
    expect(unpacking.locator(".meter")).to_be_visible()
    worker.until(lambda message: "model" in facts(message))
    expect(known.locator("[data-fact=model] td")).to_have_text("Kimi-K2.5-INT4")
    expect(known.locator(".skel").first).to_be_visible()
    worker.until(lambda message: "free_gib" in facts(message))
    expect(known.locator("[data-fact=gpus] td")).to_contain_text("8 × ")
    expect(known.locator("[data-fact=weights_gib] td")).to_have_text("72.33 GiB")
    expect(known.locator("[data-fact=kv_gib] td")).to_have_text("10.42 GiB")
    expect(known.locator("[data-fact=kv_tokens] td")).to_have_text("159,277")
    expect(known.locator("[data-fact=outcome] td")).to_have_text("ready")
    assert Axe().run(page).response["violations"] == []


def test_reading_tells_its_share(page: Page, live_server: Any, worker: Worker) -> None:
    page.goto(f"{live_server.url}/r/{worker.upload.public_id}/")
    worker.until(lambda message: message.get("phase") == "reading" and message.get("lines", 0) > 1000)
    reading = page.locator("[data-phase=parsed]")
    expect(reading).to_contain_text("%")
    expect(reading.locator(".meter")).to_be_visible()
    expect(page.locator("#state-words")).to_have_text("Reading")
    page.reload()
    expect(reading).to_contain_text("%")
    expect(page.locator("#known [data-fact=kv_tokens] td")).to_have_text("159,277")


def test_what_is_known_needs_no_script(browser: Any, live_server: Any, worker: Worker) -> None:
    worker.until(lambda message: "kv_tokens" in facts(message))
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{live_server.url}/r/{worker.upload.public_id}/")
    expect(page.locator("#known")).to_contain_text("159,277")
    context.close()


def test_nothing_moves_where_motion_is_not_wanted(page: Page, live_server: Any, worker: Worker) -> None:
    address = f"{live_server.url}/r/{worker.upload.public_id}/"
    running = "document.getAnimations().filter(each => each.playState === 'running').length"
    page.goto(address)
    assert page.evaluate(running) > 0
    page.emulate_media(reduced_motion="reduce")
    page.goto(address)
    assert page.evaluate(running) == 0


def test_cancelled_and_read_after_all(page: Page, live_server: Any) -> None:
    page.goto(live_server.url)
    page.get_by_label("Log text").fill(LOG.decode())
    page.get_by_role("button", name="Diagnose the text").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("heading", name="Cancelled")).to_be_visible()
    page.get_by_role("button", name="Read it after all").click()
    expect(page.locator("#state-words")).to_have_text("Waiting")
    services.diagnose_upload(Upload.objects.latest("pk").pk)
    expect(page.locator(".verdict__line")).to_be_visible()
