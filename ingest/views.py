"""The pages of the way in: upload, progress, and the buttons on them."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.csrf import csrf_exempt, ensure_csrf_cookie
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from ingest import answers, samples, services
from ingest.arrival import CHUNK, Arrival
from ingest.door import spend_upload, take_upload
from ingest.models import State, Upload
from ingest.progress import ahead_words, progress_of
from ingest.refusals import Refused, in_mib, nothing_chosen
from ingest.resumable import PART_BYTES
from ingest.retention import log_days, report_days
from ingest.sender import browser_hash, give_browser_secret, may_manage, sender_of
from teams import access
from teams.current import home_of


def upload_of(request: HttpRequest, public_id: str) -> Upload:
    """The upload at an address, for whoever may see it; 404 for everybody else."""
    upload: Upload = get_object_or_404(access.visible(Upload, to=request.user), public_id=public_id)
    return upload


# --- Upload -----------------------------------------------------------------------------------------------------------


@csrf_exempt  # bodies of programs carry no form token; the door looks at what browsers say of the sending page
@require_http_methods(["GET", "HEAD", "POST"])
def front(request: HttpRequest) -> HttpResponse:
    """The upload page, and the door for everything posted to it."""
    if request.method == "POST":
        return door(request)
    return upload_page(request)


@csrf_exempt
@require_http_methods(["PUT"])
def put(request: HttpRequest, name: str = "") -> HttpResponse:
    """`curl -T server.log <address>`: the body is a log of that name."""
    return door(request, name)


def door(request: HttpRequest, name: str = "") -> HttpResponse:
    """Takes one upload; a browser that posted the form gets the page, with its words, when it was not taken."""
    try:
        if answers.wants_page(request) and not access.is_person(request.user):
            give_browser_secret(request)
        return answers.accepted(request, take_upload(request, name))
    except Refused as problem:
        if answers.wants_page(request):
            return upload_page(request, problem)
        return answers.refused(request, problem)


@ensure_csrf_cookie
def upload_page(request: HttpRequest, problem: Refused | None = None) -> HttpResponse:
    """Drop, choose or paste a log. Shows the limits before anything is sent."""
    limits = settings.KVDIAG_LIMITS
    is_member = access.is_person(request.user)
    home = home_of(request.user) if is_member else None
    text = ""
    if problem is not None and request.method == "POST":
        text = getattr(request, "_post", {}).get("text", "")
    if problem is not None and problem.code == "empty":
        problem = nothing_chosen()
    context: dict[str, Any] = {
        "section": "upload",
        "address": answers.absolute(request, "/"),
        "limit": in_mib(limits.max_member_upload_bytes if is_member else limits.max_upload_bytes),
        "limit_bytes": limits.max_member_upload_bytes if is_member else limits.max_upload_bytes,
        "part_bytes": PART_BYTES,
        "max_files": limits.max_archive_members,
        "unpacked": in_mib(limits.max_unpacked_bytes),
        "max_lines": limits.max_lines,
        "log_days": log_days(request.user if is_member else None, home),
        "report_days": report_days(request.user if is_member else None, home),
        "samples": samples.available(),
        "teams": [team for team in access.teams_of(request.user) if access.may(request.user, "upload", team)]
        if is_member
        else [],
        "may_upload": is_member or settings.KVDIAG_ANONYMOUS_UPLOADS,
        "problem": problem,
        "text": text,
    }
    answer = render(request, "ingest/upload.html", context, status=problem.status if problem else 200)
    for name, value in problem.headers.items() if problem else ():
        answer.headers[name] = value
    return answer


@require_POST
def sample(request: HttpRequest, key: str) -> HttpResponse:
    """Diagnoses one of the sample logs for this visitor."""
    chosen = samples.find(key)
    if chosen is None:
        raise Http404
    try:
        sender = sender_of(request, "-")
        if sender.user is None:
            give_browser_secret(request)
            sender = sender_of(request)
        spend_upload(sender)
        with Arrival(sender.limit) as arrival, chosen.path.open("rb") as file:
            arrival.take(f"{key}.log", iter(lambda: file.read(CHUNK), b""))
            made = services.accept_upload(arrival, sender, services.Options(name=f"Sample: {chosen.title}"))
    except Refused as problem:
        return upload_page(request, problem)
    return HttpResponseRedirect(answers.page_path(made.upload), status=303)


@require_GET
def known_content(request: HttpRequest, sha256: str) -> HttpResponse:
    """The earlier report on the same bytes by the same sender, to be offered before they are sent again."""
    mine = access.visible(Upload, to=request.user).filter(sha256=sha256, state=State.READY)
    if access.is_person(request.user):
        mine = mine.exclude(team=None, uploader=None)
    else:
        own = browser_hash(request)
        mine = mine.filter(owner_hash=own) if own else mine.none()
    upload = mine.order_by("-pk").first()
    if upload is None:
        return JsonResponse({"url": None})
    return JsonResponse(
        {"url": answers.page_path(upload), "name": upload.title, "at": upload.created_at.isoformat(timespec="seconds")}
    )


# --- Progress ---------------------------------------------------------------------------------------------------------


def progress_page(request: HttpRequest, upload: Upload) -> HttpResponse:
    """The address of a report before there is one: the phases, or why there will be none.

    The caller has looked the upload up for this reader.
    """
    progress = progress_of(upload)
    manages = may_manage(request, upload)
    return render(
        request,
        "ingest/progress.html",
        {
            "section": "report",
            "upload": upload,
            "progress": progress,
            "ahead": ahead_words(progress["ahead"]),
            "shows_known": bool(upload.known) or not upload.is_over,
            "may_manage": manages,
            "may_cancel": manages and not upload.is_over,
            "may_retry": manages and services.may_retry(upload),
            "earlier": answers.same_content(upload) if manages else None,
        },
    )


@require_GET
def status(request: HttpRequest, public_id: str) -> HttpResponse:
    """The progress as JSON, for the page that shows it."""
    return JsonResponse(progress_of(upload_of(request, public_id)))


# --- Buttons ----------------------------------------------------------------------------------------------------------


def managed(request: HttpRequest, public_id: str) -> Upload:
    """The upload, for whoever may manage it. Others get the same 404 as for one that is not there."""
    upload = upload_of(request, public_id)
    if not may_manage(request, upload):
        raise Http404
    return upload


@require_POST
def cancel(request: HttpRequest, public_id: str) -> HttpResponse:
    """Stops an upload on its way."""
    upload = managed(request, public_id)
    services.cancel_upload(upload)
    return HttpResponseRedirect(answers.page_path(upload), status=303)


@require_POST
def retry(request: HttpRequest, public_id: str) -> HttpResponse:
    """Reads a failed or cancelled upload again."""
    upload = managed(request, public_id)
    if not services.retry_upload(upload):
        messages.warning(request, "The files of this upload are no longer there. Send the log again.")
    return HttpResponseRedirect(answers.page_path(upload), status=303)


@require_POST
def delete(request: HttpRequest, public_id: str) -> HttpResponse:
    """Deletes an upload for good: its files, reports and links."""
    services.delete_upload(managed(request, public_id))
    messages.success(request, "The log and its report are deleted.")
    return HttpResponseRedirect("/", status=303)


@csrf_exempt  # the token in the header is what a forged form cannot have
@require_http_methods(["DELETE"])
def delete_by_token(request: HttpRequest, public_id: str) -> HttpResponse:
    """`curl -X DELETE` with the token that the upload answered, or with a team's key."""
    upload = upload_of(request, public_id)
    holds = access.holds_delete_token(upload, request.headers.get("Upload-Token", ""))
    acts = access.token_of(request.user) is not None and access.may(request.user, access.Action.DELETE, upload)
    if not holds and not acts:
        raise Http404
    services.delete_upload(upload)
    return HttpResponse(status=204)
