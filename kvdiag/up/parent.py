"""A process that does not outlive its parent: where the system can, the kernel is asked to end it."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
# Loaded here, not after a fork: a forked child may only do the little that needs no lock.
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None


def ends_with_parent(signal_number: signal.Signals, parent: int | None = None) -> Callable[[], None]:
    """A function for the child to call first: from then on it gets this signal when its parent dies.

    Linux only (prctl(2), PR_SET_PDEATHSIG); elsewhere the function does nothing.
    """
    expected = os.getpid() if parent is None else parent

    def ask() -> None:
        if _libc is None:
            return
        _libc.prctl(_PR_SET_PDEATHSIG, int(signal_number))
        if os.getppid() != expected:  # the parent died between the fork and the request
            os._exit(1)

    return ask
