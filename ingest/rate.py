"""How often one sender may come: a token bucket for each, kept in Redis, or in the cache where there is none."""

from __future__ import annotations

import fcntl
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from time import time

import redis
from django.conf import settings
from django.core.cache import cache

from ingest.refusals import Refused

BURST = 2  # minutes' worth that may come at once

# One number a bucket: the moment at which it is full again. Redis runs the script as one step, so that requests that
# come together cannot spend the same token.
_TAKE = """
local now, every, capacity = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local full_at = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now) + every
local wait = full_at - now - every * capacity
if wait > 0 then return tostring(wait) end
redis.call('SET', KEYS[1], tostring(full_at), 'EX', math.ceil(every * capacity) + 1)
return '0'
"""


@lru_cache(maxsize=1)
def _redis(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_connect_timeout=1, socket_timeout=1)


def take(kind: str, who: str, per_minute: int) -> float:
    """Takes one token from the bucket of this sender; the seconds to wait when it is empty, else 0.

    A Redis that does not answer limits nobody.
    """
    every, capacity, name = 60 / per_minute, per_minute * BURST, f"kvdiag:rate:{kind}:{who.replace(' ', '-')}"
    if settings.KVDIAG_REDIS_URL is None:
        return _take_locally(name, every, capacity)
    try:
        return float(_redis(settings.KVDIAG_REDIS_URL).eval(_TAKE, 1, name, time(), every, capacity))
    except redis.RedisError:
        return 0.0


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Without Redis the cache is files in the data folder, on one machine: a lock there holds for all its processes."""
    lock = os.open(settings.KVDIAG_DATA / "rate.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _take_locally(name: str, every: float, capacity: int) -> float:
    with _one_at_a_time():
        now = time()
        full_at = max(cache.get(name) or now, now) + every
        wait = full_at - now - every * capacity
        if wait > 0:
            return wait
        cache.set(name, full_at, math.ceil(every * capacity) + 1)
    return 0.0


def spend(kind: str, who: str, per_minute: int) -> None:
    """Takes one token. Raises Refused (429) with the seconds to wait."""
    wait = math.ceil(take(kind, who, per_minute))
    if wait:
        raise Refused(
            429,
            "too_many",
            f"Too many requests: {per_minute} a minute are welcome. Come back in {wait} s.",
            {"Retry-After": str(wait)},
        )
