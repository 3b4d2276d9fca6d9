"""Runs one diagnosis in a child process and says how it ended. Time and memory are bounded, the parent stays whole."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from time import monotonic
from typing import Any

from kvdiag import bounded

# exit statuses by which the child says why it stopped
EXIT_MEMORY = 77
EXIT_SOFT_LIMIT = 78
EXIT_DISK_FULL = 79

COMMAND = (sys.executable, "-m", "ingest.engine_process")
LOOK_S = 0.25
CLOCK_FACTOR = 3
KEPT_STDERR = 16 << 10


class End(StrEnum):
    """How the child ended."""

    REPORT = "report"
    NOT_SGLANG = "not_sglang"
    UNREADABLE = "unreadable"
    TOO_LARGE = "too_large"
    OUT_OF_TIME = "out_of_time"
    OUT_OF_MEMORY = "out_of_memory"
    DISK_FULL = "disk_full"
    MISTAKE = "mistake"  # the engine raised: ours to mend, the same at every attempt
    KILLED = "killed"  # by a signal, from itself or the system: worth another attempt
    UNWANTED = "unwanted"  # cancelled, or another worker has it


@dataclass(frozen=True)
class Ended:
    """sentence is for the reader of the page where the engine gave one; trace is for the operator's log."""

    end: End
    sentence: str = ""
    trace: str = ""


def run_isolated(
    job: dict[str, Any],
    *,
    soft_s: float,
    hard_s: float,
    on_message: Callable[[dict[str, Any]], None],
    is_wanted: Callable[[], bool],
    command: Sequence[str] | None = None,
) -> Ended:
    """Gives the job to a child, hands on its messages, and asks between them whether the work is still wanted.

    soft_s  seconds of processor time until the child is asked to end; hard_s until the system kills it. Should it only
            wait, it is asked after three times as long by the clock, and killed.
    """
    job = job | {"soft_s": soft_s, "hard_s": hard_s}
    child = _take(tuple(command or COMMAND))
    try:
        last, end = _follow(child.process, job, soft_s, hard_s, on_message, is_wanted)
    finally:
        trace = child.close()
    return Ended(end or _end_of(child.process.returncode, last), str(last.get("sentence", "")), trace)


class Child:
    """A process that waits for a job, or works on it. It sees no variable of ours but where Python finds the code."""

    def __init__(self, command: Sequence[str]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=bounded.ROOT,
            env=bounded.variables(),
        )

    def close(self) -> str:
        """Ends the process; the end of what it wrote to standard error."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()
        with self._errors as errors:
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - KEPT_STDERR))
            return errors.read().decode(errors="replace")


# Loading the engine and compiling its expressions takes longer than reading a usual log: the next child does it while
# nothing is to be done. Every child still reads one upload and ends.
_waiting: Child | None = None


def prepare() -> None:
    """Starts the child for the next job, unless one waits already."""
    global _waiting
    if _waiting is None:
        _waiting = Child(COMMAND)


def _take(command: tuple[str, ...]) -> Child:
    """The child that waits, where it is of this kind and well, or a new one."""
    global _waiting
    if command != COMMAND or _waiting is None:
        return Child(command)
    child, _waiting = _waiting, None
    if child.process.poll() is None:
        return child
    child.close()
    return Child(command)


def _follow(
    child: subprocess.Popen[bytes],
    job: dict[str, Any],
    soft_s: float,
    hard_s: float,
    on_message: Callable[[dict[str, Any]], None],
    is_wanted: Callable[[], bool],
) -> tuple[dict[str, Any], End | None]:
    """The child's last message, and the end where it is the parent who decided it."""
    assert child.stdin is not None and child.stdout is not None
    begun, asked, last, rest = monotonic(), False, {}, b""
    try:
        child.stdin.write(json.dumps(job).encode() + b"\n")
        child.stdin.close()
    except BrokenPipeError:
        return {}, None
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while True:
            if selector.select(LOOK_S):
                piece = os.read(child.stdout.fileno(), 64 << 10)
                if not piece:
                    return last, _wait(child, begun + CLOCK_FACTOR * hard_s)
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    last = json.loads(line)
                    on_message(last)
            if not is_wanted():
                return last, End.UNWANTED
            elapsed = monotonic() - begun
            if elapsed > CLOCK_FACTOR * hard_s:
                return last, End.OUT_OF_TIME
            if elapsed > CLOCK_FACTOR * soft_s and not asked:
                asked = True
                child.send_signal(signal.SIGTERM)


def _wait(child: subprocess.Popen[bytes], until: float) -> End | None:
    """Standard output is closed, so the child is about to end; one that lingers is killed."""
    try:
        child.wait(max(1.0, until - monotonic()))
    except subprocess.TimeoutExpired:
        return End.OUT_OF_TIME
    return None


def _end_of(status: int, last: dict[str, Any]) -> End:
    if status == 0 and ("result" in last or "refused" in last):
        return End(last.get("result") or last["refused"])
    if status == EXIT_MEMORY:
        return End.OUT_OF_MEMORY
    if status == EXIT_DISK_FULL:
        return End.DISK_FULL
    if status in (EXIT_SOFT_LIMIT, -signal.SIGTERM, -signal.SIGXCPU):
        return End.OUT_OF_TIME
    if status < 0:
        return End.KILLED
    return End.MISTAKE
