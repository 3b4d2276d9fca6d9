"""Work on what a stranger wrote, in a process of its own with bounds.

Matching can be given up after a while, but compiling a pattern cannot: a short one of nested repetitions may take
minutes and all memory of the machine, and one that calls itself as much of the stack.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REFUSED = 2  # the status of a process that says why on standard error
_KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR")
_LONGEST_SENTENCE = 400


class Refused(ValueError):
    """The work was not done; the text says why."""


class TooMuch(Exception):
    """The work did not end within its bounds."""


def variables() -> dict[str, str]:
    """The variables of such a process: none of the site's, but where Python finds the code."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return kept | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}


def limit(memory: int, cpu_s: int, hard_s: int | None = None) -> None:
    """In the process itself: bytes of memory and seconds of the processor from now on, and no core dump.

    Processor time, not the clock: a busy machine must not fail what an idle one does.

    hard_s  when the system kills it, where it is asked to end before
    """
    import math
    import resource
    import time
    from contextlib import suppress

    used = math.ceil(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (used + cpu_s, used + (hard_s or cpu_s)))
    with suppress(ValueError, OSError):  # macOS refuses RLIMIT_AS
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def answer_of(module: str, given: bytes, *, within_s: float) -> bytes:
    """What a module of ours writes to standard output when it is given this. Raises Refused, TooMuch.

    within_s  of the clock; of the processor the process gives itself less
    """
    try:
        ended = subprocess.run(
            [sys.executable, "-m", module],
            input=given,
            capture_output=True,
            cwd=ROOT,
            env=variables(),
            timeout=within_s,
        )
    except subprocess.TimeoutExpired:
        raise TooMuch from None
    if ended.returncode == REFUSED:
        raise Refused(ended.stderr.decode(errors="replace")[:_LONGEST_SENTENCE])
    if ended.returncode:  # ended by one of its limits
        raise TooMuch
    return ended.stdout
