"""How long the server takes for a team's pages, with few and with many reports.

    python benchmarks/dashboard.py --reports 100000                                       SQLite, in a folder of its own
    python benchmarks/dashboard.py --reports 100000 --database postgresql://…/scratch      the database is emptied

Prints for each page the quietest of several requests through Django's own client, without a network: milliseconds on
the clock, those this process computed, and the ratio to the same page with a hundredth of the reports; and the number
of queries, which must not differ.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TIMES = 9
DEPLOYMENTS_PER_THOUSAND = 10


def main() -> None:
    """Fill, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reports", type=int, default=100_000)
    parser.add_argument("--database", default="")
    parser.add_argument("--json", action="store_true", help="the figures as one JSON document")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kvdiag-benchmark-") as folder:
        os.environ["KVDIAG_DATA"] = folder
        os.environ["KVDIAG_LOG_LEVEL"] = "ERROR"
        os.environ["DJANGO_SETTINGS_MODULE"] = "kvdiag.settings"
        if options.database:
            os.environ["DATABASE_URL"] = options.database
        sys.path.insert(0, str(ROOT))
        import django

        django.setup()
        figures = measure(options.reports)
    if options.json:
        print(json.dumps(figures))
        return
    print(f"{options.reports:,} reports, {figures['database']}, filled in {figures['filled_s']:.0f} s")
    for page, found in figures["pages"].items():
        (ms, computed, queries), (few, _, before) = found["ms"], found["with_few_ms"]
        print(
            f"{page:<32} {ms:7.1f} ms, {computed:6.1f} computed   × {ms / few:4.1f}   {queries} queries (were {before})"
        )


def measure(count: int) -> dict[str, Any]:
    """The figures with a hundredth of the reports, then with all of them."""
    from django.conf import settings
    from django.core.management import call_command
    from django.db import connection
    from django.test import Client

    settings.ALLOWED_HOSTS = ["testserver"]
    call_command("migrate", interactive=False, verbosity=0)
    call_command("flush", interactive=False, verbosity=0)
    call_command("collectstatic", interactive=False, verbosity=0)
    from teams.services import create_team, new_person

    owner = new_person(email="owner@example.org", password="benchmark of pages", name="Owner")
    team = create_team("Many reports", owner=owner)
    client = Client()
    client.force_login(owner, backend="django.contrib.auth.backends.ModelBackend")
    few = max(count // 100, 100)
    began = time.perf_counter()
    fill(team, owner, 0, few)
    small = {page: timed(client, path) for page, path in pages(team).items()}
    fill(team, owner, few, count)
    filled = time.perf_counter() - began
    large = {page: timed(client, path) for page, path in pages(team).items()}
    return {
        "database": connection.vendor,
        "filled_s": filled,
        "pages": {page: {"ms": large[page], "with_few_ms": small[page]} for page in large},
    }


def pages(team: Any) -> dict[str, str]:
    """Page and address; the deployment is the one with the most launches."""
    from teams.models import Deployment

    deployment = Deployment.objects.filter(team=team).order_by("pk").first()
    assert deployment is not None
    return {
        "dashboard": "/dashboard/",
        "dashboard, cannot start": "/dashboard/?state=failed",
        "dashboard, filtered by a word": "/dashboard/?q=kimi",
        "dashboard, most tokens": "/dashboard/?sort=tokens",
        "findings": "/findings/",
        "all reports": "/reports/",
        "search that finds many": "/reports/?q=kimi",
        "search that finds few": "/reports/?q=deployment-00001",
        "search that finds nothing": "/reports/?q=zzzz",
        "deployment": f"/deployments/{deployment.public_id}/",
    }


def timed(client: Any, path: str) -> tuple[float, float, int]:
    """Milliseconds of one request, and of them those this process computed; and its queries.

    The quietest of several: what else the machine does is not the page's.
    """
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    answer = client.get(path)
    assert answer.status_code == 200, (path, answer.status_code)
    times, computed = [], []
    for _ in range(TIMES):
        began, worked = time.perf_counter(), time.process_time()
        client.get(path)
        times.append(1000 * (time.perf_counter() - began))
        computed.append(1000 * (time.process_time() - worked))
    with CaptureQueriesContext(connection) as queries:
        client.get(path)
    return min(times), min(computed), len(queries)


def fill(team: Any, owner: Any, first: int, last: int) -> None:
    """Rows as the worker leaves them: uploads, reports with a document of some kilobytes, deployments, findings."""
    from django.db import connection
    from django.utils import timezone

    from ingest.models import State, StoredReport, Upload
    from reports.dashboard_search import entry_values
    from reports.models import Comparison, SearchEntry, TrackedFinding
    from teams.models import Deployment

    now = timezone.now()
    wanted = max(last * DEPLOYMENTS_PER_THOUSAND // 1000, 5)
    have = Deployment.objects.filter(team=team).count()
    models = ("/models/Kimi-K2.5-INT4", "/models/Llama-3.3-70B", "/models/DeepSeek-V3.2", "/models/Qwen3-Next-80B")
    made = [
        Deployment(
            team=team, key=f"deployment-{number:05d}", name=f"deployment-{number:05d}", owner=owner,
            model=models[number % 4], hardware="8 × H200", launch_count=100, open_findings=number % 3,
            last_outcome="failed" if number % 9 == 0 else "ready", last_kv_tokens=100_000 + number,
            last_free_gib=5.0, last_change="fraction 0.85 to 0.88", last_upload_at=now - timedelta(minutes=number),
            last_severity=("", "advice", "warning")[number % 3], history=[[100_000, "ready"]] * 24,
        )
        for number in range(have, wanted)
    ]  # fmt: skip
    Deployment.objects.bulk_create(made)
    findings = [
        TrackedFinding(
            deployment=each, rule=f"rule-{place % 40}", severity=("advice", "warning", "critical")[place % 3],
            summary="A finding of a benchmark", first_seen=now, last_seen=now,
        )
        for place, each in enumerate(made)
    ]  # fmt: skip
    TrackedFinding.objects.bulk_create(findings, batch_size=1000)
    deployments = list(Deployment.objects.filter(team=team).order_by("pk"))
    document = json.loads((ROOT / "tests" / "documents" / "kimi-k25-8gpu.json").read_text())
    document["launches"][0]["ranks"] = document["launches"][0]["ranks"][:2]
    for start in range(first, last, 2000):
        numbers = range(start, min(start + 2000, last))
        uploads = Upload.objects.bulk_create(
            Upload(
                team=team, uploader=owner, name=f"server-{number}.log", state=State.READY,
                files=[{"name": "server.log"}],
                deployment=deployments[number % len(deployments)], created_at=now - timedelta(minutes=number),
            )
            for number in numbers
        )  # fmt: skip
        reports = StoredReport.objects.bulk_create(
            StoredReport(
                upload=upload, engine="0.1.0", schema="kvdiag.report/1", document=document, launch_count=1,
                outcome="failed" if number % 9 == 0 else "ready", verdict="Ready, nothing to fix.",
                model=models[number % 4], release="0.5.9", kv_tokens=100_000 + number % 500, free_gib=5.0,
                weights_gib=72.3, ready_after_s=300.0, worst_severity=("", "advice", "warning")[number % 3],
                created_at=upload.created_at,
            )
            for number, upload in zip(numbers, uploads, strict=True)
        )  # fmt: skip
        SearchEntry.objects.bulk_create(SearchEntry(upload=each.upload, **entry_values(each)) for each in reports)
        Comparison.objects.bulk_create(Comparison(report=report, change="nothing changed") for report in reports)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


if __name__ == "__main__":
    main()
