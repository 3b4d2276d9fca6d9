"""`kvdiag up` for real: it starts everything, watches it, and leaves nothing behind."""

import os
import re
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.live import LiveStack

only_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def wait_for(claim: Callable[[], bool], within_s: float = 90.0) -> bool:
    deadline = time.monotonic() + within_s
    while not claim():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def processes_of(data: Path) -> set[int]:
    """The processes that were started with this data folder, whoever their parent is now.

    The broker writes its title over its variables, but names its socket there.
    """
    variable, socket = f"KVDIAG_DATA={data}\0".encode(), f"{data}/run/".encode()
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words, variables = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes() + b"\0"
                if (variable in variables or socket in words) and _is_alive(entry):
                    found.add(int(entry.name))
            except OSError:
                continue
    return found


def _is_alive(entry: Path) -> bool:
    return re.search(r"^State:\s+[ZX]", (entry / "status").read_text(), flags=re.MULTILINE) is None


def process_running(stack: LiveStack, program: str) -> int:
    """The oldest process of this stack whose command line has this word."""
    for pid in sorted(processes_of(stack.data)):
        if program.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
    pytest.fail(f"no {program} runs")


@pytest.fixture
def stack(tmp_path: Path, live_stack: LiveStack) -> Iterator[LiveStack]:
    """A site for one test to ill-treat; what takes long to prepare it has from the common one."""
    collected = str(live_stack.data / "static")
    live_stack.lend_preparation(tmp_path / "data")
    stack = LiveStack.start(tmp_path / "data", KVDIAG_STATIC_ROOT=collected).wait_until_ready()
    yield stack
    stack.stop()


def test_the_site_answers_with_its_headers(live_stack: LiveStack) -> None:
    connection = HTTPConnection("127.0.0.1", live_stack.port, timeout=10)
    connection.request("GET", "/readyz")
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b'{"database": true, "broker": true}')
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "unsafe" not in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Robots-Tag"] == "noindex, nofollow, noarchive"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert "no-store" in answer.headers["Cache-Control"]


def test_plotly_comes_from_this_site_compressed_and_kept_for_good(live_stack: LiveStack) -> None:
    names = [path.name for path in (live_stack.data / "static" / "plotly").iterdir()]
    hashed = next(name for name in names if re.fullmatch(r"plotly\.min\.[0-9a-f]{12}\.js", name))
    connection = HTTPConnection("127.0.0.1", live_stack.port, timeout=10)
    connection.request("GET", f"/static/plotly/{hashed}", headers={"Accept-Encoding": "gzip"})
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Content-Encoding"]) == (200, "gzip")
    assert "immutable" in answer.headers["Cache-Control"]
    assert len(answer.read()) < 2_000_000


def test_a_name_the_site_was_not_given_is_refused(live_stack: LiveStack) -> None:
    connection = HTTPConnection("127.0.0.1", live_stack.port, timeout=10)
    connection.request("GET", "/", headers={"Host": "evil.example"})
    assert connection.getresponse().status == 400


def test_what_it_keeps_is_for_its_owner_alone(live_stack: LiveStack) -> None:
    assert stat.S_IMODE(live_stack.data.stat().st_mode) == 0o700
    for name in ("secret.key", "kvdiag.sqlite3"):
        assert stat.S_IMODE((live_stack.data / name).stat().st_mode) == 0o600
    assert stat.S_IMODE((live_stack.data / "run").stat().st_mode) == 0o700


def test_a_second_up_on_the_same_folder_is_told_who_has_it(live_stack: LiveStack) -> None:
    second = LiveStack.start(live_stack.data)
    assert second.process.wait(90) == 1
    assert second.said() == (
        f"kvdiag: The data folder {live_stack.data} is in use by another kvdiag ({live_stack.url}/, "
        f"process {live_stack.process.pid}); stop that one, or choose a folder with --data.\n"
    )


def test_a_port_in_use_is_said_before_anything_is_started(live_stack: LiveStack, tmp_path: Path) -> None:
    other = LiveStack.start(tmp_path / "data", port=live_stack.port)
    assert other.process.wait(90) == 1
    assert re.fullmatch(
        rf"kvdiag: Port {live_stack.port} is in use; stop what uses it, or choose another: --port \d+\.\n", other.said()
    )
    assert [path.name for path in other.data.iterdir()] == ["up.json"]


def test_a_wrong_setting_is_one_sentence_and_leaves_nothing_running(tmp_path: Path) -> None:
    stack = LiveStack.start(tmp_path / "data", KVDIAG_MAX_LINES="many")
    assert stack.process.wait(90) == 1
    assert stack.said().splitlines()[-1] == ("kvdiag: KVDIAG_MAX_LINES is 'many'; write a whole number of at least 1.")
    assert processes_of(stack.data) == set()


def test_a_database_that_does_not_answer_is_one_sentence(tmp_path: Path) -> None:
    stack = LiveStack.start(tmp_path / "data", DATABASE_URL="postgresql://nobody@127.0.0.1:1/none")
    assert stack.process.wait(90) == 1
    last = stack.said().splitlines()[-1]
    assert last.startswith("kvdiag: The database does not answer (") and last.endswith("; look at DATABASE_URL.")


@only_linux
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_when_asked_to_stop_it_stops_everything(number: signal.Signals, stack: LiveStack) -> None:
    assert len(processes_of(stack.data)) >= 4
    assert stack.stop(number) == 0
    assert processes_of(stack.data) == set()
    assert stack.said().splitlines()[-1] == "kvdiag: stopped"


@only_linux
def test_when_the_supervisor_is_killed_nothing_lives_on_and_it_starts_again(stack: LiveStack) -> None:
    stack.process.kill()
    stack.process.wait()
    assert wait_for(lambda: processes_of(stack.data) == set())
    again = stack.start_again(port=stack.port).wait_until_ready()
    assert again.status("/readyz") == 200
    assert again.stop() == 0


@only_linux
@pytest.mark.parametrize(("program", "name"), [("gunicorn", "web server"), ("celery", "worker"), ("valkey", "broker")])
def test_a_child_that_is_killed_runs_again(program: str, name: str, stack: LiveStack) -> None:
    victim = process_running(stack, program)
    os.kill(victim, signal.SIGKILL)
    assert wait_for(lambda: f"the {name} runs again" in stack.said()), stack.said()
    assert f"the {name} ended (signal 9" in stack.said()
    assert wait_for(lambda: stack.status("/readyz") == 200)
    assert process_running(stack, program) != victim


def _children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@only_linux
def test_a_worker_whose_beat_is_killed_runs_again(stack: LiveStack) -> None:
    """What brings a lost upload back is beat, which Celery does not start again."""
    assert wait_for(lambda: len(_children_of(process_running(stack, "celery"))) == 3)
    worker = process_running(stack, "celery")
    for child in _children_of(worker):
        os.kill(child, signal.SIGKILL)
    assert wait_for(lambda: "the worker runs again" in stack.said()), stack.said()
    assert wait_for(lambda: len(_children_of(process_running(stack, "celery"))) == 3)
    assert process_running(stack, "celery") != worker


@only_linux
def test_a_broker_whose_file_is_damaged_begins_with_an_empty_one(stack: LiveStack) -> None:
    stack.stop()
    for part in (stack.data / "broker").rglob("*"):
        if part.is_file():
            part.write_bytes(b"no such format")
    again = stack.start_again().wait_until_ready()
    assert "its files are put aside in broker.aside." in again.said()
    assert again.status("/readyz") == 200
    assert again.stop() == 0


@only_linux
@pytest.mark.services
def test_postgresql_and_redis_take_the_place_of_the_embedded_parts(
    tmp_path: Path, postgres_url: str, redis_url: str, live_stack: LiveStack
) -> None:
    variables = {"DATABASE_URL": postgres_url, "REDIS_URL": redis_url}
    collected = str(live_stack.data / "static")
    stack = LiveStack.start(tmp_path / "data", KVDIAG_STATIC_ROOT=collected, **variables).wait_until_ready()
    try:
        assert stack.status("/readyz") == 200
        kept = {path.name for path in stack.data.iterdir()}
        assert not kept & {"kvdiag.sqlite3", "broker", "run"}
    finally:
        assert stack.stop() == 0


def test_without_any_server_tasks_go_through_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kvdiag.up import broker

    monkeypatch.setattr(broker, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert broker.find_server() is None


def test_the_socket_of_a_deep_data_folder_has_a_short_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kvdiag.up import broker

    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(broker, "LONGEST_SOCKET_PATH", len(str(tmp_path)) + 40)
    deep = tmp_path / ("a" * 60)
    path = broker.socket_path(deep)
    assert path.parent.parent == tmp_path and path.parent.name.startswith("kvdiag-")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert broker.socket_path(deep) == path
    assert broker.socket_path(tmp_path / "b") == tmp_path / "b" / "run" / "broker.sock"
