"""REDIS_URL → the addresses Celery and the cache need; without one, Celery's filesystem transport."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlunsplit

from kvdiag.environment import Environment, WrongSetting

_SOCKET_SCHEMES = ("redis+socket", "unix")


@dataclass(frozen=True)
class Broker:
    """What carries tasks from the web process to the worker.

    redis_url  as redis-py spells it (unix:// for a socket); None where no Redis is used
    """

    celery_url: str
    redis_url: str | None
    transport_options: dict[str, Any]
    cache: dict[str, Any]


def read_broker(environment: Environment, data: Path, *, longest_task_s: int) -> Broker:
    """The broker named by REDIS_URL: redis://host:port/0, rediss://… or redis+socket:///path.

    A task that a dead worker had taken comes back after the visibility timeout, so that must outlast the longest task.
    Raises WrongSetting.
    """
    url = environment.url("REDIS_URL", "", ("redis", "rediss", *_SOCKET_SCHEMES))
    if url is None:
        return _filesystem(data)
    options = {
        "visibility_timeout": longest_task_s + 30,
        # kombu looks for lost tasks every interval × throttle seconds; 100 by default, 5 here.
        "unacked_restore_interval": 5,
        "unacked_restore_throttle": 1,
    }
    if url.scheme in _SOCKET_SCHEMES:
        path = unquote(url.path)
        if url.netloc or not path.startswith("/"):
            raise WrongSetting("REDIS_URL has no socket path; write redis+socket:///absolute/path.")
        celery_url, redis_url = f"redis+socket://{url.path}", f"unix://{url.path}"
    else:
        if not url.hostname:
            raise WrongSetting("REDIS_URL names no host; write redis://host:6379/0.")
        celery_url = redis_url = urlunsplit(url)
    cache = {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": redis_url, "KEY_PREFIX": "kvdiag"}
    return Broker(celery_url, redis_url, options, cache)


def _filesystem(data: Path) -> Broker:
    """Tasks as files in a folder: no server at all, and no redelivery; the sweeper brings lost work back."""
    folder = data / "queue"
    options = {
        "data_folder_in": str(folder / "tasks"),
        "data_folder_out": str(folder / "tasks"),
        "processed_folder": str(folder / "processed"),
        "control_folder": str(folder / "control"),
        "polling_interval": 0.1,
    }
    cache = {"BACKEND": "django.core.cache.backends.filebased.FileBasedCache", "LOCATION": str(data / "cache")}
    return Broker("filesystem://", None, options, cache)
