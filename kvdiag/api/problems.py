"""How the API says no: one form of an error, with a code that stays and an id to ask by."""

from __future__ import annotations

import logging
import uuid
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI, Schema
from ninja.errors import AuthenticationError, HttpError, ValidationError
from pydantic import Field

from ingest.refusals import Refused
from kvdiag.error_pages import AWAY, AWAY_S
from kvdiag.health import is_database_away
from kvdiag.middleware import is_nul
from reports.cursor import BadCursor

logger = logging.getLogger(__name__)

CODES = {
    "token_missing": "401: the request has no token. Send `Authorization: Bearer kvd_…`.",
    "token_invalid": "401: the token is unknown, has ended or was revoked.",
    "not_allowed": "403: the token's scope, or its owner's role in the team, does not allow this.",
    "not_found": "404: there is no such object, or the token may not see it.",
    "invalid": "422: a parameter or the body does not fit; `message` names it.",
    "bad_cursor": "400: the cursor is not one of ours.",
    "not_ready": "409: the report is not ready yet; ask its status again.",
    "team_full": "409: the team keeps as many reports as it may.",
    "log_gone": "410: the log of this report is not kept; its figures are.",
    "too_large": "413: the body is larger than the limit; `message` says what to do.",
    "not_sglang": "422: the log has no start of an SGLang server.",
    "unreadable": "422: the bytes are no text, or an archive that cannot be read.",
    "out_of_time": "422: the log was not read in the time for an answer at once; send it as an upload.",
    "out_of_memory": "422: the log took more memory than one may.",
    "too_many": "429: too many requests; Retry-After gives the seconds.",
    "busy": "503: others’ logs are being read; Retry-After gives the seconds.",
    "stopped": "503: the process that read the log was killed, twice; Retry-After gives the seconds.",
    "not_available": "503: the database does not answer just now; ask again after `Retry-After`.",
    "internal": "500: our own mistake; the id finds it in the site's log.",
}


class Detail(Schema):
    """What went wrong."""

    code: str = Field(description="Stays the same over releases")
    message: str = Field(description="A sentence for a person")
    id: str = Field(description="Name it when you ask about this answer")


class Problem(Schema):
    """The body of every error."""

    error: Detail


class No(Exception):
    """An answer other than success, with its code."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


def not_allowed(message: str = "The token’s scope, or its owner’s role, does not allow this.") -> No:
    """403."""
    return No(403, "not_allowed", message)


def answers(success: int, body: Any, *statuses: int) -> dict[int, Any]:
    """The answers of an operation for the OpenAPI document: its success, its own errors, and those all have."""
    return {success: body, **dict.fromkeys((401, 403, 404, 422, 429, *statuses), Problem)}


def connect(api: NinjaAPI) -> None:
    """Make every failure answer in the one form."""

    def say(
        request: HttpRequest, status: int, code: str, message: str, headers: dict[str, str] | None = None
    ) -> HttpResponse:
        body = {"error": {"code": code, "message": message, "id": uuid.uuid4().hex[:12]}}
        response = api.create_response(request, body, status=status)
        for name, value in (headers or {}).items():
            response[name] = value
        if status >= 500:
            logger.error("API error %s", body["error"]["id"], exc_info=True)
        return response

    @api.exception_handler(No)
    def no(request: HttpRequest, problem: No) -> HttpResponse:
        return say(request, problem.status, problem.code, problem.message)

    @api.exception_handler(Http404)
    def missing(request: HttpRequest, problem: Http404) -> HttpResponse:
        return say(request, 404, "not_found", "There is no such object, or you may not see it.")

    @api.exception_handler(ValidationError)
    def invalid(request: HttpRequest, problem: ValidationError) -> HttpResponse:
        where = "; ".join(
            f"{'.'.join(str(part) for part in each['loc'][1:])}: {each['msg']}" for each in problem.errors[:5]
        )
        return say(request, 422, "invalid", f"{where}."[:1000])

    @api.exception_handler(AuthenticationError)
    def unknown(request: HttpRequest, problem: AuthenticationError) -> HttpResponse:
        headers = {"WWW-Authenticate": "Bearer"}
        return say(request, 401, "token_missing", "Send a token: Authorization: Bearer kvd_…", headers)

    @api.exception_handler(PermissionDenied)
    def denied(request: HttpRequest, problem: PermissionDenied) -> HttpResponse:
        return say(request, 403, "not_allowed", "The token’s scope, or its owner’s role, does not allow this.")

    @api.exception_handler(BadCursor)
    def bad_cursor(request: HttpRequest, problem: BadCursor) -> HttpResponse:
        return say(request, 400, "bad_cursor", str(problem) or "The cursor is not one of ours.")

    @api.exception_handler(Refused)
    def refused(request: HttpRequest, problem: Refused) -> HttpResponse:
        return say(request, problem.status, problem.code, problem.sentence, problem.headers)

    @api.exception_handler(HttpError)
    def http_error(request: HttpRequest, problem: HttpError) -> HttpResponse:
        code = "invalid" if problem.status_code in (400, 422) else "not_allowed"
        return say(request, 422 if problem.status_code == 400 else problem.status_code, code, problem.message)

    @api.exception_handler(Exception)
    def ours(request: HttpRequest, problem: Exception) -> HttpResponse:
        if is_nul(problem):
            return say(request, 422, "invalid", "A text has a NUL character, which cannot be kept.")
        if is_database_away(problem):
            return say(request, 503, "not_available", AWAY, {"Retry-After": str(AWAY_S)})
        return say(request, 500, "internal", "Our own mistake. It is noted under this id.")
