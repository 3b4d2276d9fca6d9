"""DATABASE_URL → Django's database settings."""

from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote

from kvdiag.environment import Environment, WrongSetting

# WAL alone does not cure "database is locked": a read that turns into a write within one transaction fails at once,
# whatever the timeout. IMMEDIATE takes the write lock at the start, and waits for it.
SQLITE_OPTIONS = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;",
}


def read_database(environment: Environment, data: Path) -> dict[str, Any]:
    """The database named by DATABASE_URL; without one, a SQLite file in the data folder.

    sqlite:////absolute/path, or postgresql://user:password@host:port/name?sslmode=require.
    Raises WrongSetting.
    """
    url = environment.url("DATABASE_URL", f"sqlite:///{data / 'kvdiag.sqlite3'}", ("sqlite", "postgresql", "postgres"))
    assert url is not None
    return _sqlite(url) if url.scheme == "sqlite" else _postgresql(url)


def _sqlite(url: SplitResult) -> dict[str, Any]:
    path = unquote(url.path)[1:]
    if url.netloc or not path:
        raise WrongSetting("DATABASE_URL has no file; write sqlite:////absolute/path/kvdiag.sqlite3.")
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": path, "OPTIONS": dict(SQLITE_OPTIONS)}


def _postgresql(url: SplitResult) -> dict[str, Any]:
    name = unquote(url.path).removeprefix("/")
    if not name:
        raise WrongSetting("DATABASE_URL names no database; write postgresql://user:password@host:5432/kvdiag.")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": name,
        "USER": unquote(url.username or ""),
        "PASSWORD": unquote(url.password or ""),
        "HOST": unquote(url.hostname or ""),
        "PORT": str(url.port or ""),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": dict(parse_qsl(url.query)),
    }
