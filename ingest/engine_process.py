"""The diagnosis in a process of its own: `python -m ingest.engine_process`, started anew for every upload.

Logs come from strangers. Whatever one does to the process that reads it (memory, endless time, a crash in a C library)
happens to a process that holds no database, no broker, no secret and only this upload.

The job comes as JSON on standard input. One JSON message a line goes out on standard output:

    {"phase": "unpacked", "bytes": 4096}           the copy without secrets is being written
    {"phase": "cleaned", "files": [...], "masked": {...}}    it is written
    {"phase": "reading", "lines": 12000}           then "ledger", "rules", "done", as the engine calls them
    {"known": [...]}                               first facts of a long log
    {"result": "report" | "not_sglang"}            the document lies beside the files
    {"refused": "unreadable" | "too_large", "sentence": "..."}

The exit status is 0 whenever the last message is a result or a refusal.
"""

from __future__ import annotations

import ctypes
import errno
import io
import json
import math
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any, TextIO

from ingest.isolation import EXIT_DISK_FULL, EXIT_MEMORY, EXIT_SOFT_LIMIT
from ingest.shortened import Shortened, is_worth_it
from kvdiag.diagnosis import diagnose, errors
from kvdiag.diagnosis.limits import WEB_LIMITS, Limits
from kvdiag.diagnosis.lines import Log
from kvdiag.diagnosis.masked_copy import StoredLog, masked_copy
from kvdiag.diagnosis.masking import Masker
from kvdiag.diagnosis.report import Report

KNOWN_FROM = 16 << 20  # bytes of masked text from which on the start of the log is read first, to show something early
KNOWN_HEAD = 4 << 20
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
    limit_resources(job["memory"], job["soft_s"], job["hard_s"])
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
            diagnose(Log(name="warming", stream=masked))


def limit_resources(memory: int, soft_s: int, hard_s: int) -> None:
    """No more memory and processor time than this, and no core dump.

    Processor time, not the clock: a busy machine must not fail a log that an idle one reads.
    """
    used = math.ceil(time.process_time())
    resource.setrlimit(resource.RLIMIT_CPU, (used + soft_s, used + hard_s))
    with suppress(ValueError, OSError):  # macOS refuses RLIMIT_AS
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def die_with_the_parent() -> None:
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None, use_errno=True).prctl(pr_set_pdeathsig, signal.SIGKILL)


def run(job: dict[str, Any], messages: TextIO) -> None:
    """Masks (unless the masked copy is there already), diagnoses the copy, writes the document."""

    def say(**message: Any) -> None:
        print(json.dumps(message), file=messages, flush=True)

    folder = Path(job["folder"])
    limits = engine_limits(job["limits"])
    try:
        files = job["masked_files"] or mask(job, folder, limits, say)
        if sum(file["bytes"] for file in files) > KNOWN_FROM:
            say(known=first_facts(folder, files[0], limits))
        report = read_all(folder, files, limits, lambda phase, lines: say(phase=phase, lines=lines))
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
    masker = Masker()  # one for all: a name keeps its pseudonym throughout the upload
    for number, raw in enumerate(job["files"]):
        # a folder for each file: two archives may hold members of the same name
        target = folder / job["masked_folder"] / str(number)
        target.mkdir(parents=True, mode=0o700)
        with (folder / "raw" / str(number)).open("rb") as stream, growing(folder / job["masked_folder"], say):
            stored = masked_copy(Log(name=raw["name"], stream=stream), target, limits, masker)
        files += [about_one_file(copy, folder) for copy in stored]
    job["masked"] = sum_of(job["masked"], *(file["masked"] for file in files))
    say(phase="cleaned", files=files, masked=job["masked"])
    return files


@contextmanager
def growing(folder: Path, say: Callable[..., None]) -> Iterator[None]:
    """Tells twice a second how much of the copy is written."""
    is_over = Event()

    def tell() -> None:
        say(phase="unpacked", bytes=0)
        while not is_over.wait(0.5):
            say(phase="unpacked", bytes=sum(path.stat().st_size for path in folder.rglob("*.log")))

    teller = Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        is_over.set()
        teller.join()


def about_one_file(copy: StoredLog, folder: Path) -> dict[str, Any]:
    return {
        "name": copy.name,
        "path": str(Path(copy.path).relative_to(folder)),
        "bytes": copy.bytes,
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
        for key in ("bytes", "lines", "encoding", "compression", "gap"):
            if key in file:
                entry[key] = file[key]
    document["upload"]["masked"] = masked
    return document


def read_all(folder: Path, files: list[dict[str, Any]], limits: Limits, on_phase: Callable[[str, int], None]) -> Report:
    """The report on the masked files; on their starts and ends, the gap noted, when the whole takes too long."""
    try:
        with ExitStack() as opened:
            streams = [opened.enter_context((folder / file["path"]).open("rb")) for file in files]
            logs = [Log(name=file["name"], stream=stream) for file, stream in zip(files, streams, strict=True)]
            return diagnose(*logs, limits=limits, on_phase=on_phase)
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
    return diagnose(*logs, limits=limits, on_phase=on_phase)


def grant_the_rest() -> None:
    """The soft limit has passed: most of what is left until the hard one is for a second, shorter reading."""
    _, hard_s = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (max(1, hard_s - 5), hard_s))


def first_facts(folder: Path, file: dict[str, Any], limits: Limits) -> list[dict[str, Any]]:
    """What the first 4 MiB of a long log say of its first launch. A figure that is not there is left out."""
    with (folder / file["path"]).open("rb") as stream:
        head = io.BytesIO(stream.read(KNOWN_HEAD))
    launches = diagnose(Log(name=file["name"], stream=head), limits=limits).document["launches"]
    return known_of(launches[0]) if launches else []


def known_of(launch: dict[str, Any]) -> list[dict[str, Any]]:
    rank = (launch.get("ranks") or [{}])[0]
    entries = rank.get("entries") or []
    weights = next((entry for entry in entries if entry["pool"] == "weights" and entry["model"] == "target"), {})
    version = (launch.get("version") or {}).get("exact")
    path = (launch.get("model") or {}).get("path")
    rows = [
        ("release", version, None),
        ("model", path.rstrip("/").rpartition("/")[2] if path else None, launch.get("first_line")),
        ("weights_gib", weights.get("gib"), next(iter(weights.get("lines") or []), None)),
        ("kv_tokens", rank.get("kv_tokens"), None),
        ("free_gib", rank.get("free_gib") if launch.get("outcome") == "ready" else None, None),
    ]
    return [{"fact": fact, "value": value, "line": line} for fact, value, line in rows if value is not None]


def write_privately(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write(text)


if __name__ == "__main__":
    sys.exit(main())
