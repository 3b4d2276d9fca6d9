"""Vectorscan's databases, compiled once and kept in the user's cache: compiling takes longer than reading a small log.

What is kept can be lost, cut or replaced without harm. A file is taken when it is this user's alone, begins with the
expressions that are asked for, and passes Vectorscan's own check of version, processor and checksum; in any other case
the expressions are compiled again.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

_MOST: Final = 16 << 20  # bytes of one file
_KEPT: Final = 8  # files: of this release, and of those used before it
_SUFFIX: Final = ".vectorscan"


def database(expressions: Sequence[bytes], ids: Sequence[int], flags: Sequence[int], *, literal: bool = False) -> Any:
    """The database in block mode for these expressions, or literals. Raises ImportError without Vectorscan."""
    import hyperscan

    asked = (
        getattr(hyperscan, "__version__", ""),
        os.uname().machine,
        literal,
        *zip(expressions, ids, flags, strict=True),
    )
    head = repr(asked).encode() + b"\n"
    path = _folder() / f"{zlib.crc32(head):08x}{_SUFFIX}"
    kept = _read(path)
    if kept is not None and kept.startswith(head):
        try:
            found = hyperscan.loadb(kept[len(head) :], hyperscan.HS_MODE_BLOCK)
            found.scratch = hyperscan.Scratch(found)
            return found
        except hyperscan.error:
            pass  # of another processor, or damaged
    made = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    made.compile(expressions=list(expressions), ids=list(ids), flags=list(flags), literal=literal)
    _write(path, head + bytes(hyperscan.dumpb(made)))
    return made


def _folder() -> Path:
    given = os.environ.get("XDG_CACHE_HOME", "")
    # Unlike Path.home(), expanduser does not raise where there is no home.
    return Path(given if os.path.isabs(given) else os.path.expanduser("~/.cache")) / "kvdiag"  # noqa: PTH111, PTH117


def _is_ours(status: os.stat_result) -> bool:
    """Whether nobody else can have written it."""
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _read(path: Path) -> bytes | None:
    """What a file holds; None where it is absent, no plain file, too large or not this user's alone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or not _is_ours(status) or status.st_size > _MOST:
                return None
            return file.read(_MOST)
    except OSError:
        return None


def _write(path: Path, data: bytes) -> None:
    """Writes the file whole, or not at all: where it cannot be kept it is compiled again the next time."""
    part = path.with_name(f"{path.stem}.{os.getpid()}.part")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = os.lstat(path.parent)
        if not stat.S_ISDIR(status.st_mode) or not _is_ours(status):
            return
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            part.replace(path)
        except OSError:
            part.unlink()
            return
        files = sorted(path.parent.glob(f"*{_SUFFIX}"), key=lambda file: file.stat().st_mtime)
        for old in files[:-_KEPT]:
            old.unlink()
    except OSError:
        return
