"""Files on their way in: streamed to the data disk, counted and hashed, and gone again unless they are accepted."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from types import TracebackType

from django.conf import settings
from django.db import OperationalError

from ingest.models import new_public_id
from ingest.refusals import Refused, empty, too_large

MAX_NAME = 200
CHUNK = 256 << 10


def folder_of(public_id: str) -> Path:
    """Where the files of an upload live: `raw/` as received, `masked-<attempt>/` the copy that stays."""
    return Path(settings.KVDIAG_UPLOADS) / public_id


def plain_name(name: str) -> str:
    """A file name for people: the last part of a path, without control characters; never used as a path."""
    last = name.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return plain_text(last)[:MAX_NAME] or "log"


def plain_text(text: str) -> str:
    """The text without what is not printed: control characters, and halves of surrogate pairs, which no database
    takes."""
    return "".join(character for character in text if character.isprintable())


def check_free_disk(coming: int) -> None:
    """Raises Refused (507) when so many more bytes would not leave the disk its reserve."""
    free = shutil.disk_usage(settings.KVDIAG_UPLOADS).free
    if free - coming < settings.KVDIAG_LIMITS.min_free_disk_bytes:
        raise disk_full()


def disk_full() -> Refused:
    return Refused(
        507,
        "disk_full",
        "The disk of this site is nearly full, so the log was not taken. Try again later, or tell its operator.",
        {"Retry-After": "300"},
    )


def is_disk_full(problem: BaseException | None) -> bool:
    """True when the disk, the quota on it, or the database's was full before all was written."""
    if isinstance(problem, OperationalError):
        return any(words in str(problem) for words in ("disk is full", "No space left"))
    return isinstance(problem, OSError) and problem.errno in (errno.ENOSPC, errno.EDQUOT)


@dataclass
class Received:
    """One file that arrived whole."""

    name: str
    bytes: int
    sha256: str


@dataclass
class Arrival:
    """The files of one upload while they arrive; use it as a context manager.

    limit   bytes that all files together may have
    public_id and folder are those of the upload to be. Whatever ends the block before `keep()` removes the folder, so
    that nothing is ever half stored.
    """

    limit: int
    public_id: str = field(default_factory=new_public_id)
    files: list[Received] = field(default_factory=list)
    received: int = 0
    begun: float = field(default_factory=time)
    kept: bool = False

    @property
    def folder(self) -> Path:
        return folder_of(self.public_id)

    def __enter__(self) -> Arrival:
        (self.folder / "raw").mkdir(parents=True, mode=0o700)
        self.folder.chmod(0o700)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self.kept:
            shutil.rmtree(self.folder, ignore_errors=True)
        if is_disk_full(error):
            raise disk_full() from error

    def keep(self) -> None:
        """The row is committed: the files stay."""
        self.kept = True

    def begin(self, name: str) -> Writer:
        """A writer for the next file."""
        if len(self.files) >= settings.KVDIAG_LIMITS.max_archive_members:
            raise Refused(
                413,
                "too_many_files",
                f"More than {settings.KVDIAG_LIMITS.max_archive_members} files came at once. "
                "Send fewer, or the nodes one after the other.",
            )
        return Writer(self, plain_name(name), self.folder / "raw" / str(len(self.files)))

    def take(self, name: str, chunks: Iterable[bytes]) -> Received:
        """One whole file. Raises Refused when it is empty or over the limit."""
        writer = self.begin(name)
        try:
            for chunk in chunks:
                writer.write(chunk)
            return writer.finish()
        except BaseException:
            writer.abandon()
            raise

    @property
    def sha256(self) -> str:
        """The digest of the content: the file's own, or that of all digests in order."""
        return digest_of([file.sha256 for file in self.files])


def digest_of(digests: list[str]) -> str:
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


class Writer:
    """One file on its way to the disk: `.part` until it is whole, mode 0600, hashed as it passes."""

    def __init__(self, arrival: Arrival, name: str, path: Path) -> None:
        self._arrival = arrival
        self._path = path
        self._part = path.with_name(path.name + ".part")
        self._hash = hashlib.sha256()
        self._out = os.fdopen(os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        self.name = name
        self.bytes = 0

    def write(self, chunk: bytes) -> None:
        """Raises Refused once the upload is over its limit."""
        self.bytes += len(chunk)
        self._arrival.received += len(chunk)
        if self._arrival.received > self._arrival.limit:
            raise too_large(None, self._arrival.limit, self.name)
        self._hash.update(chunk)
        self._out.write(chunk)

    def finish(self) -> Received:
        """The file is whole: on the disk for good, under its final name. Raises Refused when it is empty."""
        if not self.bytes:
            raise empty()
        self._out.flush()
        os.fsync(self._out.fileno())
        self._out.close()
        self._part.rename(self._path)
        sync_folder(self._path.parent)
        file = Received(self.name, self.bytes, self._hash.hexdigest())
        self._arrival.files.append(file)
        return file

    def abandon(self) -> None:
        self._out.close()
        with suppress(FileNotFoundError):
            self._part.unlink()


def sync_folder(folder: Path) -> None:
    """Makes a rename in the folder outlive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_raw(public_id: str) -> None:
    """The bytes as received go; the masked copy stays."""
    shutil.rmtree(folder_of(public_id) / "raw", ignore_errors=True)


def remove_masked(public_id: str, *, but: str = "") -> None:
    """All masked copies go, except the folder named."""
    for folder in folder_of(public_id).glob("masked-*"):
        if folder.name != but:
            shutil.rmtree(folder, ignore_errors=True)


def remove_all(public_id: str) -> None:
    """Everything on disk of one upload."""
    shutil.rmtree(folder_of(public_id), ignore_errors=True)
