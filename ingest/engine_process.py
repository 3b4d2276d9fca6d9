"""The diagnosis in a process of its own: `python -m ingest.engine_process`, started anew for every upload.

Logs come from strangers. Whatever one does to the process that reads it (memory, endless time, a crash in a C library)
happens to a process that holds no database, no broker, no secret and only this upload.

The job comes as JSON on standard input. One JSON message a line goes out on standard output:

    {"phase": "unpacked", "bytes": 4096, "read": 512, "of": 2048}    the copy without secrets is being written: its
                                                             size, and how far the raw files have been read
    {"phase": "cleaned", "files": [...], "masked": {...}}    it is written
    {"phase": "reading", "lines": 12000}           then "ledger", "rules", "done", as the engine calls them
    {"known": [...]}                               facts of the log's start, while the rest is worked on
    {"result": "report" | "not_sglang"}            the document lies beside the files
    {"refused": "unreadable" | "too_large", "sentence": "..."}

The exit status is 0 whenever the last message is a result or a refusal.
"""

from __future__ import annotations

import ctypes
import errno
import io
import json
import os
import resource
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Lock, Thread
from typing import IO, Any, TextIO

from ingest.first_facts import FirstFacts
from ingest.isolation import EXIT_DISK_FULL, EXIT_MEMORY, EXIT_SOFT_LIMIT
from ingest.shortened import Shortened, is_worth_it
from kvdiag import bounded
from kvdiag.diagnosis import diagnose, errors
from kvdiag.diagnosis.limits import WEB_LIMITS, Limits
from kvdiag.diagnosis.lines import Log
from kvdiag.diagnosis.masked_copy import StoredLog, masked_copy
from kvdiag.diagnosis.masking import Masker
from kvdiag.diagnosis.report import Report
from teams import redaction, rule_thresholds

TELL_S = 0.5
WARMING = Path(__file__).resolve().parent / "samples" / "kimi-k25-8gpu.log"


class OutOfTime(BaseException):
    """The soft time limit has passed. Not an Exception, so that nothing on the way takes it for a mistake of a rule."""


def main() -> int:
    messages, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr
    os.dup2(2, 1)  # whatever a library prints is not a message
    die_with_the_parent()
    warm_up()
    line = sys.stdin.readline()
    if not line:  # the parent ended without a job
        return 0
    job = json.loads(line)
    for number in (signal.SIGTERM, signal.SIGXCPU):
        signal.signal(number, _out_of_time)
    bounded.limit(job["memory"], job["soft_s"], job["hard_s"])
    try:
        run(job, messages)
    except MemoryError:
        return EXIT_MEMORY
    except OutOfTime:
        return EXIT_SOFT_LIMIT
    except OSError as problem:
        if problem.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        return EXIT_DISK_FULL
    return 0


def _out_of_time(_signal: int, _frame: Any) -> None:
    raise OutOfTime


def warm_up() -> None:
    """Compiles what is the same for every log before the job is there, by reading a log of our own."""
    with TemporaryDirectory() as folder, WARMING.open("rb") as stream:
        (copy,) = masked_copy(Log(name="warming", stream=stream), Path(folder), WEB_LIMITS, Masker())
        with copy.path.open("rb") as masked:
            diagnose(Log(name="warming", stream=masked), is_masked=True)


def die_with_the_parent() -> None:
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGKILL)


def run(job: dict[str, Any], messages: TextIO) -> None:
    """Masks (unless the masked copy is there already), diagnoses the copy, writes the document."""

    one_at_a_time = Lock()

    def say(**message: Any) -> None:
        with one_at_a_time:
            print(json.dumps(message), file=messages, flush=True)

    folder = Path(job["folder"])
    limits = engine_limits(job["limits"])
    kept = job["masked_files"]
    read = partial(
        diagnose,
        limits=limits,
        is_masked=True,  # they are copies, cleaned below or when they came
        thresholds=rule_thresholds.of(job["team"]),
        on_phase=lambda phase, lines: say(phase=phase, lines=lines),
    )
    copies = folder / (Path(kept[0]["path"]).parent if kept else job["masked_folder"])
    try:
        with FirstFacts(copies, limits, lambda known: say(known=known)):
            files = kept or mask(job, folder, limits, say)
            report = read_all(folder, files, read)
    except errors.UnreadableLog as problem:
        say(refused="unreadable", sentence=str(problem))
        return
    except errors.LogTooLarge as problem:
        say(refused="too_large", sentence=str(problem))
        return
    document = about_the_upload(report.document, files, job["masked"])
    write_privately(folder / job["document"], json.dumps(document))
    say(result="report" if document["upload"]["is_sglang"] else "not_sglang")


def engine_limits(site: dict[str, int]) -> Limits:
    """The engine's limits with the site's figures. Of a log over the allowance the start and the end are kept."""
    return replace(
        WEB_LIMITS,
        kept_bytes=site["max_unpacked_bytes"],
        unpacked_bytes=8 * site["max_unpacked_bytes"],
        unpacked_ratio=site["max_unpacked_ratio"],
        members=site["max_archive_members"],
        line_bytes=site["max_line_bytes"],
    )


def mask(job: dict[str, Any], folder: Path, limits: Any, say: Any) -> list[dict[str, Any]]:
    """The masked copy of every file, and what is to be known about each of its parts."""
    files: list[dict[str, Any]] = []
    masker = Masker(redaction.patterns_of(job["team"]))  # one for all: a name keeps its pseudonym throughout the upload
    with growing(folder, job, say) as streams:
        for number, raw in enumerate(job["files"]):
            # a folder for each file: two archives may hold members of the same name
            target = folder / job["masked_folder"] / str(number)
            target.mkdir(parents=True, mode=0o700)
            with (folder / "raw" / str(number)).open("rb") as stream:
                streams.append(stream)
                stored = masked_copy(Log(name=raw["name"], stream=stream), target, limits, masker)
                streams.remove(stream)
            files += [about_one_file(copy, folder) for copy in stored]
    job["masked"] = sum_of(job["masked"], *(file["masked"] for file in files))
    say(phase="cleaned", files=files, masked=job["masked"])
    return files


@contextmanager
def growing(folder: Path, job: dict[str, Any], say: Callable[..., None]) -> Iterator[list[IO[bytes]]]:
    """Tells twice a second how much of the copy is written, and how far the raw files are read.

    Gives a list that holds the file being read.
    """
    is_over, streams = Event(), list[IO[bytes]]()
    sizes = [(folder / "raw" / str(number)).stat().st_size for number in range(len(job["files"]))]

    def tell() -> None:
        say(phase="unpacked", bytes=0, read=0, of=sum(sizes))
        while not is_over.wait(TELL_S):
            copies = list((folder / job["masked_folder"]).glob("*/*.log"))
            begun = len(list((folder / job["masked_folder"]).iterdir()))
            at = position_of(streams)
            read = sum(sizes[:begun]) if at is None else sum(sizes[: begun - 1]) + min(at, sizes[begun - 1])
            say(phase="unpacked", bytes=sum(path.stat().st_size for path in copies), read=read, of=sum(sizes))

    teller = Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield streams
    finally:
        is_over.set()
        teller.join()


def position_of(streams: list[IO[bytes]]) -> int | None:
    """How far the system has read the file that is open; None between two files."""
    try:
        return os.lseek(streams[0].fileno(), 0, os.SEEK_CUR)
    except (IndexError, ValueError, OSError):
        return None


def about_one_file(copy: StoredLog, folder: Path) -> dict[str, Any]:
    return {
        "name": copy.name,
        "path": str(Path(copy.path).relative_to(folder)),
        "bytes": copy.bytes,
        "unpacked": copy.unpacked,
        "lines": copy.lines,
        "encoding": copy.encoding,
        "compression": copy.compression,
        "masked": dict(copy.masked),
        "gap": copy.gap,
    }


def sum_of(*counts: dict[str, int]) -> dict[str, int]:
    """Values hidden in all files, by kind."""
    total: Counter[str] = Counter()
    for some in counts:
        total.update(some)
    return {kind: count for kind, count in sorted(total.items()) if count}


def about_the_upload(document: dict[str, Any], files: list[dict[str, Any]], masked: dict[str, int]) -> dict[str, Any]:
    """The document with what only the masking saw: the engine read a copy that is UTF-8, plain and without secrets."""
    described = document["upload"]["files"]
    for entry, file in zip(described, files, strict=False):
        for key in ("lines", "encoding", "compression", "gap"):
            if key in file:
                entry[key] = file[key]
        entry["bytes"] = file.get("unpacked", file["bytes"])
    document["upload"]["masked"] = masked
    return document


def read_all(folder: Path, files: list[dict[str, Any]], read: Callable[..., Report]) -> Report:
    """The report on the masked files; on their starts and ends, the gap noted, when the whole takes too long."""
    try:
        with ExitStack() as opened:
            streams = [opened.enter_context((folder / file["path"]).open("rb")) for file in files]
            logs = [Log(name=file["name"], stream=stream) for file, stream in zip(files, streams, strict=True)]
            return read(*logs)
    except OutOfTime:
        if not any(is_worth_it(file) for file in files):
            raise
    grant_the_rest()
    logs = []
    for file in files:
        if is_worth_it(file):
            stream = Shortened(folder / file["path"], file["lines"])
            file["gap"] = stream.gap
            logs.append(Log(name=file["name"], stream=io.BufferedReader(stream)))
        else:
            logs.append(Log(name=file["name"], stream=io.BytesIO((folder / file["path"]).read_bytes())))
    return read(*logs)


def grant_the_rest() -> None:
    """The soft limit has passed: most of what is left until the hard one is for a second, shorter reading."""
    _, hard_s = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (max(1, hard_s - 5), hard_s))


def write_privately(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write(text)


if __name__ == "__main__":
    sys.exit(main())
