"""The list of what is hidden, published so that a browser can show it before anything is sent."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_GET

from kvdiag.diagnosis.masking import PATTERNS


@require_GET
@cache_control(public=True, max_age=3600)
def patterns(request: HttpRequest) -> HttpResponse:
    """The engine's own list, in its order: {"patterns": [{"kind", "literals", "expression", "flags", …}]}."""
    return JsonResponse({"patterns": [pattern.as_dict() for pattern in PATTERNS]})
