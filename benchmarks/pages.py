"""How long the report page takes the server, and how much it weighs: 8, 64 and 512 ranks.

    python -m benchmarks.pages

Prints milliseconds of processor time on this machine and the ratio to the page of eight ranks, which says more than
they do. The weight is that of the page, its styles and its scripts without Plotly, as they are and compressed.
"""

from __future__ import annotations

import gzip
import os
import re
import statistics
import tempfile
import time

REPEATS = 15


def measure(address: str, client: object) -> tuple[float, bytes]:
    """Median milliseconds of processor time for a page, and its bytes."""
    took = []
    body = b""
    for _ in range(REPEATS):
        start = time.process_time()
        body = client.get(address).content  # type: ignore[attr-defined]
        took.append((time.process_time() - start) * 1000)
    return statistics.median(took), body


def main() -> None:
    """One table for the pages, one line for the weight."""
    os.environ["KVDIAG_DATA"] = tempfile.mkdtemp(prefix="kvdiag-bench-")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kvdiag.settings")
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command
    from django.test import Client

    from ingest.models import State, StoredReport, Upload
    from ingest.stored import columns_of
    from tests.documents import document, with_ranks

    call_command("migrate", verbosity=0)
    settings.ALLOWED_HOSTS = ["*"]
    settings.STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    client = Client()
    first: float | None = None
    print(f"{'ranks':>6} {'ms':>8} {'ratio':>6} {'kB':>7} {'gzip':>6}")
    for ranks, made in ((8, document("kimi-k25-8gpu")), (64, with_ranks(64, odd=13)), (512, with_ranks(512, odd=13))):
        upload = Upload.objects.create(state=State.READY, phase="ready")
        StoredReport.objects.create(upload=upload, engine=made["engine"], **columns_of(made))
        took, body = measure(f"/r/{upload.public_id}/", client)
        first = first or took
        packed = len(gzip.compress(body)) / 1000
        print(f"{ranks:>6} {took:>8.1f} {took / first:>6.2f} {len(body) / 1000:>7.1f} {packed:>6.1f}")
    named = set(re.findall(rb"/static/([\w/.-]+\.(?:css|js))", body)) - {b"plotly/plotly.min.js"}
    used = [settings.BASE_DIR / "static" / name.decode() for name in sorted(named)]
    used += sorted((settings.BASE_DIR / "static" / "js" / "log").glob("*.js"))  # what the viewer's main.js imports
    plain = sum(path.stat().st_size for path in used) / 1000
    packed = sum(len(gzip.compress(path.read_bytes())) for path in used) / 1000
    print(f"{len(used)} styles and scripts without Plotly: {plain:.1f} kB, compressed {packed:.1f} kB")


if __name__ == "__main__":
    main()
