"""How quick the log viewer is over a long log: the page, a range in the middle, searches over all of it.

    python -m benchmarks.log_viewer --lines 1000000

Prints milliseconds of processor time of the server for each, and the ratio to the page.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

LINE = (
    "[2026-11-29 09:{:02d}:{:02d} TP{}] Decode batch, #running-req: {}, #token: {}, token usage: 0.{:02d},"
    " gen throughput (token/s): 61.3"
)


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
    lines = parser.parse_args().lines
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


if __name__ == "__main__":
    main()
