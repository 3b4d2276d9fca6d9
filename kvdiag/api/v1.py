"""Version 1 of the API, put together."""

from __future__ import annotations

from functools import cache
from typing import Any

from ninja import NinjaAPI
from ninja.openapi import get_schema
from ninja.openapi.schema import OpenAPISchema

from kvdiag.api import deployments, problems, reports, teams

DESCRIPTION = """What kvdiag knows, for programs. A token belongs to one person and one team: everything below is about
that team. Figures that a log does not give are null. Errors have a code that stays, and an id to ask by."""


class Api(NinjaAPI):
    """The description does not change while the site runs, so it is made once."""

    def get_openapi_schema(self, *, path_prefix: str | None = None, path_params: Any = None) -> OpenAPISchema:
        return _schema(path_prefix)


@cache
def _schema(path_prefix: str | None) -> OpenAPISchema:
    return get_schema(api=api, path_prefix=path_prefix or "/api/v1/")


api = Api(
    title="kvdiag",
    version="1",
    description=DESCRIPTION,
    docs_url=None,
    openapi_url="/openapi.json",
    urls_namespace="api-v1",
)
problems.connect(api)
api.add_router("", reports.router)
api.add_router("", deployments.router)
api.add_router("", teams.router)
