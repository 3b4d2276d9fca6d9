"""The what-if panel of a shared page: reckoned with the whole report, told within the link's scope."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from ingest.models import StoredReport
from reports.document import Launch, launches
from reports.models import ShareLink
from reports.page import ReportPage
from reports.sharing_links import What
from reports.sharing_scope import scenario_within_facts
from reports.what_if_panel import Narrow, panel_of


def shared_panel(request: HttpRequest, link: ShareLink, stored: StoredReport, page: ReportPage) -> dict[str, Any]:
    """What the panel's templates need, for the launch that the page shows."""
    return panel_of(page, request.GET, launch_of(stored, page.number), narrow_of(link))


def launch_of(stored: StoredReport, number: int) -> Launch | None:
    """The launch of that number, with all that the report has on it."""
    return next((launch for launch in launches(stored.document) if launch.get("number") == number), None)


def narrow_of(link: ShareLink) -> Narrow:
    """What takes from an answer the words that this link does not show."""
    return dict if link.what == What.LOG else scenario_within_facts
