"""What every answer of the site says about itself."""

from collections.abc import Callable

from django.db import DataError
from django.http import HttpRequest, HttpResponse

from kvdiag import error_pages


class PrivateByDefault:
    """No page is for a search engine or a shared cache, unless a view says so itself.

    A link is the key to a report, so it must not be listed, remembered by a proxy, or handed on as a referrer
    (SECURE_REFERRER_POLICY). Static files are the exception: their names carry a hash of their content.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("X-Robots-Tag", "noindex, nofollow, noarchive")
        if not request.path_info.startswith("/static/"):
            response.headers.setdefault("Cache-Control", "private, no-store")
        response.headers.setdefault("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
        return response


def is_nul(problem: Exception) -> bool:
    """True when PostgreSQL was given a text with a NUL character, which it can neither keep nor look for."""
    return isinstance(problem, DataError) and "NUL" in str(problem)


class WithoutNul:
    """A NUL in an address or a form is the asker's mistake, not a failure of ours."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, problem: Exception) -> HttpResponse | None:
        return error_pages.bad_request(request) if is_nul(problem) else None
