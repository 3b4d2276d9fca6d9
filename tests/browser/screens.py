"""Takes a picture of every page of the site, in each of its states, to look at.

    python -m tests.browser.screens FOLDER                        every page at three widths, light and dark
    python -m tests.browser.screens FOLDER report compare         pages whose name begins with one of these words
    python -m tests.browser.screens FOLDER --width 1440 --scheme light
    python -m tests.browser.screens --picture docs/images/report.png    the one that the README shows

FOLDER must lie outside the repository. Every run makes a site of its own, with logs of the corpus that are really read,
a team and its history. A picture is called <page>.<width>.<scheme>.png. With ImageMagick, many are seen at once:

    montage FOLDER/*.1440.light.png -resize 480x -crop 480x720+0+0 -tile 5x -geometry +6+6 sheet.png
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
CORPUS = ROOT / "tests" / "corpus"
WIDTHS = (360, 820, 1440)
SCHEMES = ("light", "dark")
LIVE_PARTS = "document.querySelectorAll('.plot[data-figure]')"

# Reports: what a page is called, and the log it is made of.
LOGS = {
    "report-advice": ROOT / "ingest" / "samples" / "kimi-k25-8gpu.log",
    "report-refused": ROOT / "ingest" / "samples" / "kimi-k25-8gpu-refused.log",
    "report-oom": CORPUS / "deepseek-v4-pro-h200-graph-oom-wrapped" / "log.txt",
    "report-healthy": CORPUS / "kimi-k25-8gpu" / "log.txt",
    "report-serving": CORPUS / "qwen25-3b-80gb-nohup-serving" / "log.txt",
    "report-uneven": CORPUS / "hybrid-moe-fork-5090-3080-uneven-tp3" / "log.txt",
    "report-launches": CORPUS / "gptoss-20b-dummy-bench-shell-two-launches" / "log.txt",
    "report-incomplete": CORPUS / "laguna-s21-nvfp4-gb10-cut-after-pool" / "log.txt",
    "report-one-line": CORPUS / "t4-cuda-oom-single-line" / "log.txt",
}


def set_up() -> None:
    """Django on an empty database in a temporary folder, with an address that fails."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    import django

    django.setup()
    from django.core.management import call_command
    from django.urls import path

    from kvdiag import urls

    call_command("migrate", verbosity=0)
    urls.urlpatterns.insert(0, path("broken/", broken))


def broken(request: Any) -> None:
    """A page that fails."""
    raise RuntimeError("asked for")


class Site:
    """The pages to look at: each name with its address, who looks, and what is done first."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[str, Any, Callable[[Any], None] | None]] = {}
        self.reports: dict[str, str] = {}

    def add(self, name: str, address: str, user: Any = None, act: Callable[[Any], None] | None = None) -> None:
        self.pages[name] = (address, user, act)


def read(log: Path | bytes, **fields: str) -> Any:
    """An upload of this log, read by the engine; the sender is a stranger."""
    from django.core.files.uploadedfile import SimpleUploadedFile
    from django.test import Client

    from ingest.models import Upload
    from ingest.services import diagnose_upload

    name, data = (log.parent.name, log.read_bytes()) if isinstance(log, Path) else ("paste", log)
    if isinstance(log, Path) and log.parent.name == "samples":
        name = log.stem
    browser = Client(headers={"Accept": "text/html"})  # anybody else would be kept waiting for the verdict
    browser.post("/", {"files": SimpleUploadedFile(f"{name}.log", data), **fields})
    upload = Upload.objects.latest("pk")
    diagnose_upload(upload.pk)
    upload.refresh_from_db()
    return upload


def reports_of(site: Site) -> None:
    """The report in all its states, its log viewer and what-if panel, and what is no report."""
    from ingest.models import State, StoredReport, Upload
    from ingest.stored import columns_of
    from tests.documents import with_ranks

    for name, log in LOGS.items():
        upload = read(log)
        site.reports[name] = upload.public_id
        site.add(name, f"/r/{upload.public_id}/")
    for count, odd in ((64, 13), (512, 13)):
        made = with_ranks(count, odd=odd)
        upload = Upload.objects.create(state=State.READY, phase="ready")
        StoredReport.objects.create(upload=upload, engine=made["engine"], **columns_of(made))
        site.add(f"report-{count}-ranks", f"/r/{upload.public_id}/")
    advice = f"/r/{site.reports['report-advice']}/"
    site.add("report-every-rank", advice, act=lambda page: press(page, "Every rank"))
    site.add("report-tokens", advice, act=lambda page: press(page, "tokens"))
    site.add("report-line", advice + "#L170-L172")
    site.add("report-log-unfolded", advice + "#log", act=lambda page: press(page, "Folded"))
    site.add("report-what-if", advice + "?wf.mem_fraction_static=0.92&wf.kv_cache_dtype=fp8_e4m3#whatif")
    site.add("report-what-if-card", advice + "?wf.card=H200#whatif")
    site.add("report-what-if-impossible", advice + "?wf.mem_fraction_static=0.72#whatif")
    site.add("report-keys", advice, act=lambda page: page.keyboard.press("?"))
    site.add("progress-not-a-log", f"/r/{read(b'top - 12:00:01 up 3 days, load average: 0.1' * 40).public_id}/")
    running(site)
    ids = [site.reports[name] for name in ("report-advice", "report-refused", "report-oom")]
    site.add("compare", "/compare/?" + "&".join(f"r={each}" for each in ids[:2]))
    site.add("compare-3", "/compare/?" + "&".join(f"r={each}" for each in ids))
    site.add("compare-empty", "/compare/")


def running(site: Site) -> None:
    """Progress pages: on the way, waiting, cancelled."""
    from time import time

    from django.utils import timezone

    from ingest.models import State, Upload

    now = time()
    phases = [
        {"phase": "received", "at": now - 14, "until": now - 12.6, "words": "61.4 MiB"},
        {"phase": "unpacked", "at": now - 12, "words": "zstd, 447 MiB, 3,900,000 lines"},
        {"phase": "cleaned", "at": now - 7, "words": "12 values hidden"},
        {"phase": "parsed", "at": now - 6, "words": "2,412,000 of 3,900,000 lines", "share": 0.618},
    ]
    known = [
        {"fact": "release", "value": "0.5.9", "line": None},
        {"fact": "model", "value": "Kimi-K2.5-INT4", "line": 1},
        {"fact": "gpus", "value": "8 × RTX PRO 6000", "line": None},
        {"fact": "weights_gib", "value": 72.33, "line": 43},
        {"fact": "kv_gib", "value": 10.42, "line": 52},
        {"fact": "kv_tokens", "value": 159277, "line": 52},
    ]
    more = {"name": "decode-07.log.zst", "bytes_received": 64382566}
    row = Upload.objects.create(state=State.RUNNING, phase="parsed", phases=phases, known=known, **more)
    site.add("progress-running", f"/r/{row.public_id}/")
    Upload.objects.create(state=State.QUEUED, phases=phases[:1])
    row = Upload.objects.create(state=State.QUEUED, phases=phases[:1], **more)
    site.add("progress-waiting", f"/r/{row.public_id}/")
    row = Upload.objects.create(state=State.CANCELLED, phases=phases[:3], finished_at=timezone.now(), **more)
    site.add("progress-cancelled", f"/r/{row.public_id}/")


def team_of(site: Site) -> None:
    """The team's pages, the sheet and the links it makes."""
    from ingest.models import Upload
    from reports import opinions, sharing_links
    from reports.sharing_links import What, Who, Wish
    from teams.models import Deployment, Scope
    from teams.services import create_token, invite
    from tests.teams.world import make_world

    world = make_world()
    log = "".join(f"[2026-11-29 09:14:{line % 60:02d} TP0] line {line} avail mem=7.43 GB\n" for line in range(1, 403))
    for tokens, release in ((151_200, "0.5.6"), (158_000, "0.5.7"), (157_900, "0.5.7"), (159_277, "0.5.9")):
        world.launch(log=log, tokens=tokens, release=release)
    world.launch("staging", tokens=None, outcome="failed", findings=[("weights-exceed-budget", "critical")])
    world.launch("qwen-batch", tokens=402_000, free=4.9, findings=[], model="/models/Qwen3-235B-A22B-FP8")
    world.launch("llama-eval", tokens=88_400, findings=[("thin-slack-after-capture", "warning")])
    create_token(user=world.alice, team=world.team, name="nightly", scopes=[Scope.UPLOAD], expires_at=None)
    invite(world.team, "new@example.org", "viewer", by=world.alice)
    newest = Deployment.objects.get(name="kimi-prod").uploads.order_by("-created_at").first()
    assert newest is not None
    alice = world.alice
    opinions.say(newest.report, 1, "finding-fp8-kv-capacity", "helpful", by=world.bob)
    opinions.say(
        newest.report, 1, "finding-fp8-kv-capacity", "wrong", "The draft model lies on another card.", by=alice
    )
    for name, address in (
        ("dashboard", "/dashboard/"),
        ("reports-list", "/reports/"),
        ("findings", "/findings/"),
        ("deployment", f"/deployments/{newest.deployment.public_id}/"),
        ("compare-choices", f"/compare/?r={newest.public_id}"),
        ("badge", f"/deployments/{newest.deployment.public_id}/badge/"),
        ("team-report", f"/r/{newest.public_id}/"),
        ("share-sheet", f"/r/{newest.public_id}/share/"),
        ("redact", f"/r/{newest.public_id}/hide/"),
        ("account", "/account/"),
        ("team-new", "/teams/new/"),
        ("upload-member", "/"),
        *((f"team-{page or 'general'}", f"/teams/{world.team.slug}/{page and page + '/'}") for page in TEAM_PAGES),
    ):
        site.add(name, address, alice)
    address = f"/r/{newest.public_id}/#finding-fp8-kv-capacity"
    site.add("team-report-reason", address, alice, act=lambda page: page.get_by_text("Your reason").click())
    site.add("dashboard-empty", "/dashboard/", world.charlie)
    site.add("error-403", f"/teams/{world.team.slug}/trail/", world.vera)
    report = Upload.objects.get(public_id=site.reports["report-advice"])
    ends = report.created_at + timedelta(days=6)

    def link(what: str = What.FACTS, **more: Any) -> str:
        return f"/s/{sharing_links.make_link(report, Wish(what=what, expires_at=ends, **more), by=alice)[1]}/"

    site.add("shared-facts", link())
    site.add("shared-log", link(What.LOG))
    site.add("shared-password", link(who=Who.PASSWORD, password="correct horse"))
    site.add("shared-counted", link(max_views=3))
    site.add("error-429", link(who=Who.PASSWORD, password="correct horse"), act=guess)
    site.add("error-link-ended", "/s/none/")
    site.add("invitation", invite(world.team, "another@example.org", "viewer", by=alice)[1])


TEAM_PAGES = ("", "members", "tokens", "notifications", "links", "trash", "opinions", "trail")


def rest_of(site: Site) -> None:
    """Pages that need nothing."""
    text = (ROOT / "ingest" / "samples" / "kimi-k25-8gpu.log").read_text("utf-8")[:6000]
    for name, address in (
        ("upload", "/"),
        ("rules", "/rules/"),
        ("rule", "/rules/weights-exceed-static-budget/"),
        ("api", "/api/"),
        ("limits", "/limits/"),
        ("design", "/design/"),
        ("sign-in", "/account/login/"),
        ("sign-up", "/account/signup/"),
        ("password-reset", "/account/password/reset/"),
        ("error-404", "/r/nothing-here/"),
        ("error-500", "/broken/"),
    ):
        site.add(name, address)
    secret = text + "\nHF_TOKEN=hf_abcdefghijklmnopqrstuvwxyzABCDEFGH api_key='sk-live-0123456789abcdef'\n"
    site.add("upload-pasted", "/", act=lambda page: page.get_by_label("Log text").fill(secret))
    site.add("upload-files", "/", act=choose)
    site.add("upload-refused", "/", act=refuse)


# --- What is done on a page before its picture ------------------------------------------------------------------------


def press(page: Any, name: str) -> None:
    button = page.get_by_role("button", name=name, exact=True)
    if button.count():
        button.first.click()


def choose(page: Any) -> None:
    files = [{"name": f"rank{n}.log", "mimeType": "text/plain", "buffer": b"avail mem=7.43 GB\n" * 900} for n in (0, 1)]
    page.locator("#pick").set_input_files(files)
    page.locator(".options-fold summary").click()


def refuse(page: Any) -> None:
    page.get_by_label("Log text").fill(" ")
    page.evaluate("document.getElementById('upload').submit()")
    page.wait_for_load_state()


def guess(page: Any) -> None:
    for _ in range(11):
        page.locator("input[type=password]").fill("wrong")
        page.locator("main form button").first.click()
        page.wait_for_load_state()


# --- Taking them ------------------------------------------------------------------------------------------------------


@contextmanager
def readers(browser: Any, site: str, width: int, scheme: str) -> Iterator[Callable[[Any], Any]]:
    """Opens a page for a person, signed in; one person's pages share what the browser has loaded already."""
    from django.conf import settings
    from django.test import Client

    contexts: dict[Any, Any] = {}
    view = {"width": width, "height": 800 if width < 500 else 1000}

    def page_for(user: Any) -> Any:
        if user not in contexts:
            contexts[user] = browser.new_context(
                viewport=view, color_scheme=scheme, base_url=site, reduced_motion="reduce"
            )
            if user is not None:
                client = Client()
                client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
                name = settings.SESSION_COOKIE_NAME
                contexts[user].add_cookies([{"name": name, "value": client.cookies[name].value, "url": site}])
        page = contexts[user].new_page()
        # What a page before this one had chosen to see is not this one's.
        page.add_init_script(
            "if (!sessionStorage.length) { localStorage.clear(); sessionStorage.setItem('begun', 1); }"
        )
        return page

    yield page_for
    for context in contexts.values():
        context.close()


def settle(page: Any, address: str, act: Callable[[Any], None] | None) -> None:
    """Opens a page, waits for its drawings, does what is to be done."""
    page.goto(address, wait_until="load")
    page.wait_for_timeout(150)
    if page.evaluate(f"{LIVE_PARTS}.length"):
        page.evaluate(f"window.kvCharts && {LIVE_PARTS}.forEach(kvCharts.ensure)")  # also far below
        page.wait_for_function(
            f"!window.Plotly || Array.from({LIVE_PARTS}).every(e => e.querySelector('.main-svg'))", timeout=20_000
        )
    if act:
        act(page)
        page.wait_for_timeout(400)
    page.wait_for_timeout(200)


def take(page: Any, address: str, act: Callable[[Any], None] | None, file: Path) -> None:
    """The whole of a page as a picture."""
    settle(page, address, act)
    page.screenshot(path=file, full_page=True)


def picture(browser: Any, address: str, file: Path) -> None:
    """The head of the report on the sample, in light colours and sharp on every screen."""
    context = browser.new_context(viewport={"width": 1280, "height": 1180}, device_scale_factor=1.5)
    page = context.new_page()
    settle(page, address, None)
    page.screenshot(path=file)
    context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--width", type=int, action="append")
    parser.add_argument("--scheme", choices=SCHEMES, action="append")
    asked = parser.parse_args()
    if (asked.folder is None) == (asked.picture is None):
        parser.error("give a folder, or --picture and its file")
    folder: Path = asked.folder.resolve() if asked.folder else Path()
    if asked.folder and folder.is_relative_to(ROOT):
        parser.error("FOLDER lies in the repository: take another")
    folder.mkdir(parents=True, exist_ok=True)
    set_up()
    from playwright.sync_api import sync_playwright
    from pytest_django.live_server_helper import LiveServer

    from tests.conftest import CHROMIUM_ARGUMENTS, CHROMIUM_NAMES

    site = Site()
    if asked.picture:
        site.add("picture", f"/r/{read(LOGS['report-advice']).public_id}/")
    else:
        reports_of(site)
        team_of(site)
        rest_of(site)
    server = LiveServer("127.0.0.1")
    chromium = next(found for name in CHROMIUM_NAMES if (found := shutil.which(name)))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_ARGUMENTS)
        if asked.picture:
            picture(browser, server.url + site.pages["picture"][0], asked.picture)
            site.pages.clear()
        names = [name for name in site.pages if not asked.names or name.startswith(tuple(asked.names))]
        for width, scheme in product(asked.width or WIDTHS, asked.scheme or SCHEMES):
            with readers(browser, server.url, width, scheme) as page_for:
                for name in names:
                    address, user, act = site.pages[name]
                    page = page_for(user)
                    take(page, address, act, folder / f"{name}.{width}.{scheme}.png")
                    page.close()
            print(width, scheme, flush=True)
        browser.close()
    server.stop()


if __name__ == "__main__":
    main()
