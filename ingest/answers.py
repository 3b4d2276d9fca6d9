"""What the upload door answers: a page for a browser, JSON for a program, a few plain lines for a terminal."""

from __future__ import annotations

from threading import BoundedSemaphore
from time import monotonic, sleep
from typing import Any

from django.conf import settings
from django.db import connection
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.urls import reverse

from ingest.models import State, Upload
from ingest.refusals import Refused
from ingest.services import Accepted

WAIT_S = 4.0  # how long a terminal waits for its verdict before it gets the link alone
LOOK_S = 0.1
_waiting = BoundedSemaphore(2)  # of this process; the other threads go on serving pages


def wants_json(request: HttpRequest) -> bool:
    return request.get_preferred_type(["text/plain", "text/html", "application/json"]) == "application/json"


def wants_page(request: HttpRequest) -> bool:
    """True for a browser that shows the answer; programs take anything and get text."""
    return "text/html" in request.headers.get("Accept", "")


def absolute(request: HttpRequest, path: str) -> str:
    """The full address of a path, by the address that readers use."""
    return settings.KVDIAG_PUBLIC_URL + path if settings.KVDIAG_PUBLIC_URL else request.build_absolute_uri(path)


def page_path(upload: Upload) -> str:
    return f"/r/{upload.public_id}/"


def accepted(request: HttpRequest, made: Accepted) -> HttpResponse:
    """The answer to an upload that was taken."""
    upload = made.upload
    if wants_page(request):
        return HttpResponseRedirect(page_path(upload), status=303)
    earlier = same_content(upload)
    if wants_json(request):
        body = described(request, upload)
        if made.delete_token:
            body["delete_token"] = made.delete_token
        if earlier:
            body["same_content"] = absolute(request, page_path(earlier))
        return JsonResponse(body, status=201 if made.is_new else 200, headers={"Location": body["url"]})
    upload = wait_for_end(upload)
    return text(request, upload, made.delete_token, earlier)


def described(request: HttpRequest, upload: Upload) -> dict[str, Any]:
    return {
        "id": upload.public_id,
        "url": absolute(request, page_path(upload)),
        "report": absolute(request, reverse("report-json", args=[upload.public_id])),
        "state": upload.state,
    }


def text(request: HttpRequest, upload: Upload, delete_token: str, earlier: Upload | None) -> HttpResponse:
    """The link, then the verdict or how far it is; 422 when it was read and is no log we can diagnose."""
    link = absolute(request, page_path(upload))
    lines = [link]
    if upload.state == State.READY and (report := upload.report):
        lines.append(verdicts(report.document))
    elif upload.state == State.FAILED:
        lines.append(upload.error)
    elif upload.state == State.CANCELLED:
        lines.append("Cancelled.")
    else:
        lines.append("Not ready yet: the link shows the progress, and then the report.")
    if earlier:
        lines.append(f"The same log was sent before: {absolute(request, page_path(earlier))}")
    if delete_token and upload.state != State.FAILED:
        lines.append(f"To delete it: curl -X DELETE -H 'Upload-Token: {delete_token}' {link}")
    status = 422 if upload.state == State.FAILED else 201
    return HttpResponse(
        "\n".join(lines) + "\n", status=status, content_type="text/plain; charset=utf-8", headers={"Location": link}
    )


def verdicts(document: dict[str, Any]) -> str:
    """One sentence for each launch, and the number of findings."""
    launches = document.get("launches") or []
    sentences = [launch.get("verdict") or launch.get("outcome") or "" for launch in launches]
    if len(launches) > 1:
        sentences = [f"Launch {launch.get('number')}: {said}" for launch, said in zip(launches, sentences, strict=True)]
    findings = [finding for launch in launches for finding in launch.get("findings") or []]
    found = [f"{finding['severity']}: {finding['summary']}" for finding in findings if "summary" in finding]
    return printable("\n".join([*sentences, *found]))


def printable(said: str) -> str:
    """Text for a terminal: what a log wrote must not move the cursor."""
    return "".join(character for character in said if character.isprintable() or character == "\n")


def refused(request: HttpRequest, problem: Refused) -> HttpResponse:
    """The answer to a body that was not taken."""
    headers = {"Connection": "close", **problem.headers} if problem.status in (411, 413) else problem.headers
    if wants_json(request):
        body = {"error": {"code": problem.code, "message": problem.sentence}}
        return JsonResponse(body, status=problem.status, headers=headers)
    return HttpResponse(
        f"{problem.sentence}\n", status=problem.status, content_type="text/plain; charset=utf-8", headers=headers
    )


def same_content(upload: Upload) -> Upload | None:
    """An earlier ready upload of the same bytes by the same sender."""
    if not upload.sha256:
        return None
    mine = Upload.objects.filter(sha256=upload.sha256, state=State.READY, deleted_at=None, pk__lt=upload.pk)
    if upload.team_id:
        mine = mine.filter(team=upload.team_id)
    elif upload.uploader_id:
        mine = mine.filter(team=None, uploader=upload.uploader_id)
    elif upload.owner_hash:
        mine = mine.filter(team=None, uploader=None, owner_hash=upload.owner_hash)
    else:
        return None
    return mine.order_by("-pk").first()


def wait_for_end(upload: Upload, seconds: float | None = None) -> Upload:
    """The upload once it has ended, or as it is when the time is over; holds no database connection meanwhile."""
    if not _waiting.acquire(blocking=False):
        return upload
    try:
        until = monotonic() + (WAIT_S if seconds is None else seconds)
        while monotonic() < until:
            upload = Upload.objects.get(pk=upload.pk)
            if upload.is_over:
                return upload
            if not connection.in_atomic_block:
                connection.close()
            sleep(LOOK_S)
        return Upload.objects.get(pk=upload.pk)
    finally:
        _waiting.release()
