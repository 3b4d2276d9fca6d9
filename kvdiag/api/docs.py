"""The page that explains the API, with the reader's own token prefix filled in."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from ingest.answers import absolute
from ingest.refusals import in_mib
from kvdiag.api.problems import CODES
from kvdiag.api.v1 import api
from teams import access
from teams.models import ApiToken


def operations() -> list[dict[str, Any]]:
    """Every operation of the OpenAPI document: method, path, summary, words."""
    found = []
    for path, methods in api.get_openapi_schema(path_prefix="/api/v1/")["paths"].items():
        for method, operation in methods.items():
            found.append(
                {
                    "method": method.upper(),
                    "path": path,
                    "tag": (operation.get("tags") or ["site"])[0],
                    "summary": operation.get("summary", ""),
                    "words": operation.get("description", "").replace("`", ""),
                    "needs_token": bool(operation.get("security")),
                }
            )
    return found


@require_GET
def docs_page(request: HttpRequest) -> HttpResponse:
    """Sending, reading, errors, limits; commands to copy."""
    token = None
    if access.is_person(request.user):
        token = ApiToken.objects.filter(user=request.user, revoked_at=None).order_by("-pk").first()
    team = access.teams_of(request.user).first() if access.is_person(request.user) else None
    context = {
        "section": "api",
        "site": absolute(request, "/"),
        "bearer": f"kvd_…{token.hint}" if token else "kvd_…",
        "own_token": token,
        "team": team,
        "operations": operations(),
        "codes": [(code, words.replace("`", "")) for code, words in CODES.items()],
        "passing_limit": in_mib(settings.KVDIAG_LIMITS.max_passing_bytes),
        "limits": settings.KVDIAG_LIMITS.as_dict().items(),
    }
    return render(request, "api/docs.html", context)


@require_GET
def limits_page(request: HttpRequest) -> HttpResponse:
    """Limits and retention, as configured here."""
    return render(
        request, "api/limits.html", {"limits": settings.KVDIAG_LIMITS, "all": settings.KVDIAG_LIMITS.as_dict().items()}
    )
