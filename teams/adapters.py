"""What the site decides for django-allauth: who may sign up, and where a person lands."""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.conf import settings
from django.http import HttpRequest


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]
    """Sign-up is open or closed by KVDIAG_SIGN_UP; an invitation brings its own form (teams/views/joining.py)."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return bool(settings.KVDIAG_SIGN_UP)

    def get_login_redirect_url(self, request: HttpRequest) -> str:
        return "/dashboard/"

    def get_logout_redirect_url(self, request: HttpRequest) -> str:
        return "/"

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        if settings.KVDIAG_SENDS_MAIL:
            super().send_mail(template_prefix, email, context)


class OidcAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc]
    """Whom the operator's own server lets in has an account here, also where strangers may not sign up."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        return True
