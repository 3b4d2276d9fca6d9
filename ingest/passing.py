"""A log that is read for one answer, and of which nothing stays: no row, no file, no word in the site's own log.

Its bytes and the masked copy lie in a folder of their own while the engine reads them, in the same bounded process as
an upload's. The folder goes with the answer, whatever the answer is. Should the web process be killed meanwhile, the
lock that it held on the folder goes with it, and the sweeper removes what nobody holds.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import select
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import BoundedSemaphore
from time import time
from typing import Any

from django.conf import settings
from django.db import connection
from django.http import HttpRequest

from ingest import words
from ingest.arrival import Arrival, check_free_disk, disk_full
from ingest.door import announced_length, body_chunks, name_of, receive_form, spend_rate
from ingest.ending import without_nul
from ingest.isolation import End, Ended, run_isolated
from ingest.lookalike import looks_like
from ingest.models import new_public_id
from ingest.refusals import Refused, empty, in_mib
from ingest.sender import Sender, refuse_other_sites, sender_of

log = logging.getLogger(__name__)

PREFIX = "passing-"
YOUNG_S = 10.0  # a folder so new may not be locked yet
AT_ONCE = 2  # of each web process: an engine may take a processor and the memory of a diagnosis
WAIT_S = 10.0  # how long one more waits for its turn
WAITING = 4  # that may wait: each keeps a thread of the web process, which has other pages to answer
ATTEMPTS = 2  # where the engine was killed from outside
FORM_OVERHEAD = 64 << 10
HARD_FACTOR = 1.5
_turns = BoundedSemaphore(AT_ONCE)
_places = BoundedSemaphore(AT_ONCE + WAITING)


def analyse(request: HttpRequest) -> dict[str, Any]:
    """The report document on a request's body. Raises Refused."""
    refuse_other_sites(request)
    sender = sender_of(request, request.headers.get("Kvdiag-Team", ""))
    spend_rate(sender)
    limit = min(sender.limit, settings.KVDIAG_LIMITS.max_passing_bytes)
    length = announced_length(request)
    is_form = request.content_type == "multipart/form-data"
    if length > limit + (FORM_OVERHEAD if is_form else 0):
        raise too_large(limit)
    if length == 0:
        raise empty()
    check_free_disk(length)
    with passing(limit) as arrival:
        try:
            if is_form:
                receive_form(request, arrival)
            else:
                encoding = request.headers.get("Content-Encoding", "")
                arrival.take(name_of(request), body_chunks(request, length, encoding, unpacked=limit))
        except Refused as problem:
            raise too_large(limit) if problem.status == 413 and problem.code in TOO_LARGE else problem from None
        with turn():
            return read(arrival, sender, request)


TOO_LARGE = ("too_large", "unpacked_too_large")


def too_large(limit: int) -> Refused:
    return Refused(
        413,
        "too_large",
        f"A log that is answered at once and not kept may have {in_mib(limit)}, unpacked. Send a larger one as an "
        "upload (POST /api/v1/reports), or read it on your own machine: `kvdiag diagnose` sends nothing.",
    )


@contextmanager
def turn() -> Iterator[None]:
    """One of the few that are read at once. Raises Refused (503) when none becomes free in time or many wait."""
    if not _places.acquire(blocking=False):
        raise busy()
    try:
        if not _turns.acquire(timeout=WAIT_S):
            raise busy()
        try:
            yield
        finally:
            _turns.release()
    finally:
        _places.release()


def busy() -> Refused:
    return Refused(
        503,
        "busy",
        "Others’ logs are being read just now. Come back in a few seconds, or send the log as an upload.",
        {"Retry-After": "5"},
    )


# --- The folder -------------------------------------------------------------------------------------------------------


@contextmanager
def passing(limit: int) -> Iterator[Arrival]:
    """Files that arrive in a folder which is locked while we live, and gone afterwards."""
    with Arrival(limit, public_id=PREFIX + new_public_id()) as arrival:
        lock = os.open(arrival.folder, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield arrival
        finally:
            os.close(lock)


def remove_abandoned() -> int:
    """Removes the folders whose web process is gone; how many."""
    gone = 0
    for folder in Path(settings.KVDIAG_UPLOADS).glob(f"{PREFIX}*"):
        with suppress(OSError):
            handle = os.open(folder, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if time() - os.fstat(handle).st_mtime >= YOUNG_S:
                    shutil.rmtree(folder, ignore_errors=True)
                    gone += 1
            finally:
                os.close(handle)
    return gone


# --- Reading ----------------------------------------------------------------------------------------------------------


def read(arrival: Arrival, sender: Sender, request: HttpRequest) -> dict[str, Any]:
    """The document. Raises Refused for a log that cannot be read, or not in time."""
    limits = settings.KVDIAG_LIMITS
    folder = arrival.folder
    job: dict[str, Any] = {
        "folder": str(folder),
        "files": [{"name": file.name} for file in arrival.files],
        "masked_files": [],
        "masked": {},
        "document": "document.json",
        "limits": limits.as_dict() | {"max_unpacked_bytes": min(limits.max_unpacked_bytes, limits.max_passing_bytes)},
        "team": sender.team.settings if sender.team is not None else {},
        "memory": limits.analysis_memory_bytes,
    }
    files: list[dict[str, Any]] = []
    if not connection.in_atomic_block:
        connection.close()  # the engine needs none, and may take a while
    for attempt in range(ATTEMPTS):
        files.clear()
        ended = run_isolated(
            job | {"masked_folder": f"masked-{attempt}"},
            soft_s=limits.passing_soft_s,
            hard_s=int(HARD_FACTOR * limits.passing_soft_s) + 1,
            on_message=lambda message: files.extend(message.get("files", ())),
            is_wanted=lambda: is_there(request),
        )
        if ended.end is not End.KILLED:
            break
    if ended.end is not End.REPORT:
        raise refusal(ended, folder, files)
    document: dict[str, Any] = without_nul(json.loads((folder / job["document"]).read_text()))
    return document


def is_there(request: HttpRequest) -> bool:
    """False once the client has closed its connection, as far as the web server lets us see that."""
    client = request.META.get("gunicorn.socket")
    if client is None:
        return True
    try:
        readable, _, _ = select.select([client], [], [], 0)
        return not readable or client.recv(1, socket.MSG_PEEK) != b""
    except (OSError, ValueError):
        return False


def refusal(ended: Ended, folder: Path, files: list[dict[str, Any]]) -> Refused:
    """Why there is no document, with what to do instead."""
    limits = settings.KVDIAG_LIMITS
    if ended.end is End.NOT_SGLANG:
        return Refused(422, "not_sglang", words.not_sglang(files, looks_like(folder, files)))
    if ended.end is End.UNREADABLE:
        return Refused(422, "unreadable", ended.sentence)
    if ended.end is End.TOO_LARGE:
        return Refused(413, "too_large", ended.sentence)
    if ended.end is End.DISK_FULL:
        return disk_full()
    if ended.end is End.UNWANTED:
        return Refused(400, "cut", "The connection was closed before the answer.")
    if ended.end is End.OUT_OF_TIME:
        return Refused(
            422,
            "out_of_time",
            f"Reading this log took longer than {limits.passing_soft_s} seconds, so it was stopped. Send it as an "
            "upload (POST /api/v1/reports), which may take longer, or use `kvdiag diagnose`.",
        )
    if ended.end is End.OUT_OF_MEMORY:
        return Refused(422, "out_of_memory", words.out_of_memory(limits.analysis_memory_bytes))
    if ended.end is End.KILLED:
        log.error("The engine was killed %s times while it read a log that is not kept", ATTEMPTS)
        return Refused(
            503,
            "stopped",
            "The process that read this log was killed, more than once. Nothing of the log was kept. Send it "
            "again in a minute, or as an upload (POST /api/v1/reports).",
            {"Retry-After": "60"},
        )
    log.error("A log that is not kept was not read: %s\n%s", ended.end, frames_of(ended.trace))
    return Refused(500, "internal", "kvdiag made a mistake while it read this log. Nothing of the log was kept.")


def frames_of(trace: str) -> str:
    """Where in our code a trace led, without its messages: they may quote the log."""
    return "\n".join(line for line in trace.splitlines() if line.startswith('  File "'))
