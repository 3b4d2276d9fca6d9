"""What every answer of the site says about itself."""

from collections.abc import Callable

from django.conf import settings
from django.db import DataError
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware, InvalidTokenFormat
from django.utils.crypto import constant_time_compare

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


class OwnForms(CsrfViewMiddleware):
    """Django's guard against forged forms, for pages that tell nobody where they are.

    A page with `Referrer-Policy: no-referrer` sends its own forms with `Origin: null` and without a Referer, as a
    sandboxed frame sends a forged one. What tells them apart is `Sec-Fetch-Site`, which browsers set and no page can.
    They leave it out over plain http (other than to this machine); there the token must be the one that was given to
    this very session, so that one planted by a neighbouring site opens nothing. The token itself is checked as ever.
    """

    SESSION_KEY = "own_forms"

    def _origin_verified(self, request: HttpRequest) -> bool:
        if request.META["HTTP_ORIGIN"] != "null":
            return bool(super()._origin_verified(request))
        site = request.headers.get("Sec-Fetch-Site")
        if site is not None or request.is_secure():
            return site == "same-origin"
        return self._is_of_this_session(request)

    def _check_referer(self, request: HttpRequest) -> None:
        if request.headers.get("Sec-Fetch-Site") != "same-origin":
            super()._check_referer(request)

    def _is_of_this_session(self, request: HttpRequest) -> bool:
        """True when the cookie's secret was given to this session; without a session there is nothing to act with."""
        if not request.session.keys():
            return True
        try:
            secret = self._get_secret(request)
        except InvalidTokenFormat:
            return False
        return constant_time_compare(request.session.get(self.SESSION_KEY, ""), secret or "")

    def _set_csrf_cookie(self, request: HttpRequest, response: HttpResponse) -> None:
        super()._set_csrf_cookie(request, response)
        if not request.session.keys():
            return
        # A secret that we made now (at signing in, or for want of a cookie) takes the place of the session's; one that
        # the browser brought does not.
        secret = request.META["CSRF_COOKIE"]
        is_new = secret != request.COOKIES.get(settings.CSRF_COOKIE_NAME)
        if is_new or self.SESSION_KEY not in request.session:
            request.session[self.SESSION_KEY] = secret


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
