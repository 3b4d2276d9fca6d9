"""The site as an operator starts it: a `kvdiag up` of the tests' own."""

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def pick_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def clean_environment(**changes: str) -> dict[str, str]:
    """This process's variables without those that would point kvdiag at other data."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("KVDIAG_") and name not in ("REDIS_URL", "DATABASE_URL", "DJANGO_SETTINGS_MODULE")
    }
    return kept | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"} | changes


@dataclass
class LiveStack:
    """A `kvdiag up` on a port and data folder of its own.

    url  http://127.0.0.1:<port>, without a slash at its end
    """

    url: str
    port: int
    data: Path
    process: subprocess.Popen[str]
    output: Path
    variables: dict[str, str]

    @classmethod
    def start(cls, data: Path, *, port: int | None = None, **variables: str) -> "LiveStack":
        """Starts it; it may not be ready yet."""
        port = port or pick_port()
        output = data.parent / f"up.{data.name}.{port}.txt"
        with output.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "kvdiag.up", "--port", str(port), "--data", str(data)],
                cwd=ROOT,
                env=clean_environment(**variables),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                text=True,
            )
        return cls(f"http://127.0.0.1:{port}", port, data, process, output, variables)

    def lend_preparation(self, data: Path) -> None:
        """Gives a new data folder a copy of this one's database, so that its `up` has nothing to prepare."""
        data.mkdir(mode=0o700)
        with sqlite3.connect(self.data / "kvdiag.sqlite3") as mine, sqlite3.connect(data / "kvdiag.sqlite3") as copy:
            mine.backup(copy)
        mark = (self.data / "prepared").read_text()
        (data / "prepared").write_text(mark.replace(str(self.data), str(data)))

    def start_again(self, *, port: int | None = None) -> "LiveStack":
        """Another run on the same folder, with the same variables."""
        return LiveStack.start(self.data, port=port, **self.variables)

    def wait_until_ready(self, within_s: float = 150.0) -> "LiveStack":
        deadline = time.monotonic() + within_s
        while "ready at" not in self.said():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                pytest.fail(f"kvdiag up did not become ready:\n{self.said()}\n{self.logs()}", pytrace=False)
            time.sleep(0.05)
        return self

    def said(self) -> str:
        return self.output.read_text()

    def logs(self) -> str:
        return "\n".join(f"{log.name}: {log.read_text()[-2000:]}" for log in sorted(self.data.glob("logs/*.log")))

    def status(self, path: str) -> int | None:
        """The status of a GET; None when nobody listens."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except OSError:
            return None
        finally:
            connection.close()

    def stop(self, number: signal.Signals = signal.SIGTERM, within_s: float = 40.0) -> int:
        """Its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()
