"""What must be true before anything is started: a free port, and a data folder nobody else is using."""

import errno
import fcntl
import json
import os
import socket
import time
from pathlib import Path
from typing import IO, Any


class CannotStart(Exception):
    """Why `kvdiag up` does not start; str() is one sentence that says what to do."""


def claim_folder(data: Path, address: str) -> tuple[IO[str], bool]:
    """Holds the data folder for as long as the returned file is open; the flag tells of a run that was not stopped.

    Raises CannotStart when another `up` holds it, or when it cannot be written.
    """
    try:
        data.mkdir(parents=True, exist_ok=True, mode=0o700)
        claim = (data / "up.json").open("a+")
    except OSError as problem:
        raise CannotStart(
            f"The data folder {data} cannot be written ({problem.strerror}); choose one with --data."
        ) from None
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = _read(claim)
        where = f" ({holder['address']}, process {holder['process']})" if holder else ""
        claim.close()
        raise CannotStart(
            f"The data folder {data} is in use by another kvdiag{where}; stop that one, or choose a folder with --data."
        ) from None
    was_killed = _read(claim) is not None
    _write(claim, {"process": os.getpid(), "address": address})
    return claim, was_killed


def release_folder(claim: IO[str]) -> None:
    _write(claim, None)
    claim.close()


def _read(claim: IO[str]) -> dict[str, Any] | None:
    claim.seek(0)
    try:
        found = json.loads(claim.read() or "null")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _write(claim: IO[str], value: dict[str, Any] | None) -> None:
    claim.seek(0)
    claim.truncate()
    if value is not None:
        claim.write(json.dumps(value))
    claim.flush()


def check_port(host: str, port: int, *, patience_s: float = 0.0) -> None:
    """Raises CannotStart when this address cannot be listened on.

    patience_s  how long the children of a killed run may take to let go of it
    """
    deadline = time.monotonic() + patience_s
    while (problem := _bind(host, port)) is not None:
        if problem.errno != errno.EADDRINUSE:
            raise CannotStart(f"{host} port {port} cannot be listened on: {problem.strerror}.")
        if time.monotonic() >= deadline:
            raise CannotStart(
                f"Port {port} is in use; stop what uses it, or choose another: --port {_free_port(host, port)}."
            )
        time.sleep(0.1)


def _bind(host: str, port: int) -> OSError | None:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as gunicorn does
            listener.bind(address)
            listener.listen(1)
    except OSError as problem:
        return problem
    return None


def _free_port(host: str, port: int) -> int:
    return next((near for near in range(port + 1, min(port + 100, 65536)) if _bind(host, near) is None), 8000)
