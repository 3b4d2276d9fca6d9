"""Reports: send, list, read, what if, compare, delete."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import Http404, HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from ninja import Path, Query, Router, Status
from pydantic import Field

from ingest.answers import absolute, described
from ingest.door import take_upload
from ingest.models import StoredReport, Upload
from ingest.passing import analyse as read_in_passing
from kvdiag.api.callers import SENDERS_TOKEN, Token, TokenOrNobody, caller, must, must_read, spend, team_of
from kvdiag.api.problems import No, answers, not_allowed
from kvdiag.api.schemas import LogLines, Made, OpinionIn, OpinionOut, ReportOut, ReportPage, ScenarioIn
from reports import opinions, sharing_trash
from reports.cursor import page
from reports.dashboard import with_reports
from reports.dashboard_search import found_reports
from reports.deployments_changes import explain, launch_of
from reports.deployments_predictions import NothingToKeep, keep_scenario
from reports.document import launches, listed
from reports.finding_cards import anchor_of
from reports.stored import log_files
from reports.what_if import answer
from teams import access
from teams.access import Action
from teams.audit import person_name

router = Router(tags=["reports"])
Id = Annotated[str, Field(max_length=60, pattern=r"^[A-Za-z0-9_-]+$")]
MOST_LINES = 2000

RAW_BODY = {
    "requestBody": {
        "required": True,
        "description": "The log, also compressed or as an archive. Nothing else than its bytes.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    },
    "parameters": [
        {
            "in": "header",
            "name": name,
            "required": False,
            "schema": {"type": "string", "maxLength": 200},
            "description": words,
        }
        for name, words in (
            ("X-Kvdiag-Deployment", "The deployment it belongs to, by name; made when there is none"),
            ("X-Kvdiag-Tags", "key=value, comma-separated"),
            ("File-Name", "What the log is called"),
            ("Idempotency-Key", "The same key from the same sender gives the same upload"),
        )
    ],
}
# Of the headers only the name has a meaning for a log that is not kept.
PASSING_BODY = RAW_BODY | {"parameters": [each for each in RAW_BODY["parameters"] if each["name"] == "File-Name"]}


def find(user: Any, report_id: str) -> Upload:
    """The upload, for whoever may see it; 404 for everybody else."""
    found: Upload = get_object_or_404(
        access.visible(Upload, to=user).select_related("team", "deployment", "uploader"), public_id=report_id
    )
    return found


def stored_of(upload: Upload) -> StoredReport:
    """The newest report on an upload. Raises a 409 while there is none."""
    report = upload.report
    if report is None:
        raise No(409, "not_ready", f"There is no report: the upload is {upload.state}.")
    return report


def shown(request: HttpRequest, upload: Upload, report: StoredReport | None) -> dict[str, Any]:
    """An upload with its report's columns."""
    columns = ("outcome", "stage", "verdict", "model", "release", "worst_severity")
    figures = ("gpu_count", "kv_tokens", "free_gib", "weights_gib", "ready_after_s", "finding_count", "launch_count")
    return {
        "id": upload.public_id,
        "title": upload.title,
        "created_at": upload.created_at,
        "uploader": person_name(upload.uploader),
        "deployment": upload.deployment.public_id if upload.deployment else None,
        "tags": upload.tags,
        "state": upload.state,
        "phase": upload.phase,
        "error": upload.error,
        "error_code": upload.error_code,
        "url": absolute(request, f"/r/{upload.public_id}/"),
        **{name: getattr(report, name, "") or "" for name in columns},
        **{name: getattr(report, name, None) for name in figures},
    }


@router.post(
    "/reports",
    auth=TokenOrNobody(),
    openapi_extra=RAW_BODY,
    response={**answers(201, Made, 400, 409, 411, 413, 415, 507), 200: Made},
    summary="Send a log",
)
def send_report(request: HttpRequest) -> Any:
    """Take a log in. 201 with its addresses; 200 when the same Idempotency-Key sent it before."""
    request.user = caller(request)
    made = take_upload(request)
    body = described(request, made.upload)
    body["status_url"] = absolute(request, f"/api/v1/reports/{made.upload.public_id}")
    body["delete_token"] = made.delete_token or None
    return Status(201 if made.is_new else 200, body)


@router.post(
    "/analyses",
    auth=TokenOrNobody(),
    openapi_extra=PASSING_BODY,
    response=answers(200, dict[str, Any], 400, 411, 413, 415, 500, 503, 507),
    summary="Read a log without keeping it",
)
def analyse(request: HttpRequest) -> Any:
    """The document `kvdiag.report/1` at once. Nothing of the log stays here, and no report. `max_passing_bytes` of the
    limits says up to which size; the rate is that of uploads.
    """
    request.user = caller(request)
    return JsonResponse(read_in_passing(request))


@router.get("/reports", auth=Token(), response=answers(200, ReportPage, 400), summary="List reports")
def list_reports(
    request: HttpRequest,
    q: Annotated[str, Query(max_length=200)] = "",
    outcome: Annotated[str, Query(max_length=20)] = "",
    severity: Annotated[str, Query(max_length=20)] = "",
    deployment: Annotated[str, Query(max_length=40)] = "",
    cursor: Annotated[str, Query(max_length=300)] = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
) -> Any:
    """The team's reports, newest first."""
    spend(request)
    must_read(request)
    asked = {"q": q, "outcome": outcome, "severity": severity, "deployment": deployment}
    found, following = found_reports(team_of(request), asked, size=limit, cursor=cursor)
    return {"items": [shown(request, each.upload, each) for each in found], "next": following}


@router.get("/uploads", auth=Token(), response=answers(200, ReportPage, 400), summary="List uploads in any state")
def list_uploads(
    request: HttpRequest,
    trash: bool = False,
    cursor: Annotated[str, Query(max_length=300)] = "",
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
) -> Any:
    """The team's uploads, newest first: also those without a report yet or ever; with `trash`, those in the trash."""
    user = spend(request)
    must_read(request)
    uploads = access.visible(Upload, to=user, trash=trash).filter(team=team_of(request))
    found = page(uploads.select_related("uploader", "deployment"), by="created_at", size=limit, cursor=cursor)
    return {"items": [shown(request, each, each.newest) for each in with_reports(found.rows)], "next": found.next}


@router.get("/reports/{report_id}", auth=TokenOrNobody(), response=answers(200, ReportOut), summary="State and summary")
def read_report(request: HttpRequest, report_id: Path[Id]) -> Any:
    """How far an upload is, and its report's columns once it is ready."""
    upload = find(spend(request), report_id)
    return shown(request, upload, with_reports([upload])[0].newest)  # type: ignore[attr-defined]


@router.get(
    "/reports/{report_id}/document",
    auth=TokenOrNobody(),
    response=answers(200, dict[str, Any], 409),
    summary="The whole report",
)
def read_document(request: HttpRequest, report_id: Path[Id]) -> Any:
    """The document `kvdiag.report/1`."""
    return JsonResponse(stored_of(find(spend(request), report_id)).document)


@router.get(
    "/reports/{report_id}/findings",
    auth=TokenOrNobody(),
    response=answers(200, list[dict[str, Any]], 409),
    summary="Findings of one report",
)
def read_findings(request: HttpRequest, report_id: Path[Id]) -> Any:
    """Findings of all launches, each with its launch's number."""
    document = stored_of(find(spend(request), report_id)).document
    return [
        {"launch": launch.get("number"), **finding}
        for launch in launches(document)
        for finding in listed(launch, "findings")
    ]


@router.get(
    "/reports/{report_id}/log",
    auth=TokenOrNobody(),
    response=answers(200, LogLines, 410),
    summary="Lines of the masked log",
)
def read_log(
    request: HttpRequest,
    report_id: Path[Id],
    file: Annotated[int, Query(ge=0, le=63)] = 0,
    first: Annotated[int, Query(ge=1, le=10**9)] = 1,
    last: Annotated[int | None, Query(ge=1, le=10**9)] = None,
) -> Any:
    """At most 2,000 numbered lines at once; 200 when `last` is left out."""
    from kvdiag.diagnosis.masked_copy import log_range

    files = log_files(find(spend(request), report_id))
    if not files:
        raise No(410, "log_gone", "The log of this report is not kept; its figures are.")
    if file >= len(files):
        raise Http404
    last = min(last if last is not None else first + 199, first + MOST_LINES - 1)
    lines = log_range(files[file].path, first, last) if last >= first else []
    return {"file": file, "first": first, "last": lines[-1][0] if lines else first - 1, "lines": lines}


@router.post(
    "/reports/{report_id}/what-if",
    auth=TokenOrNobody(),
    response=answers(200, dict[str, Any], 400, 409),
    summary="What if",
)
def what_if(request: HttpRequest, report_id: Path[Id], scenario: ScenarioIn) -> Any:
    """SGLang's sizing redone with other arguments, seeded with what this launch printed."""
    user = spend(request)
    upload = find(user, report_id)
    stored = stored_of(upload)
    launch = _launch(stored.document, scenario.launch)
    found, status = answer(launch, {name: value for name, value in scenario.change.items() if name != "launch"})
    if status != 200:
        raise No(400, "invalid", str(found.get("error") or "This scenario cannot be meant."))
    if scenario.keep:
        must(user, Action.EDIT, upload)
        if upload.deployment is None:
            raise No(422, "invalid", "keep: this report belongs to no deployment.")
        try:
            keep_scenario(upload.deployment, stored, launch, found, by=user)
        except NothingToKeep as nothing:
            raise No(422, "invalid", f"keep: {nothing}") from None
    return found


def _launch(document: dict[str, Any], number: int | None) -> dict[str, Any]:
    if number is None:
        launch = launch_of(document)
    else:
        launch = next((each for each in launches(document) if each.get("number") == number), None)
    if launch is None:
        raise Http404
    return launch


# --- What readers say -------------------------------------------------------------------------------------------------


def said_of(request: HttpRequest, report_id: str) -> tuple[Any, StoredReport]:
    """The caller and the report, if she may say of its findings what she thinks. Raises a 403 otherwise."""
    request.user = spend(request)
    upload = find(request.user, report_id)
    if not opinions.may_say(request, upload):
        raise not_allowed()
    return request.user, stored_of(upload)


def own_opinions(user: Any, stored: StoredReport) -> list[dict[str, Any]]:
    """What the caller said of a report's findings."""
    names = ("finding", "rule", "engine", "says", "reason", "said_at")
    return [
        {"launch": number, **{name: getattr(each, name) for name in names}}
        for number, said in opinions.said_by(user, stored).items()
        for each in said.values()
    ]


@router.get(
    "/reports/{report_id}/opinions",
    auth=TokenOrNobody(),
    openapi_extra=SENDERS_TOKEN,
    response=answers(200, list[OpinionOut], 409),
    summary="What you said of its findings",
)
def read_opinions(request: HttpRequest, report_id: Path[Id]) -> Any:
    """The caller's own answers."""
    return own_opinions(*said_of(request, report_id))


@router.put(
    "/reports/{report_id}/opinions",
    auth=TokenOrNobody(),
    openapi_extra=SENDERS_TOKEN,
    response=answers(200, list[OpinionOut], 409),
    summary="Say that a finding is helpful or wrong",
)
def say_finding(request: HttpRequest, report_id: Path[Id], opinion: OpinionIn) -> Any:
    """One answer a person and finding, which the next one replaces. Members, and the sender of nobody's report."""
    user, stored = said_of(request, report_id)
    number = _launch(stored.document, opinion.launch).get("number")
    anchor = anchor_of(opinion.rule, opinion.number)
    try:
        opinions.say(stored, number or 0, anchor, opinion.says or "", opinion.reason, by=user)
    except opinions.Refused as refused:
        raise No(422, "invalid", str(refused)) from None
    return own_opinions(user, stored)


@router.get("/compare", auth=TokenOrNobody(), response=answers(200, dict[str, Any], 409), summary="Compare two reports")
def compare(
    request: HttpRequest, a: Annotated[str, Query(max_length=60)], b: Annotated[str, Query(max_length=60)]
) -> Any:
    """The last launches of two reports: which change moved how many GiB and tokens."""
    user = spend(request)
    first, second = (launch_of(stored_of(find(user, each)).document) for each in (a, b))
    if first is None or second is None:
        raise Http404
    return explain(first, second)


@router.delete("/reports/{report_id}", auth=Token(), response=answers(204, None), summary="Move to the trash")
def delete_report(request: HttpRequest, report_id: Path[Id]) -> Any:
    """The report goes to the trash and its links end. Restore brings the report back, not the links."""
    user = spend(request)
    upload = find(user, report_id)
    must(user, Action.DELETE, upload)
    sharing_trash.to_trash(upload, by=user)
    return Status(204, None)


@router.post(
    "/reports/{report_id}/restore", auth=Token(), response=answers(200, ReportOut), summary="Restore from the trash"
)
def restore_report(request: HttpRequest, report_id: Path[Id]) -> Any:
    """Bring a report back."""
    user = spend(request)
    visible = access.visible(Upload, to=user, trash=True).select_related("team", "deployment", "uploader")
    upload = get_object_or_404(visible, public_id=report_id)
    must(user, Action.RESTORE, upload)
    sharing_trash.restore(upload, by=user)
    return shown(request, upload, with_reports([upload])[0].newest)  # type: ignore[attr-defined]
