"""The report and the log behind it, as JSON: /r/<id>.json and /r/<id>/log."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_GET

from ingest import rate
from ingest.arrival import folder_of
from ingest.models import State, Upload
from ingest.refusals import Refused
from ingest.retention import log_was_viewed
from ingest.sender import address_hash
from ingest.views import upload_of
from kvdiag.diagnosis.masked_copy import log_range
from teams import access

MAX_LINES = 2_000
RETRY_AFTER_S = 1


def spend_read(request: HttpRequest) -> None:
    """Counts a read against the reader's rate. Raises Refused (429)."""
    limits = settings.KVDIAG_LIMITS
    token = access.token_of(request.user)
    if token is not None:
        rate.spend("read", f"token {token.pk}", limits.token_requests_per_minute)
    elif not access.is_person(request.user):
        rate.spend("read", address_hash(request), limits.anonymous_reads_per_minute)


def refusal(problem: Refused) -> JsonResponse:
    body = {"error": {"code": problem.code, "message": problem.sentence}}
    return JsonResponse(body, status=problem.status, headers=problem.headers)


@require_GET
def report_json(request: HttpRequest, public_id: str) -> HttpResponse:
    """200 with the document, 202 while it is made, 422 when there will be none."""
    upload = upload_of(request, public_id)
    if upload.state in (State.FAILED, State.CANCELLED):
        sentence = upload.error or "The upload was cancelled."
        code = upload.error_code or "cancelled"
        return JsonResponse(
            {"error": sentence, "code": code, "reference": upload.reference, "state": upload.state}, status=422
        )
    report = upload.report
    if report is None:
        body = {"state": upload.state, "phase": upload.phase, "detail": upload.phase_detail}
        return JsonResponse(body, status=202, headers={"Retry-After": str(RETRY_AFTER_S)})
    try:
        spend_read(request)
    except Refused as problem:
        return refusal(problem)
    return JsonResponse(report.document)


@require_GET
def log_lines(request: HttpRequest, public_id: str) -> HttpResponse:
    """Numbered lines of the masked log: ?from=1&to=200, of the file ?file=0; at most 2,000 at once.

    {"file", "from", "to", "total", "lines": [[number, text], …]}
    """
    return lines_answer(request, upload_of(request, public_id))


def lines_answer(request: HttpRequest, upload: Upload) -> HttpResponse:
    """The lines asked for, of an upload that the reader may see the log of."""
    try:
        file = whole_number(request, "file", 0)
        first = max(1, whole_number(request, "from", 1))
        last = whole_number(request, "to", first + 199)
    except ValueError:
        return refusal(Refused(400, "range", "from, to and file are whole numbers: ?from=1&to=200."))
    if file < 0 or file >= len(upload.files):
        return refusal(Refused(404, "file", f"This upload has {len(upload.files)} files, counted from 0."))
    described = upload.files[file]
    path = folder_of(upload.public_id) / described["path"] if described.get("path") else None
    if path is None or not path.is_file():
        if upload.report is None and upload.state not in (State.FAILED, State.CANCELLED):
            return refusal(Refused(409, "not_ready", "The log is not read yet; ask again in a moment."))
        return refusal(Refused(410, "log_gone", "The log of this report is not kept; its figures are."))
    log_was_viewed(upload)
    last = min(last, first + MAX_LINES - 1)
    lines = log_range(path, first, last) if last >= first else []
    return JsonResponse(
        {
            "file": file,
            "name": described["name"],
            "from": first,
            "to": lines[-1][0] if lines else first - 1,
            "total": described.get("lines"),
            "lines": [[number, text] for number, text in lines],
        }
    )


def whole_number(request: HttpRequest, name: str, default: int) -> int:
    """Raises ValueError."""
    value = request.GET.get(name, "")
    if not value:
        return default
    if len(value) > 12:
        raise ValueError(value)
    return int(value)
