"""A worker killed in the middle of a diagnosis: the running site finishes the upload, once."""

import json
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psycopg
import pytest

from tests.live import LiveStack

LOG = (Path(__file__).resolve().parent.parent / "corpus" / "kimi-k25-8gpu" / "log.txt").read_bytes()
BATCH = b"[2026-11-29 09:30:00 TP0] Decode batch. #running-req: 4, #token: 4096, token usage: 0.03, gen throughput\n"


@pytest.fixture(params=["embedded", "postgresql and redis"])
def impatient_stack(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LiveStack]:
    """A site that takes an upload back from a silent worker after three seconds."""
    variables = {"KVDIAG_LEASE_S": "3", "KVDIAG_MIN_FREE_DISK_BYTES": "1"}
    if request.param != "embedded":
        variables["DATABASE_URL"] = request.getfixturevalue("postgres_url")
        variables["REDIS_URL"] = request.getfixturevalue("redis_url")
    stack = LiveStack.start(tmp_path / "data", **variables)
    yield stack.wait_until_ready()
    stack.stop()


def descendants(pid: int) -> dict[int, str]:
    """The processes below one, with their command lines."""
    parents: dict[int, int] = {}
    commands: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            commands[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
    below = {pid}
    while more := {child for child, parent in parents.items() if parent in below} - below:
        below |= more
    return {child: commands[child] for child in below - {pid} if child in commands}


def until(ask, within_s: float = 60.0):
    """What `ask` answers once it is true."""
    deadline = time.monotonic() + within_s
    while not (answer := ask()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
    return answer


@contextmanager
def rows(stack: LiveStack) -> Iterator[Callable[[str], list[tuple]]]:
    """Asks the site's database."""
    if url := stack.variables.get("DATABASE_URL"):
        connection = psycopg.connect(url)
    else:
        connection = sqlite3.connect(stack.data / "kvdiag.sqlite3")
    with closing(connection):
        yield lambda query: [tuple(row) for row in connection.execute(query).fetchall()]


def get(url: str) -> tuple[int, dict]:
    try:
        with urlopen(url) as answer:
            return answer.status, json.load(answer)
    except HTTPError as problem:
        return problem.code, json.load(problem)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds the worker through /proc")
def test_a_worker_killed_in_the_middle_costs_an_attempt_and_no_report(impatient_stack: LiveStack) -> None:
    log = LOG + BATCH * 150_000
    request = Request(impatient_stack.url + "/", log, {"Accept": "application/json", "Content-Type": "text/plain"})
    with urlopen(request) as answer:
        made = json.load(answer)

    def is_begun() -> bool:
        _, progress = get(made["url"] + "status.json")
        return progress["phases"][1]["state"] != "todo"

    until(is_begun)
    processes = descendants(impatient_stack.process.pid)
    for name, number in (("ingest.engine_process", signal.SIGSTOP), ("celery", signal.SIGKILL)):
        for pid in (pid for pid, command in processes.items() if name in command):
            os.kill(pid, number)

    def document() -> dict | None:
        status, body = get(made["report"])
        assert status in (200, 202), body
        return body if status == 200 else None

    assert until(document, within_s=90)["launches"][0]["kv_cache"]["tokens"] == 159_277
    with rows(impatient_stack) as ask:
        assert ask("SELECT state, attempt FROM ingest_upload") == [("ready", 2)]
        assert ask("SELECT count(*) FROM ingest_storedreport") == [(1,)]
    folder = impatient_stack.data / "uploads" / made["id"]  # tidied just after the report can be read
    assert until(lambda: [path.name for path in folder.iterdir()] == ["masked-2"])
