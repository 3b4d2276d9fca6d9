"""Version 1 of the API, put together."""

from __future__ import annotations

from ninja import NinjaAPI

from kvdiag.api import deployments, problems, reports, teams

DESCRIPTION = """What kvdiag knows, for programs. A token belongs to one person and one team: everything below is about
that team. Figures that a log does not give are null. Errors have a code that stays, and an id to ask by."""

api = NinjaAPI(
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
