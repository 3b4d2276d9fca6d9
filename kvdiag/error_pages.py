"""What a browser, a program and a terminal are told when an address leads nowhere or a page failed.

A report that expired, was deleted, revoked, or belongs to another team looks like one that never existed.
"""

import logging
import secrets
import sys
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string

from kvdiag.health import is_database_away

log = logging.getLogger(__name__)

NOT_FOUND = "There is nothing at this address. The report may have expired or been deleted, or the link is incomplete."
FORBIDDEN = "You may not do that here."
STALE_FORM = "This form is too old, or came from another page. Go back, reload the page and send it again."
AWAY = "kvdiag's database does not answer just now. Try again in a moment; an upload that has its link already is kept."
AWAY_S = 10  # after which to ask again
FAILED = "kvdiag failed to answer. Reload in a moment; an upload that has its link already is kept."


def answer(request: HttpRequest, status: int, title: str, sentence: str, reference: str = "") -> HttpResponse:
    """The same sentence as a page, as JSON or as text, whatever the asker reads."""
    wanted = request.get_preferred_type(["text/plain", "application/json", "text/html"])
    if wanted == "application/json" or request.path_info.startswith("/api/v1/"):
        error = {"code": title.lower().replace(" ", "_"), "message": sentence, "id": reference or secrets.token_hex(4)}
        return JsonResponse({"error": error}, status=status)
    if "text/html" not in request.headers.get("Accept", ""):
        told = f"{sentence} Reference {reference}." if reference else sentence
        return HttpResponse(told + "\n", status=status, content_type="text/plain; charset=utf-8")
    # Without the request: what shows who is signed in would ask the database, which may be what failed.
    page = render_to_string("error.html", {"status": status, "title": title, "said": sentence, "reference": reference})
    return HttpResponse(page, status=status)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return answer(request, 404, "Not found", NOT_FOUND)


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return answer(request, 403, "Not allowed", FORBIDDEN)


def stale_form(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form without the token that its page was given."""
    return answer(request, 403, "Form too old", STALE_FORM)


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    return answer(request, 400, "Not understood", "This request could not be understood.")


def failed(request: HttpRequest, *_: Any) -> HttpResponse:
    """Our own mistake: the reference on the page stands beside the traceback in the log. A database away is none."""
    if is_database_away(problem := sys.exc_info()[1]):
        log.error("The database does not answer: %s %s: %s", request.method, request.path, problem)
        away = answer(request, 503, "Not available", AWAY)
        away["Retry-After"] = str(AWAY_S)
        return away
    reference = secrets.token_hex(4)
    log.exception("Reference %s: %s %s", reference, request.method, request.path)
    return answer(request, 500, "Something broke", FAILED, reference)
