"""One child process of `kvdiag up`: started, watched, started again when it dies, stopped with all it started."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kvdiag.up.parent import ends_with_parent

ROOT = Path(__file__).resolve().parent.parent.parent
LARGE_LOG_BYTES = 8 << 20
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
STEADY_S = 60.0  # a child that ran for so long starts again without a growing pause


@dataclass
class Child:
    """A program with its own session, so that Ctrl-C in the terminal reaches the supervisor alone.

    stop_signal    what ends it in good order; patience_s how long it may take
    orphan_signal  what the kernel sends it when the supervisor is killed
    log            where its output goes
    """

    name: str
    command: Sequence[str]
    log: Path
    environment: Mapping[str, str]
    stop_signal: signal.Signals = signal.SIGTERM
    orphan_signal: signal.Signals = signal.SIGTERM
    patience_s: float = 10.0
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _started: float = field(default=0.0, init=False)
    _pause_s: float = field(default=FIRST_PAUSE_S, init=False)
    _due: float | None = field(default=None, init=False)
    _asked: bool = field(default=False, init=False)

    def start(self) -> None:
        """Raises OSError when the program cannot be run at all."""
        self.log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self.log.exists() and self.log.stat().st_size > LARGE_LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                self.command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(self.environment),
                start_new_session=True,
                preexec_fn=ends_with_parent(self.orphan_signal),
            )
        self._started = time.monotonic()
        self._due = None
        self._asked = False

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def watch(self) -> str | None:
        """Looks once; starts the child again when its pause is over. Returns what there is to say, if anything."""
        if self.is_running:
            return None
        now = time.monotonic()
        if self._due is None:
            if now - self._started > STEADY_S:
                self._pause_s = FIRST_PAUSE_S
            self._due = now + self._pause_s
            sentence = f"the {self.name} ended ({self.exit_words()}); starting it again in {self._pause_s:g} s"
            self._pause_s = min(self._pause_s * 2, LONGEST_PAUSE_S)
            self.kill_group()  # what it left behind would be in the way of its successor
            return sentence
        if now >= self._due:
            self.start()
            return f"the {self.name} runs again"
        return None

    def exit_words(self) -> str:
        """How it ended, and the last thing it wrote."""
        code = self.process.returncode if self.process else None
        how = f"signal {-code}" if code is not None and code < 0 else f"status {code}"
        last = self.last_line()
        return f"{how}: {last}" if last else how

    def last_line(self) -> str:
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - 4096))
                lines = file.read().decode(errors="replace").split("\n")
        except OSError:
            return ""
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "")

    def ask_to_stop(self) -> None:
        """Once: a second signal would mean "at once" to some programs."""
        if self.process is not None and self.is_running and not self._asked:
            self._asked = True
            self.process.send_signal(self.stop_signal)

    def stop(self) -> None:
        """Asks, waits for its patience, then kills it and everything it started."""
        if self.process is None:
            return
        self.ask_to_stop()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(self.patience_s)
        self.kill()

    def kill(self) -> None:
        if self.process is None:
            return
        self.kill_group()
        self.process.wait()

    def kill_group(self) -> None:
        assert self.process is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody of the group is left
            os.killpg(self.process.pid, signal.SIGKILL)
