"""What all tests share: the services they may talk to, the running site, and the browser."""

import os
import shutil
from collections.abc import Iterator

import pytest

from tests.live import LiveStack, pick_port

CHROMIUM_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Chromium as root, with no network but this machine's.
CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def _missing(what: str, required_by: str) -> None:
    """Skips; where the run requires it (KVDIAG_REQUIRE_…=1), fails instead."""
    if os.environ.get(required_by) == "1":
        pytest.fail(f"{what}, and {required_by}=1 requires it", pytrace=False)
    pytest.skip(what)


# --- Services ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A fresh PostgreSQL database of this test process, dropped at the end."""
    server = os.environ.get("KVDIAG_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/test")
    import psycopg

    try:
        connection = psycopg.connect(server, autocommit=True, connect_timeout=5)
    except psycopg.OperationalError:
        _missing("no PostgreSQL answers on 127.0.0.1:5432", "KVDIAG_REQUIRE_SERVICES")
        raise
    name = f"kvdiag_test_{os.getpid()}"
    with connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name}")
        yield server.rpartition("/")[0] + f"/{name}"
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    """A Redis database of this test process: one that is empty, and is emptied again at the end."""
    import redis

    server = os.environ.get("KVDIAG_TEST_REDIS", "redis://127.0.0.1:6379")
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    own = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    for number in range(1 + own, 16, workers):
        client = redis.Redis.from_url(f"{server}/{number}", socket_connect_timeout=5)
        try:
            is_empty = client.dbsize() == 0
        except redis.RedisError:
            _missing("no Redis answers on 127.0.0.1:6379", "KVDIAG_REQUIRE_SERVICES")
            raise
        if is_empty:
            yield f"{server}/{number}"
            client.flushdb()
            client.close()
            return
        client.close()
    _missing("no database of the Redis on 127.0.0.1:6379 is empty", "KVDIAG_REQUIRE_SERVICES")


# --- The running site -------------------------------------------------------------------------------------------------


@pytest.fixture
def free_port() -> int:
    return pick_port()


@pytest.fixture(scope="session")
def live_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStack]:
    """The whole site as an operator starts it, one for all tests of this process: web, worker and broker."""
    variables = {
        "KVDIAG_ANONYMOUS_UPLOADS_PER_MINUTE": "10000",
        "KVDIAG_ANONYMOUS_READS_PER_MINUTE": "100000",
        "KVDIAG_TOKEN_REQUESTS_PER_MINUTE": "100000",
        "KVDIAG_MIN_FREE_DISK_BYTES": "1",
    }
    stack = LiveStack.start(tmp_path_factory.mktemp("live") / "data", **variables).wait_until_ready()
    yield stack
    stack.stop()


# --- The browser ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def chromium_path() -> str:
    found = next((path for name in CHROMIUM_NAMES if (path := shutil.which(name))), None)
    if found is None:
        _missing("no Chromium is installed", "KVDIAG_REQUIRE_BROWSER")
    assert found is not None
    return found


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict, chromium_path: str) -> dict:
    """pytest-playwright starts the system's Chromium; none is downloaded."""
    return {**browser_type_launch_args, "executable_path": chromium_path, "args": CHROMIUM_ARGUMENTS}


def pytest_addoption(parser: pytest.Parser) -> None:
    """--accept rewrites the golden reports of the corpus; their diff is reviewed like code."""
    parser.addoption("--accept", action="store_true", default=False, help="rewrite tests/corpus/*/expected.json")
