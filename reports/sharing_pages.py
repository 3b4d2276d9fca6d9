"""A team's pages about what it gives away and throws away: links, trash, late redaction, claiming, export."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from ingest.models import StoredReport, Upload
from ingest.sender import prove_sent, sent_it
from reports import sharing_redaction, sharing_trash
from reports.models import Alert, Badge, Channel, Opinion, Prediction, ShareLink, TrackedFinding
from teams import access
from teams.access import Action
from teams.audit import record
from teams.models import AuditEntry, Deployment, Team
from teams.views.team import context_of, for_team

SHOWN = 200


@for_team(Action.EDIT)
@require_GET
def team_links(request: HttpRequest, team: Team) -> HttpResponse:
    """Every link into the team's reports that still works."""
    links = access.visible(ShareLink, to=request.user).filter(upload__team=team, revoked_at=None)
    shown = [link for link in links.select_related("upload").order_by("-created_at")[:SHOWN] if link.is_open()]
    return render(request, "reports/team_links.html", context_of(request, team, "links", links=shown))


@for_team()
@require_GET
def team_trash(request: HttpRequest, team: Team) -> HttpResponse:
    """What was deleted and can still be restored; and the export of everything."""
    uploads = access.visible(Upload, to=request.user, trash=True).filter(team=team)
    lasts = timedelta(days=settings.KVDIAG_LIMITS.trash_days)
    rows = [(upload, upload.deleted_at + lasts) for upload in uploads.order_by("-deleted_at")[:SHOWN]]
    return render(request, "reports/team_trash.html", context_of(request, team, "trash", rows=rows))


def _of_team(request: HttpRequest, public_id: str, action: Action, *, trash: bool = False) -> Upload:
    """An upload of one of the reader's teams; 404 outside them. Raises PermissionError for a role that may not."""
    visible = (
        access.visible(Upload, to=request.user, trash=trash).exclude(team=None).select_related("team", "deployment")
    )
    upload: Upload = get_object_or_404(visible, public_id=public_id)
    if not access.may(request.user, action, upload):
        raise PermissionError
    return upload


def _refused(request: HttpRequest, public_id: str) -> HttpResponse:
    upload = get_object_or_404(Upload.objects.select_related("team"), public_id=public_id)
    return render(request, "teams/not_allowed.html", {"team": upload.team}, status=403)


@login_required
@require_POST
def trash_upload(request: HttpRequest, public_id: str) -> HttpResponse:
    """Move a report to the trash."""
    try:
        upload = _of_team(request, public_id, Action.DELETE)
    except PermissionError:
        return _refused(request, public_id)
    sharing_trash.to_trash(upload, by=request.user)
    messages.success(request, f"{upload.title} is in the trash. Its share links have ended.")
    return redirect("dashboard")


@login_required
@require_POST
def bulk_delete(request: HttpRequest) -> HttpResponse:
    """Move the chosen reports to the trash."""
    chosen = (
        access.visible(Upload, to=request.user)
        .exclude(team=None)
        .filter(public_id__in=request.POST.getlist("upload")[:SHOWN])
    )
    moved = 0
    for upload in chosen.select_related("team", "deployment"):
        if not access.may(request.user, Action.DELETE, upload):
            return render(request, "teams/not_allowed.html", {"team": upload.team}, status=403)
        sharing_trash.to_trash(upload, by=request.user)
        moved += 1
    messages.success(request, f"{moved} report{'' if moved == 1 else 's'} moved to the trash.")
    back = request.POST.get("back", "")[:500]
    return HttpResponseRedirect(reverse("report_list") + (f"?{back}" if back else ""))


@login_required
@require_POST
def restore_upload(request: HttpRequest, public_id: str) -> HttpResponse:
    """Bring a report back from the trash, or with `for_good` delete it now."""
    try:
        upload = _of_team(request, public_id, Action.RESTORE, trash=True)
    except PermissionError:
        return _refused(request, public_id)
    team: Any = upload.team
    if request.POST.get("for_good"):
        sharing_trash.delete_now(upload, by=request.user)
        messages.success(request, "Deleted for good.")
    else:
        sharing_trash.restore(upload, by=request.user)
        messages.success(request, f"{upload.title} is back.")
    return redirect("team_trash", slug=team.slug)


@require_POST
def prove_sender(request: HttpRequest, public_id: str) -> HttpResponse:
    """Let this browser share and delete a report of nobody, by the delete token that its upload answered."""
    upload = get_object_or_404(
        access.visible(Upload, to=request.user).filter(team=None, uploader=None), public_id=public_id
    )
    if prove_sent(request, upload, request.POST.get("delete_token", "").strip()):
        messages.success(request, "This browser may share and delete the report now.")
    else:
        messages.error(request, "That is not the delete token that this upload answered.")
    return redirect(f"/r/{upload.public_id}/")


@login_required
@require_POST
def claim(request: HttpRequest, public_id: str) -> HttpResponse:
    """Take a report of nobody that one sent oneself into a team one may upload to.

    Everybody who was given the report's address could read it; only its sender may take it from the others.
    """
    upload = get_object_or_404(
        access.visible(Upload, to=request.user).filter(team=None, uploader=None), public_id=public_id
    )
    team = get_object_or_404(access.teams_of(request.user), slug=request.POST.get("team", ""))
    if not access.may(request.user, Action.UPLOAD, team):
        return render(request, "teams/not_allowed.html", {"team": team}, status=403)
    if not sent_it(request, upload, request.POST.get("delete_token", "").strip()):
        messages.error(request, "Only its sender may keep this report: give the delete token that the upload answered.")
        return redirect(f"/r/{upload.public_id}/")
    if not sharing_trash.claim(upload, team, by=request.user):
        raise Http404
    messages.success(request, f"The report is kept in {team.name} now.")
    return redirect(f"/r/{upload.public_id}/")


@login_required
@require_http_methods(["GET", "POST"])
def redact(request: HttpRequest, public_id: str) -> HttpResponse:
    """Hide a text in the stored log, the report and everything made of it."""
    try:
        upload = _of_team(request, public_id, Action.REDACT)
    except PermissionError:
        return _refused(request, public_id)
    problem = ""
    if request.method == "POST":
        try:
            found = sharing_redaction.hide(upload, request.POST.get("text", ""), by=request.user)
        except sharing_redaction.Refused as refused:
            problem = str(refused)
        except (Upload.DoesNotExist, FileNotFoundError):  # deleted meanwhile
            raise Http404 from None
        else:
            if found:
                messages.success(request, f"Hidden in {found} place{'' if found == 1 else 's'}.")
                return redirect(f"/r/{upload.public_id}/")
            problem = "This text is neither in the stored log nor in the report."
    return render(
        request, "reports/redact.html", {"upload": upload, "problem": problem}, status=400 if problem else 200
    )


@for_team(Action.EXPORT)
@require_GET
def export(request: HttpRequest, team: Team) -> HttpResponse:
    """Everything the team has, as JSON Lines: one object a line, each with its type."""
    record(request.user, "team.export", team=team, object=team.name)
    whole = access.may(request.user, Action.MANAGE, team)
    response = StreamingHttpResponse(export_lines(team, whole=whole), content_type="application/x-ndjson")
    response["Content-Disposition"] = f'attachment; filename="{team.slug}.jsonl"'
    return response


def export_lines(team: Team, *, whole: bool) -> Iterator[str]:
    """The lines of an export. Hashes of secrets stay out; documents are whole.

    whole  False for those who may not see the trail and the channels' addresses on the team's pages either
    """

    def line(kind: str, value: dict[str, Any]) -> str:
        return json.dumps({"type": kind, **value}, cls=DjangoJSONEncoder) + "\n"

    yield line("team", {"name": team.name, "slug": team.slug, "settings": team.settings, "created_at": team.created_at})
    for member in team.memberships.select_related("user"):
        yield line("member", {"email": member.user.email, "name": member.user.get_full_name(), "role": member.role})
    for row in _rows(
        Deployment.objects.filter(team=team), "public_id", "key", "name", "created_at", "model", "hardware"
    ):
        yield line("deployment", row)
    uploads = Upload.objects.filter(team=team).select_related("deployment")
    for upload in uploads.order_by("pk").iterator(chunk_size=200):
        yield line("upload", _upload(upload))
        for report in StoredReport.objects.filter(upload=upload).order_by("pk"):
            value = {"upload": upload.public_id, "engine": report.engine, "created_at": report.created_at}
            yield line("report", {**value, "document": report.document})
    findings = TrackedFinding.objects.filter(deployment__team=team)
    for row in _rows(
        findings, "deployment__public_id", "rule", "severity", "summary", "state", "reason", "first_seen", "last_seen"
    ):
        yield line("finding", row)
    for row in _rows(
        Alert.objects.filter(deployment__team=team),
        "deployment__public_id",
        "report__upload__public_id",
        "kind",
        "text",
        "at",
    ):
        yield line("alert", row)
    for row in _rows(
        Prediction.objects.filter(deployment__team=team),
        "deployment__public_id",
        "report__upload__public_id",
        "change",
        "tokens",
        "free_gib",
        "kept_by_name",
        "made_at",
        "outcome__upload__public_id",
        "printed_tokens",
        "error_percent",
    ):
        yield line("prediction", row)
    said = Opinion.objects.filter(report__upload__team=team)
    for row in _rows(said, "report__upload__public_id", "launch_number", "rule", "engine", "says", "reason", "said_at"):
        yield line("opinion", row)
    links = ShareLink.objects.filter(upload__team=team)
    for row in _rows(
        links, "upload__public_id", "hint", "what", "who", "created_at", "expires_at", "views", "revoked_at"
    ):
        yield line("share", row)
    badges = Badge.objects.filter(deployment__team=team)
    for row in _rows(badges, "deployment__public_id", "hint", "made_by_name", "made_at", "ended_at"):
        yield line("badge", row)
    for row in _rows(Channel.objects.filter(team=team), "kind", "is_on", *(("address",) if whole else ())):
        yield line("channel", row)
    if not whole:
        return
    for row in _rows(AuditEntry.objects.filter(team=team), "actor_name", "action", "object", "detail", "at"):
        yield line("audit", row)


def _rows(queryset: QuerySet[Any], *names: str) -> Iterator[dict[str, Any]]:
    return iter(queryset.order_by("pk").values(*names).iterator(chunk_size=500))


def _upload(upload: Upload) -> dict[str, Any]:
    return {
        "id": upload.public_id,
        "name": upload.name,
        "created_at": upload.created_at,
        "deployment": upload.deployment.public_id if upload.deployment else None,
        "state": upload.state,
        "tags": upload.tags,
        "files": [{key: value for key, value in file.items() if key != "path"} for file in upload.files],
        "sha256": upload.sha256,
        "deleted_at": upload.deleted_at,
    }
