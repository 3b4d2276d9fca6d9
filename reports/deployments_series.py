"""Launches in series: which deployment a report joins, and what its newest launch says on the dashboard."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from ingest.models import StoredReport, Upload
from reports.deployments_changes import launch_of
from reports.document import dig
from teams.deployments import Fingerprint, fitting_deployment, named_deployment
from teams.models import Deployment

# What follows the name by which people know a card: "RTX PRO 6000 Blackwell Server Edition", "H100 80GB HBM3".
_MARKETING = re.compile(
    r"\s+(?:Blackwell|Ada Generation|Server Edition|Workstation Edition|Max-Q|\d+\s?GB|SXM|PCIe|HBM)\b"
)
SPARK_LENGTH = 24  # launches that the dashboard's line shows


def fingerprint_of(launch: dict[str, Any]) -> Fingerprint | None:
    """What a launch starts on what; None when the log names no model."""
    model = dig(launch, "model", "path") or dig(launch, "model", "architecture")
    if not model:
        return None
    layout = {**(dig(launch, "parallel") or {}), "quantization": dig(launch, "model", "quantization")}
    return Fingerprint(model=str(model), hardware=hardware_of(launch), layout=tuple(sorted(layout.items())))


def hardware_of(launch: dict[str, Any]) -> str:
    """ "8 × RTX PRO 6000", or "8 GPUs" where the log names none; "" when it does not even count them."""
    count = dig(launch, "gpu", "count") or len(dig(launch, "ranks") or []) or None
    name = _MARKETING.split(str(dig(launch, "gpu", "name") or "").removeprefix("NVIDIA "))[0].strip()
    if not count:
        return name
    return f"{count} × {name}" if name else f"{count} GPU{'s' if count > 1 else ''}"


def join(report: StoredReport) -> Deployment | None:
    """Put a report's upload into its deployment; None for reports of nobody, or of a fragment that names no model."""
    upload = report.upload
    if upload.team is None:
        return None
    if upload.deployment is None:
        launch = launch_of(report.document)
        if upload.deployment_key:
            upload.deployment = named_deployment(upload.team, upload.deployment_key, owner=upload.uploader)
        elif launch and (fingerprint := fingerprint_of(launch)):
            upload.deployment = fitting_deployment(upload.team, fingerprint, owner=upload.uploader)
        if upload.deployment is not None:
            Upload.objects.filter(pk=upload.pk).update(deployment=upload.deployment)
    return upload.deployment


@dataclass(frozen=True, slots=True)
class Series:
    """The launches of one deployment, newest first, one for each upload: its newest report."""

    reports: tuple[StoredReport, ...]

    def before(self, report: StoredReport) -> StoredReport | None:
        """The launch before this one."""
        return next(self._earlier(report), None)

    def ready_before(self, report: StoredReport) -> StoredReport | None:
        """The newest launch before this one that became ready: what a failed start is not compared with."""
        return next((each for each in self._earlier(report) if each.outcome == "ready"), None)

    def _earlier(self, report: StoredReport) -> Iterator[StoredReport]:
        return (each for each in self.reports if _order(each) < _order(report))


def _order(report: StoredReport) -> tuple[Any, int]:
    return report.upload.created_at, report.upload_id


UNSHOWN = tuple(f"upload__{column}" for column in ("tags", "phases", "known", "files", "masked"))
"""Columns of an upload that no list of launches shows, each a JSON text to be read."""

NEWEST_FIRST = ("-upload__created_at", "-upload_id", "-created_at", "-id")
"""The newest upload first, of each the newest report."""


def reports_of(deployment: Deployment) -> QuerySet[StoredReport]:
    """All reports on a deployment's uploads, newest first, without their documents and what no list shows."""
    return (
        StoredReport.objects.filter(upload__deployment=deployment, upload__deleted_at=None, launch_count__gt=0)
        .select_related("upload")
        .prefetch_related("upload__uploader")  # hundreds of launches are a few people's
        .defer("document", *UNSHOWN)
        .order_by(*NEWEST_FIRST)
    )


def series_of(deployment: Deployment, most: int) -> Series:
    """The newest launches of a deployment. An upload diagnosed again by a newer engine counts once."""
    return Series(newest_of_each(reports_of(deployment), most))


def newest_of_each(reports: QuerySet[StoredReport], most: int) -> tuple[StoredReport, ...]:
    """The first report of each upload in a list that is in the order of NEWEST_FIRST."""
    newest: dict[int, StoredReport] = {}
    for report in reports[: 2 * most]:
        newest.setdefault(report.upload_id, report)
    return tuple(newest.values())[:most]
