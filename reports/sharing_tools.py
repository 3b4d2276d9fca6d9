"""What the report page offers its reader beyond reading: share, move to the trash, claim, pin, hide."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from ingest.models import StoredReport, Upload
from ingest.sender import is_nobodys, may_manage, sent_it
from reports.deployments_predictions import kept_scenarios
from reports.opinions import may_say, said_by
from reports.scenarios import may_keep
from teams import access
from teams.access import Action
from teams.models import Team


def may_share(request: HttpRequest, upload: Upload) -> bool:
    """True for the team's editors, the uploader, and the sender of nobody's upload."""
    return access.may(request.user, Action.SHARE, upload) or (upload.team_id is None and may_manage(request, upload))


def tools_of(request: HttpRequest, upload: Upload, report: StoredReport) -> dict[str, Any]:
    """Context for the report page's actions, as far as the reader may take them."""
    claims: list[Team] = []
    if upload.team_id is None and access.may(request.user, Action.CLAIM, upload):
        claims = [team for team in access.teams_of(request.user) if access.may(request.user, Action.UPLOAD, team)]
    says = may_say(request, upload)
    return {
        "share_url": reverse("share_sheet", args=[upload.public_id]) if may_share(request, upload) else "",
        "claim_teams": claims,
        "claim_asks_token": not sent_it(request, upload),
        "may_trash": upload.team_id is not None and access.may(request.user, Action.DELETE, upload),
        "may_delete": upload.team_id is None and may_manage(request, upload),
        "may_prove": is_nobodys(upload) and not claims and not sent_it(request, upload),
        "may_redact": upload.team_id is not None and access.may(request.user, Action.REDACT, upload),
        "may_pin": upload.deployment_id is not None and access.may(request.user, Action.EDIT, upload),
        "may_keep": may_keep(request, upload),
        "may_say": says,
        "said": said_by(request.user, report) if says else {},
        "kept": kept_scenarios(upload)[:20] if upload.team_id is not None else [],
        "report": report,
        "actions_more": "reports/team/report_actions.html",
        "finding_tools": "reports/team/finding_tools.html",
    }
