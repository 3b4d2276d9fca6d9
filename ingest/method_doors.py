"""Two doors that are told by their method: `curl -T` sends PUT to any name, and DELETE on a page deletes it."""

from __future__ import annotations

import re
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

PUT = "/-/put"
DELETE = "/-/delete"
_PAGE = re.compile(r"/r/([\w-]+)/?")


class MethodDoors:
    """Hands PUT below / (outside the API) and DELETE of a report's page to the upload door's own addresses.

    Done before addresses are looked up, so that those need not know of it: a catch-all among them would change what
    they answer to GET.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.method == "PUT" and not request.path_info.startswith("/api/"):
            request.path_info = PUT + request.path_info
        elif request.method == "DELETE" and (page := _PAGE.fullmatch(request.path_info)):
            request.path_info = f"{DELETE}/{page[1]}"
        return self.get_response(request)
