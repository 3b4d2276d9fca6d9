"""A worker's own processes: bounded memory, and no life without the worker."""

import os
import select
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.live import ROOT, clean_environment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's limits differ")


def run(code: str, data: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    settings = {"DJANGO_SETTINGS_MODULE": "kvdiag.settings", "KVDIAG_DATA": str(data)}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=ROOT,
        env=clean_environment(**settings, **variables),
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_task_that_takes_too_much_memory_meets_a_memory_error(tmp_path: Path) -> None:
    done = run(
        """
        from kvdiag.worker_limits import limit_this_process
        limit_this_process()
        small = bytearray(32 << 20)
        try:
            bytearray(400 << 20)
        except MemoryError:
            print("refused")
        """,
        tmp_path,
        KVDIAG_ANALYSIS_MEMORY_BYTES=str(64 << 20),
    )
    assert (done.stdout, done.returncode) == ("refused\n", 0), done.stderr


def test_a_process_ends_with_its_parent() -> None:
    """The parent starts a child that asks to end with it, says the child's number, and is killed."""
    code = """
    import subprocess, sys, time
    from kvdiag.up.parent import ends_with_parent
    import signal
    child = subprocess.Popen(["sleep", "600"], preexec_fn=ends_with_parent(signal.SIGKILL), stdout=subprocess.DEVNULL)
    print(child.pid, flush=True)
    time.sleep(600)
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=ROOT,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    descriptor = os.pidfd_open(child)
    parent.kill()
    parent.wait()
    assert select.select([descriptor], [], [], 30)[0], "the child lives on"
    os.close(descriptor)


def test_a_child_whose_parent_is_gone_already_does_not_start() -> None:
    code = """
    import os, signal
    from kvdiag.up.parent import ends_with_parent
    ends_with_parent(signal.SIGTERM, parent=os.getppid() + 1)()
    print("lives")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, b"")
