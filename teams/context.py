"""What every page may say about the site itself."""

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from django.conf import settings
from django.http import HttpRequest

try:
    VERSION = version("kvdiag")
except PackageNotFoundError:
    VERSION = ""  # run from a checkout


def site(request: HttpRequest) -> dict[str, Any]:
    """Limits, and whether strangers may upload or sign up."""
    return {
        "site_limits": settings.KVDIAG_LIMITS,
        "site_takes_anonymous": settings.KVDIAG_ANONYMOUS_UPLOADS,
        "site_takes_sign_ups": settings.KVDIAG_SIGN_UP,
        "site_sends_mail": settings.KVDIAG_SENDS_MAIL,
        "kvdiag_version": VERSION,
    }
