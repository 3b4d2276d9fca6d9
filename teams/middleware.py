"""API tokens at the doors that take them."""

import uuid
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse, JsonResponse

from teams.services import user_of_token

PREFIXES = ("/api/", "/r/", "/compare/")


def takes_tokens(request: HttpRequest) -> bool:
    """True at the API, the upload door and the reports; account and settings pages want a browser session."""
    return request.path == "/" or request.method == "PUT" or request.path.startswith(PREFIXES)


class TokenMiddleware:
    """Signs a request in by `Authorization: Bearer kvd_…`. A token that opens nothing is answered 401 at once:
    a pipeline whose key has ended must not turn into an anonymous sender unnoticed.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        kind, _, secret = request.headers.get("Authorization", "").partition(" ")
        if kind.lower() == "bearer" and takes_tokens(request):
            user = user_of_token(secret.strip())
            if user is None:
                return refuse()
            request.user = user
            # A browser never adds this header on its own, so there is no forged form to guard against.
            request._dont_enforce_csrf_checks = True  # type: ignore[attr-defined]
        return self.get_response(request)


def refuse() -> JsonResponse:
    """401 in the API's form of an error."""
    error = {
        "code": "token_invalid",
        "message": "The token is unknown, has ended or was revoked. Make a new one under Settings, API tokens.",
        "id": uuid.uuid4().hex[:12],
    }
    return JsonResponse({"error": error}, status=401, headers={"WWW-Authenticate": "Bearer"})
