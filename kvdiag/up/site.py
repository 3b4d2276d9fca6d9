"""The running site: its processes in the order they are needed, and the loop that watches them."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Event
from types import FrameType

from kvdiag.environment import WrongSetting
from kvdiag.up.broker import answers_ping, find_server, server_command, socket_path
from kvdiag.up.child import Child
from kvdiag.up.preflight import CannotStart

READY_WITHIN_S = 120.0
WATCH_EVERY_S = 0.25
WEB_PROCESSES = 2
WEB_WORKER = "kvdiag.up.web_worker.PacedWorker"
WEB_THREADS = 16  # most of them wait: for the rest of an upload, or for a verdict


def say(what: str) -> None:
    print(f"kvdiag: {what}", flush=True)


class Site:
    """Broker, web and worker on one data folder. `run` returns when it was asked to stop and all have ended."""

    def __init__(self, host: str, port: int, data: Path, address: str) -> None:
        self.host, self.port, self.data, self.address = host, port, data, address
        self.children: list[Child] = []
        self.asked_to_stop = Event()
        self.socket: Path | None = None  # of the embedded broker

    def run(self) -> None:
        """Raises CannotStart, with nothing left running."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue  # started with nohup
            signal.signal(number, self._stop_asked)
        say(f"data in {self.data}")
        try:
            self._start_broker()
            self._prepare()
            self._start("web server", self._web_command())
            self._wait_until_ready()
            if self.asked_to_stop.is_set():
                return
            # The worker loads after the first page can be shown. The kernel kills an orphaned one outright: its task
            # comes back by the lease of its row.
            self._start("worker", self._worker_command(), patience_s=15.0, orphan_signal=signal.SIGKILL)
            say(f"ready at {self.address}   (Ctrl-C stops it)")
            self._say_setup_link()
            self._watch()
        finally:
            self._stop_all()

    def _start(
        self,
        name: str,
        command: list[str],
        *,
        patience_s: float = 10.0,
        orphan_signal: signal.Signals = signal.SIGTERM,
    ) -> Child:
        log = self.data / "logs" / f"{name.split()[0]}.log"
        child = Child(name, command, log, os.environ, patience_s=patience_s, orphan_signal=orphan_signal)
        child.start()
        self.children.append(child)
        return child

    # --- Broker -------------------------------------------------------------------------------------------------------

    def _start_broker(self) -> None:
        if os.environ.get("REDIS_URL", "").strip():
            return
        server = find_server()
        if server is None:
            say("no Valkey or Redis server found; tasks go through files in the data folder")
            return
        try:
            socket = self.socket = socket_path(self.data)
            socket.unlink(missing_ok=True)
        except OSError as problem:
            raise CannotStart(f"The broker's socket cannot be made: {problem}.") from None
        folder = self.data / "broker"
        broker = self._start("broker", server_command(server, folder, socket), patience_s=5.0)
        if not self._broker_answers(broker, socket):
            # Its file may come from a newer server, or be damaged. The rows know what was queued: begin with none.
            aside = folder.with_name(f"broker.aside.{int(time.time())}")
            say(f"the broker does not start ({broker.exit_words()}); its files are put aside in {aside.name}")
            broker.kill()
            folder.rename(aside)
            broker.command = server_command(server, folder, socket)
            broker.start()
            if not self._broker_answers(broker, socket):
                raise CannotStart(f"The broker does not start ({broker.exit_words()}); name a Redis in REDIS_URL.")
        os.environ["REDIS_URL"] = f"redis+socket://{socket}"

    def _broker_answers(self, broker: Child, path: Path) -> bool:
        deadline = time.monotonic() + 10.0
        while broker.is_running and time.monotonic() < deadline and not self.asked_to_stop.is_set():
            if answers_ping(path):
                return True
            time.sleep(0.01)
        return self.asked_to_stop.is_set()

    # --- Database and static files ------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        os.environ["DJANGO_SETTINGS_MODULE"] = "kvdiag.settings"
        try:
            from kvdiag.up import preparation  # reads the settings
        except WrongSetting as wrong:
            raise CannotStart(str(wrong)) from None
        if preparation.is_prepared(self.data):
            return
        say("preparing the database and the static files")
        from django.db import DatabaseError

        try:
            preparation.prepare(self.data)
        except DatabaseError as problem:
            reason = str(problem).strip().splitlines()[0].rstrip(".")
            raise CannotStart(f"The database does not answer ({reason}); look at DATABASE_URL.") from None

    def _say_setup_link(self) -> None:
        """The way to the first account, while there is none. Shown on the terminal, written nowhere."""
        mark = self.data / "has-account"
        if mark.exists():
            return
        command = [sys.executable, "-m", "django", "setup_link"]
        asked = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        while asked.poll() is None:
            if self.asked_to_stop.wait(0.1):
                asked.kill()
        path = asked.communicate()[0].strip()
        if asked.returncode == 0 and path:
            say(f"the first account is made at {self.address.rstrip('/')}{path}   (works once, for a day)")
        elif asked.returncode == 0:
            mark.touch()

    # --- Commands -----------------------------------------------------------------------------------------------------

    def _web_command(self) -> list[str]:
        from kvdiag import settings

        host = f"[{self.host}]" if ":" in self.host else self.host
        return [
            *(sys.executable, "-m", "gunicorn", "kvdiag.wsgi:application"),
            *("--bind", f"{host}:{self.port}"),
            *("--workers", str(WEB_PROCESSES), "--worker-class", WEB_WORKER, "--threads", str(WEB_THREADS)),
            *("--preload", "--no-control-socket", "--timeout", "120", "--graceful-timeout", "8"),
            *("--log-level", "warning"),
            *(("--forwarded-allow-ips", "*") if settings.KVDIAG_TRUSTED_PROXIES else ()),
        ]

    def _worker_command(self) -> list[str]:
        """Two processes that work, so that one long log does not hold up the short ones; beat rides along."""
        return [
            *(sys.executable, "-m", "celery", "-A", "kvdiag.celery", "worker", "--beat"),
            *("--pool", "prefork", "--concurrency", "2", "--loglevel", "WARNING"),
            *("--without-gossip", "--without-mingle", "--without-heartbeat"),
        ]

    # --- Running ------------------------------------------------------------------------------------------------------

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_WITHIN_S
        web = next(child for child in self.children if child.name == "web server")
        while not self.asked_to_stop.is_set() and not self._is_ready():
            if not web.is_running:
                raise CannotStart(f"The web server ended ({web.exit_words()}); more in {web.log}.")
            if time.monotonic() > deadline:
                raise CannotStart(f"The site is not ready after {READY_WITHIN_S:.0f} s; see {web.log.parent}.")
            self.asked_to_stop.wait(0.05)

    def _is_ready(self) -> bool:
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        connection = HTTPConnection(host, self.port, timeout=5)
        try:
            connection.request("GET", "/readyz", headers={"Host": "localhost"})
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

    def _watch(self) -> None:
        while not self.asked_to_stop.wait(WATCH_EVERY_S):
            for child in self.children:
                if news := child.watch():
                    say(news)

    def _stop_asked(self, number: int, frame: FrameType | None) -> None:
        if self.asked_to_stop.is_set():  # asked twice: at once, then
            for child in self.children:
                child.patience_s = 0.0
                if child.process is not None:
                    child.kill_group()
        self.asked_to_stop.set()

    def _stop_all(self) -> None:
        """Web and worker together, the broker when both have ended."""
        if self.asked_to_stop.is_set():
            say("stopping")
        others = [child for child in self.children if child.name != "broker"]
        for child in others:
            child.ask_to_stop()
        for child in (*others, *(child for child in self.children if child.name == "broker")):
            child.stop()
        if self.socket is not None:
            self.socket.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self.socket.parent.rmdir()
        if self.asked_to_stop.is_set():
            say("stopped")
