"""`bin/kvdiag up`: prepares the data folder, starts broker, web and worker, and stops them all together.

up [--port N] [--data DIR] [--host ADDRESS]
"""

import argparse
import contextlib
import os
import socket
import sys
from pathlib import Path

from kvdiag.up.preflight import CannotStart, check_port, claim_folder, release_folder

LOOPBACK = ("127.0.0.1", "localhost", "::1")
EVERYWHERE = ("0.0.0.0", "::")
# On one's own machine, with no proxy before it, every request is one's own: scripts may send many logs in a row.
OWN_MACHINE = {"KVDIAG_ANONYMOUS_UPLOADS_PER_MINUTE": "600", "KVDIAG_ANONYMOUS_READS_PER_MINUTE": "6000"}


def main() -> None:
    options = read_options()
    os.umask(0o077)  # whatever the children write is for this user alone
    try:
        run(options.host, options.port, options.data)
    except CannotStart as reason:
        sys.exit(f"kvdiag: {reason}")
    except KeyboardInterrupt:
        sys.exit(130)


def read_options() -> argparse.Namespace:
    share = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    parser = argparse.ArgumentParser(prog="kvdiag up", description="Runs the whole site on this machine.")
    parser.add_argument("--port", type=_port, default=8000, help="the port to listen on (8000)")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    parser.add_argument(
        "--data",
        type=lambda text: Path(text).expanduser().absolute(),
        default=Path(os.environ.get("KVDIAG_DATA") or share / "kvdiag").expanduser().absolute(),
        help="the folder for everything kvdiag keeps (%(default)s)",
    )
    return parser.parse_args()


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; write a number from 1 to 65535")
    return int(text)


def own_names() -> list[str]:
    """What others may call this machine: its names, and the addresses they stand for."""
    names = [socket.gethostname(), socket.getfqdn()]
    with contextlib.suppress(OSError):  # the name stands for nothing; KVDIAG_ALLOWED_HOSTS can say more
        names += [str(found[4][0]) for found in socket.getaddrinfo(names[0], None)]
    return list(dict.fromkeys(f"[{name}]" if ":" in name else name for name in names))


def run(host: str, port: int, data: Path) -> None:
    """Raises CannotStart before anything is left running."""
    shown = socket.gethostname() if host in EVERYWHERE else f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{port}/"
    claim, was_killed = claim_folder(data, address)
    try:
        check_port(host, port, patience_s=10.0 if was_killed else 0.0)
        os.environ["KVDIAG_DATA"] = str(data)
        if host in LOOPBACK and os.environ.get("KVDIAG_TRUSTED_PROXIES", "0") in ("", "0"):
            for name, rate in OWN_MACHINE.items():
                os.environ.setdefault(name, rate)
        if host not in LOOPBACK and "KVDIAG_ALLOWED_HOSTS" not in os.environ:
            os.environ["KVDIAG_ALLOWED_HOSTS"] = ",".join(own_names() if host in EVERYWHERE else [host])
        from kvdiag.up.site import Site  # after the environment is complete: it reads the settings

        Site(host, port, data, address).run()
    finally:
        release_folder(claim)


if __name__ == "__main__":
    main()
