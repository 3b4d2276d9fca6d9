"""How quick the log viewer is over a long log: the page, a range in the middle, searches over all of it.

    python -m benchmarks.log_viewer --lines 1000000
    python -m benchmarks.log_viewer --lines 1000000 --browser      and as headless Chromium sees it, from a cold cache

Prints milliseconds of processor time of the server for each, and the ratio to the page. In the browser they are
milliseconds on the clock, the median of several visits, and the ratio to the first paint of the page.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

LINE = (
    "[2026-11-29 09:{:02d}:{:02d} TP{}] Decode batch, #running-req: {}, #token: {}, token usage: 0.{:02d},"
    " gen throughput (token/s): 61.3"
)


VISITS = 5
SEES_ROWS = """
const look = () => {
  const row = document.querySelector('.log__body li code')
  if (row && row.textContent) window.firstRow = performance.now()
  else requestAnimationFrame(look)
}
requestAnimationFrame(look)
"""
ACTION = """
([anchor, wanted]) => new Promise((done) => {
  const began = performance.now()
  const look = () => {
    const row = document.querySelector(wanted)
    if (row && row.textContent) done(performance.now() - began)
    else requestAnimationFrame(look)
  }
  if (anchor) location.hash = anchor
  else document.querySelector('[data-log-fold]').click()
  look()
})
"""


def write(path: Path, lines: int) -> None:
    """A serving log: batch lines of eight ranks, an error in the middle."""
    with path.open("w", encoding="utf-8") as file:
        for n in range(1, lines + 1):
            if n == lines // 2:
                file.write("RuntimeError: CUDA out of memory\n")
            else:
                file.write(LINE.format(n // 60 % 60, n % 60, n % 8, n % 48, n, n % 100) + "\n")


def main() -> None:
    """Write, store, ask."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--browser", action="store_true")
    options = parser.parse_args()
    lines = options.lines
    os.environ["KVDIAG_DATA"] = tempfile.mkdtemp(prefix="kvdiag-bench-")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kvdiag.settings")
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command
    from django.test import Client

    from ingest.arrival import folder_of
    from ingest.models import State, StoredReport, Upload
    from ingest.stored import columns_of
    from kvdiag.diagnosis.masked_copy import masked_copy
    from kvdiag.diagnosis.texts import Log
    from tests.documents import document

    call_command("migrate", verbosity=0)
    settings.ALLOWED_HOSTS = ["*"]
    settings.STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    made = document("kimi-k25-8gpu")
    made["upload"]["files"][0]["lines"] = lines
    upload = Upload.objects.create(state=State.READY, phase="ready")
    folder = folder_of(upload.public_id) / "masked"
    folder.mkdir(parents=True)
    source = Path(os.environ["KVDIAG_DATA"]) / "long.log"
    write(source, lines)
    with source.open("rb") as stream:
        [copy] = masked_copy(Log("long.log", stream), folder)
    upload.files = [{"name": "long.log", "path": str(copy.path.relative_to(folder.parent)), "lines": copy.lines}]
    upload.save()
    StoredReport.objects.create(upload=upload, engine=made["engine"], **columns_of(made))
    client, first = Client(), 0.0
    half = lines // 2
    for name, path in (
        ("page", ""),
        ("400 lines in the middle", f"log?from={half}&to={half + 399}"),
        ("text that is rare", "log/find?q=out+of+memory"),
        ("text in every line", "log/find?q=throughput"),
        ("a pattern", "log/find?q=/usage:+0\\.9[0-9]/"),
        ("one rank", "log/find?rank=TP3"),
        ("errors", "log/find?level=error"),
    ):
        client.get(f"/r/{upload.public_id}/{path}")
        start = time.process_time()
        answer = client.get(f"/r/{upload.public_id}/{path}")
        took = (time.process_time() - start) * 1000
        first = first or took
        size = len(answer.content) / 1000
        print(f"{name:<26} {answer.status_code} {took:>8.1f} ms {took / first:>7.2f} {size:>8.1f} kB")
    if options.browser:
        seen_in_browser(f"/r/{upload.public_id}/", Path(os.environ["KVDIAG_DATA"]), lines)


def seen_in_browser(path: str, data: Path, lines: int) -> None:
    """The same report from a server of its own: first paint, first row, unfolding, a jump to the last line."""
    from playwright.sync_api import sync_playwright

    from tests.conftest import CHROMIUM_ARGUMENTS, CHROMIUM_NAMES
    from tests.live import LiveStack

    chromium = next(found for name in CHROMIUM_NAMES if (found := shutil.which(name)))
    site = LiveStack.start(data)
    took: dict[str, list[float]] = {}
    try:
        site.wait_until_ready()
        with sync_playwright() as tools:
            browser = tools.chromium.launch(executable_path=chromium, args=CHROMIUM_ARGUMENTS)
            for _ in range(VISITS):
                page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
                for name, ms in visit(page, f"{site.url}{path}", lines).items():
                    took.setdefault(name, []).append(ms)
                page.context.close()
            browser.close()
    finally:
        site.stop()
    paint = statistics.median(took["first paint"])
    for name, every in took.items():
        ms = statistics.median(every)
        print(f"{name:<26}     {ms:>8.1f} ms {ms / paint:>7.2f}")


PAINT = "performance.getEntriesByName('first-contentful-paint')[0]"


def visit(page: Any, address: str, lines: int) -> dict[str, float]:
    """Milliseconds from the address to the first paint and to a row of the log on the screen; then of two actions."""
    page.add_init_script(SEES_ROWS)
    page.goto(f"{address}#log", wait_until="commit")
    page.wait_for_function(f"() => window.firstRow && {PAINT}")  # the paint may be noted after the row is there
    paint, row = page.evaluate(f"[{PAINT}.startTime, window.firstRow]")
    page.wait_for_load_state("load")

    def until(anchor: str, seen: str) -> float:
        return float(page.evaluate(ACTION, [anchor, f"{seen} code"]))

    return {
        "first paint": paint,
        "first row": row,
        "unfolding to all lines": until("", ".log__body--virtual li"),
        "a jump to the last line": until(f"L{lines}", f"#L{lines}"),
    }


if __name__ == "__main__":
    main()
