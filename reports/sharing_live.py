"""What a shared page asks for while it is read: scenarios and single lines. None of it counts as a view."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_GET

from reports.document import launch_number, launches
from reports.sharing import log_link, needs_door, no_such_link, reader_of
from reports.sharing_panel import launch_of, narrow_of
from reports.views import some_answer
from reports.what_if_panel import panel_answer


@require_GET
def shared_what_if(request: HttpRequest, token: str) -> HttpResponse:
    """The scenario of the given settings for one launch, as JSON, within the link's scope."""
    link = reader_of(request, token)
    stored = link.upload.report if link is not None and not needs_door(request, link) else None
    if link is None or stored is None:
        return no_such_link(request)
    number = launch_number(request.GET.get("launch", ""))
    launch = launch_of(stored, number if number is not None else len(launches(stored.document)))
    if launch is None:
        return no_such_link(request)
    body, status = panel_answer(launch, request.GET, narrow_of(link))
    return JsonResponse(body, status=status)


@require_GET
def shared_log_some(request: HttpRequest, token: str) -> HttpResponse:
    """Single lines of the masked log by their numbers, of a link that shows it."""
    link = log_link(request, token)
    if link is None:
        return no_such_link(request)
    return some_answer(request, link.upload)
