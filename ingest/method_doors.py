"""Two doors that are told by their method: `curl -T` sends PUT to any name, and DELETE on a page deletes it."""

from __future__ import annotations

import re
from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import include, path
from django.views.decorators.csrf import csrf_exempt

from ingest import views

_PAGE = re.compile(r"/r/[\w-]+/?")


class MethodDoors:
    """Hands PUT below / (outside the API) and DELETE of a report's page to the upload door's own addresses.

    Done before the other addresses are looked at, so that those need not know of it and a catch-all among them does
    not change what they answer to GET.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        is_put = request.method == "PUT" and not request.path_info.startswith("/api/")
        is_delete = request.method == "DELETE" and _PAGE.fullmatch(request.path_info) is not None
        if is_put or is_delete:
            request.urlconf = __name__  # type: ignore[attr-defined]
        return self.get_response(request)


@csrf_exempt
def by_method(request: HttpRequest, name: str = "") -> HttpResponse:
    if request.method == "DELETE":
        return views.delete_by_token(request, name.removeprefix("r/").rstrip("/"))
    return views.put(request, name)


# The site's own addresses follow, never reached, so that an answer can name them: reverse() looks in these patterns.
urlpatterns = [path("", by_method), path("<path:name>", by_method), path("", include(settings.ROOT_URLCONF))]
