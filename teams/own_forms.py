"""Which forms are ours, on a site whose pages tell nobody where they are."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware, InvalidTokenFormat, RejectRequest
from django.utils.crypto import constant_time_compare


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
        """True when the cookie's secret is that of the session's cookie, or no cookie gives any right."""
        if settings.SESSION_COOKIE_NAME not in request.COOKIES or not request.session.keys():
            return True
        try:
            secret = self._get_secret(request)
        except InvalidTokenFormat:
            return False
        return constant_time_compare(request.session.get(self.SESSION_KEY, ""), secret or "")

    def is_ours(self, request: HttpRequest) -> bool:
        """True for a form that holds the token of this very session, wherever it says it comes from."""
        try:
            self._check_token(request)
        except RejectRequest:
            return False
        return self._is_of_this_session(request)

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        response = super().process_response(request, response)
        if "CSRF_COOKIE_NEEDS_UPDATE" in request.META and request.session.keys():  # the page has a form
            self._give_to_session(request)
        return response

    def _give_to_session(self, request: HttpRequest) -> None:
        # A secret that we made now (at signing in, or for want of a cookie) takes the place of the session's; one that
        # the browser brought does not.
        secret = request.META["CSRF_COOKIE"]
        is_new = secret != request.COOKIES.get(settings.CSRF_COOKIE_NAME)
        if is_new or self.SESSION_KEY not in request.session:
            request.session[self.SESSION_KEY] = secret


def is_unplaced(request: HttpRequest) -> bool:
    """True when a browser says nothing of the page that sends: over plain http, with `Origin: null`."""
    return request.headers.get("Origin") == "null" and "Sec-Fetch-Site" not in request.headers


def is_ours(request: HttpRequest) -> bool:
    """True for a form with the token that a page of ours was given for its reader."""
    return OwnForms(lambda _: HttpResponse()).is_ours(request)
