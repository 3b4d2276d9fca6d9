"""/healthz: this process answers. /readyz: the database and the broker answer it too."""

from pathlib import Path

import redis
from django.conf import settings
from django.db import DatabaseError, InterfaceError, OperationalError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse


def healthz(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok\n", content_type="text/plain")


def readyz(request: HttpRequest) -> HttpResponse:
    """200 when both answer, else 503; the body says which does not."""
    state = {"database": database_answers(), "broker": broker_answers()}
    return JsonResponse(state, status=200 if all(state.values()) else 503)


def database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return False
    return True


def is_database_away(problem: BaseException | None) -> bool:
    """True when a request failed because the database could not be reached, went away, or stayed locked."""
    if not isinstance(problem, OperationalError | InterfaceError):
        return False
    return "database is locked" in str(problem) or connection.connection is None or not connection.is_usable()


def broker_answers() -> bool:
    if settings.KVDIAG_REDIS_URL is None:
        return Path(settings.CELERY_BROKER_TRANSPORT_OPTIONS["data_folder_out"]).is_dir()
    try:
        with redis.Redis.from_url(settings.KVDIAG_REDIS_URL, socket_connect_timeout=2, socket_timeout=2) as client:
            return bool(client.ping())
    except redis.RedisError:
        return False
