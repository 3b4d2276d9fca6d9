"""`kvdiag push` and `kvdiag watch`: logs on their way to a kvdiag site, with nothing but the standard library.

KVDIAG_URL says where the site is, KVDIAG_TOKEN holds the key. A key is no option: options can be read by every user of
the machine. This file imports nothing else of kvdiag, so it also runs where only it was copied.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import secrets
import signal
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

CLEAN, FOUND, FAILED = 0, 1, 2
HERE = "http://127.0.0.1:8000/"  # where `kvdiag up` puts the site
CHUNK = 1 << 16
TRIES = 4
READY = (b"The server is fired up and ready to roll",)
STARTS = (b"server_args=ServerArgs(", b"server_args=")
BROKE = (
    b"OutOfMemoryError",
    b"out of memory",
    b"Traceback (most recent call last)",
    b"Scheduler hit an exception",
    b"Received sigquit from a child process",
    b"Not enough memory",
)
MODEL = re.compile(rb"model_path=['\"]([^'\"]{1,300})['\"]|--model(?:-path)?[ =]([^\s'\"]{1,300})")
QUICK = 15.0  # seconds that `watch` waits for a verdict
LONGEST_PHRASE = max(len(phrase) for phrase in (*READY, *STARTS, *BROKE))


class NotSent(Exception):
    """The site did not take the log; the text says why."""


@dataclass(frozen=True)
class Site:
    """Where logs go, as whom, and what is said with them.

    is_named  somebody said where; else it is the place of a site on the same machine
    """

    url: str
    token: str = ""
    deployment: str = ""
    tags: tuple[str, ...] = ()
    name: str = ""
    is_named: bool = True
    open: Callable[..., Any] = field(default_factory=lambda: _opener().open)

    def headers(self) -> dict[str, str]:
        """What every upload carries. Names are percent-encoded: headers are ASCII."""
        found = {"Accept": "application/json", "User-Agent": "kvdiag-push", "Idempotency-Key": secrets.token_hex(16)}
        if self.token:
            found["Authorization"] = f"Bearer {self.token}"
        for header, text in (("X-Kvdiag-Deployment", self.deployment), ("X-Kvdiag-Tags", ",".join(self.tags))):
            if text:
                found[header] = urllib.parse.quote(text, safe=" =,./:@+")
        if self.name:
            found["Upload-Name"] = urllib.parse.quote(self.name)
        return found

    def send(self, files: Sequence[tuple[str, IO[bytes]]]) -> dict[str, Any]:
        """Send one upload; the site's answer. Tried again while the other side is busy or away. Raises NotSent."""
        headers = self.headers()
        for attempt in range(TRIES):
            for _, stream in files:
                stream.seek(0)
            try:
                return self._once(files, dict(headers))
            except urllib.error.HTTPError as refusal:
                if refusal.code not in (429, 500, 502, 503, 504) or attempt == TRIES - 1:
                    raise NotSent(_sentence(refusal)) from None
                wait = _seconds(refusal.headers.get("Retry-After"), 2**attempt)
            except (urllib.error.URLError, OSError) as problem:
                if attempt == TRIES - 1:
                    raise NotSent(self._silence(problem)) from None
                wait = 2**attempt
            time.sleep(wait)
        raise AssertionError("unreachable")

    def _once(self, files: Sequence[tuple[str, IO[bytes]]], headers: dict[str, str]) -> dict[str, Any]:
        if len(files) == 1:
            name, stream = files[0]
            headers |= {"Content-Type": "application/octet-stream", "File-Name": urllib.parse.quote(name)}
            length, body = _size(stream), _pieces(stream)
        else:
            boundary = secrets.token_hex(16)
            headers["Content-Type"] = f"multipart/form-data; boundary={boundary}"
            length, body = _form(files, self._fields(), boundary)
        headers["Content-Length"] = str(length)
        request = urllib.request.Request(self.url, data=body, headers=headers, method="POST")
        with self.open(request, timeout=120) as answer:
            found = json.loads(answer.read())
        if not isinstance(found, dict) or "url" not in found:
            raise NotSent(f"{self.url} is no kvdiag site.")
        return found

    def _fields(self) -> dict[str, str]:
        fields = {"name": self.name, "deployment": self.deployment, "tags": ",".join(self.tags)}
        return {name: text for name, text in fields.items() if text}

    def _silence(self, problem: Exception) -> str:
        said = f"{self.url} does not answer: {getattr(problem, 'reason', problem)}"
        if self.is_named:
            return said
        return (
            f"KVDIAG_URL is not set, and {said}. Say where the site is: export KVDIAG_URL=https://kvdiag.example.org/"
        )

    def document(self, made: dict[str, Any], wait: float) -> dict[str, Any] | None:
        """The report, once it is ready within so many seconds; None when it takes longer. Raises NotSent."""
        headers = {"Accept": "application/json", "User-Agent": "kvdiag-push"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        ends = time.monotonic() + wait
        while True:
            try:
                with self.open(urllib.request.Request(made["report"], headers=headers), timeout=30) as answer:
                    if answer.status == 200:
                        found: dict[str, Any] = json.loads(answer.read())
                        return found
            except urllib.error.HTTPError as refusal:
                if refusal.code not in (429, 503):
                    raise NotSent(_sentence(refusal)) from None
            except (urllib.error.URLError, OSError) as problem:
                raise NotSent(self._silence(problem)) from None
            if time.monotonic() > ends:
                return None
            time.sleep(1)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would take the key to another address."""

    def redirect_request(self, *arguments: Any, **more: Any) -> None:
        return None


def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_NoRedirect)


def _sentence(refusal: urllib.error.HTTPError) -> str:
    """What the site said, in one sentence."""
    try:
        body = json.loads(refusal.read(100_000))
        error = body.get("error")
        said = error.get("message") if isinstance(error, dict) else error
        if said:
            return str(said)
    except (ValueError, AttributeError, OSError):
        pass
    return f"The site answered {refusal.code} {refusal.reason}."


def _seconds(text: str | None, default: float) -> float:
    try:
        return min(float(text or default), 60.0)
    except ValueError:
        return default


def _size(stream: IO[bytes]) -> int:
    at = stream.tell()
    size = stream.seek(0, os.SEEK_END)
    stream.seek(at)
    return size


def _pieces(stream: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: stream.read(CHUNK), b"")


def _form(files: Sequence[tuple[str, IO[bytes]]], fields: dict[str, str], boundary: str) -> tuple[int, Iterator[bytes]]:
    """Length and pieces of a form with these files."""
    parts: list[bytes | IO[bytes]] = []
    for name, text in fields.items():
        parts.append(f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{text}\r\n'.encode())
    for name, stream in files:
        plain = name.replace('"', "'").replace("\r", " ").replace("\n", " ")
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{plain}"\r\n'
        parts += [f"{head}Content-Type: application/octet-stream\r\n\r\n".encode(), stream, b"\r\n"]
    parts.append(f"--{boundary}--\r\n".encode())
    length = sum(len(part) if isinstance(part, bytes) else _size(part) for part in parts)

    def pieces() -> Iterator[bytes]:
        for part in parts:
            if isinstance(part, bytes):
                yield part
            else:
                yield from _pieces(part)

    return length, pieces()


# --- push -------------------------------------------------------------------------------------------------------------


def push(site: Site, names: Sequence[str], *, wait: float) -> int:
    """Send files as one upload; print its address and, once it is there, the verdict."""
    files: list[tuple[str, IO[bytes]]] = []
    try:
        for name in names:
            if name == "-":
                files.append(("server.log", _spooled(sys.stdin.buffer)))
            else:
                files.append((Path(name).name, Path(name).open("rb")))  # noqa: SIM115 - closed below
    except OSError as failure:
        _say(f"{failure.filename}: {failure.strerror}")
        return FAILED
    try:
        if all(_size(stream) == 0 for _, stream in files):
            raise NotSent(_nothing_in(names))
        made = site.send(files)
        print(made["url"], flush=True)
        if not site.token:
            _say(_of_nobody(site, made))
        document = site.document(made, wait) if wait else None
    except NotSent as why:
        _say(str(why))
        return FAILED
    finally:
        for _, stream in files:
            stream.close()
    if document is None:
        return CLEAN
    for line in _verdicts(document):
        print(line)
    return FOUND if _has_findings(document) else CLEAN


def _of_nobody(site: Site, made: dict[str, Any]) -> str:
    """What a report without a key is, and how its sender deletes it."""
    unused = f", and in no deployment: {site.deployment} was not used" if site.deployment else ""
    said = f"KVDIAG_TOKEN is not set, so the report is nobody's{unused}. Whoever has the link can read it."
    if token := made.get("delete_token"):
        said += f" To delete it: curl -X DELETE -H 'Upload-Token: {token}' {made['url']}"
    return said


def _nothing_in(names: Sequence[str]) -> str:
    """Files without a byte, in words."""
    if names == ["-"]:
        return "nothing came through the pipe; a server writes its log to standard error: add 2>&1 before it."
    verb = "is" if len(names) == 1 else "are"
    return f"{', '.join(names)} {verb} empty: nothing was sent."


def _spooled(stream: IO[bytes]) -> IO[bytes]:
    spool = tempfile.TemporaryFile()  # noqa: SIM115 - closed by whoever sends it
    for piece in _pieces(stream):
        spool.write(piece)
    return spool


def _verdicts(document: dict[str, Any]) -> list[str]:
    return [_printable(str(launch.get("verdict") or "")) for launch in document.get("launches") or []]


def _printable(text: str) -> str:
    """The text without what a terminal would obey."""
    return "".join(character for character in text if character.isprintable())


def _has_findings(document: dict[str, Any]) -> bool:
    findings = [each for launch in document.get("launches") or [] for each in launch.get("findings") or []]
    return any(each.get("severity") in ("critical", "warning") for each in findings)


def _say(text: str) -> None:
    print(f"kvdiag: {_printable(text)}", file=sys.stderr, flush=True)


# --- watch ------------------------------------------------------------------------------------------------------------


class Spool:
    """The log of one start on disk: its beginning, and its end in two halves that take turns.

    A server may log for weeks; its start has the arguments and its end the crash, so the middle goes.
    """

    def __init__(self, head: int = 16 << 20, tail: int = 48 << 20) -> None:
        self._limit, self._half = head, tail // 2
        self._head = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._tails = [tempfile.TemporaryFile(), tempfile.TemporaryFile()]  # noqa: SIM115
        self.size = 0
        self._left_out = 0

    def write(self, piece: bytes) -> None:
        """Append."""
        self.size += len(piece)
        room = self._limit - self._head.tell()
        if room > 0:
            self._head.write(piece[:room])
            piece = piece[room:]
        if not piece:
            return
        if self._tails[1].tell() + len(piece) > self._half:
            self._left_out += self._tails[0].tell()
            self._tails[0].seek(0)
            self._tails[0].truncate()
            self._tails.reverse()
        self._tails[1].write(piece)

    def copy(self) -> IO[bytes]:
        """What is kept, as one file; a line of its own tells what was left out."""
        whole = tempfile.TemporaryFile()  # noqa: SIM115 - closed by whoever sends it
        for part in (self._head, None, *self._tails):
            if part is None:
                if self._left_out:
                    whole.write(b"\n[kvdiag watch left out %d bytes here]\n" % self._left_out)
                continue
            at = part.tell()
            part.seek(0)
            for piece in _pieces(part):
                whole.write(piece)
            part.seek(at)
        return whole

    def close(self) -> None:
        """Give the disk back."""
        for part in (self._head, *self._tails):
            part.close()


class Watch:
    """Reads a launch's output, shows it at once, and sends it when the server is ready, fails, or ends. Says where the
    report is, and what it says when that is there within `wait` seconds.

    Showing comes first: sending runs beside it, and no failure of it reaches the pipe.
    """

    def __init__(
        self, site: Site, *, show: Callable[[bytes], None], say: Callable[[str], None] = _say, wait: float = QUICK
    ) -> None:
        self._site, self._show, self._say, self._wait = site, show, say, wait
        self._spool = Spool()
        self._edge = b""
        self._model = ""
        self.is_ready = self.broke = False
        self._threads: list[threading.Thread] = []

    def take(self, piece: bytes) -> None:
        """One piece of output, cut anywhere."""
        self._show(piece)
        for part in piece.splitlines(keepends=True):
            self._take(part)

    def _take(self, part: bytes) -> None:
        """A line, or a piece of one; phrases never go over a line's end."""
        seen = self._edge + part
        if (self.is_ready or self.broke) and any(phrase in seen for phrase in STARTS):
            self._restart()
        self._spool.write(part)
        if not self._model and (named := MODEL.search(part)):
            self._model = (named[1] or named[2]).decode(errors="replace").rstrip("/").rsplit("/", 1)[-1]
        if not self.is_ready and any(phrase in seen for phrase in READY):
            self.is_ready = True
            self._send()
        if any(phrase in seen for phrase in BROKE):
            self.broke = True
        self._edge = b"" if part.endswith(b"\n") else seen[1 - LONGEST_PHRASE :]

    def _restart(self) -> None:
        """Another server start in the same output: it is a launch of its own."""
        if self.broke:
            self._send()
        self._spool.close()
        self._spool, self._model = Spool(), ""
        self.is_ready = self.broke = False

    def end(self) -> None:
        """The output ended: send what was not sent, or what broke since, and wait for it."""
        if self._spool.size and (not self.is_ready or self.broke):
            self._send()
        for thread in self._threads:
            thread.join()
        self._spool.close()

    def _name(self) -> str:
        """What this start's log is called: after its deployment, else its model, and when it was sent."""
        of = re.sub(r"[^\w.+-]+", "-", self._site.deployment or self._model).strip("-")[:80] or "launch"
        return f"{of} {time.strftime('%Y-%m-%d %H.%M.%S')}.log"

    def _send(self) -> None:
        copy, name = self._spool.copy(), self._name()

        def send() -> None:
            try:
                made = self._site.send([(name, copy)])
                self._say(made["url"])
                for line in _verdicts(self._site.document(made, self._wait) or {}):
                    self._say(line)
            except NotSent as why:
                self._say(str(why))
            except Exception as mistake:  # the launch's own output must go on, whatever happens here
                self._say(f"the log was not sent: {type(mistake).__name__}")
            finally:
                copy.close()

        thread = threading.Thread(target=send, name="kvdiag-send", daemon=False)
        thread.start()
        self._threads.append(thread)


def watch(site: Site) -> int:
    """Standard input to standard output, and to the site."""
    # Ctrl-C goes to the whole pipe: the server ends, its output ends, and then so do we.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    shows = True

    def show(piece: bytes) -> None:
        nonlocal shows
        while piece and shows:
            try:
                piece = piece[os.write(1, piece) :]
            except OSError:
                shows = False  # nobody reads any more; the log is still worth sending

    def stop(*_: object) -> None:
        raise SystemExit

    signal.signal(signal.SIGTERM, stop)
    watched = Watch(site, show=show)
    try:
        while piece := os.read(0, CHUNK):
            watched.take(piece)
    except SystemExit:
        pass
    watched.end()
    return CLEAN


# --- The command line -------------------------------------------------------------------------------------------------


def add_commands(commands: Any) -> None:
    """Adds `push` and `watch` to a parser's commands; each sets `run`."""
    for name, text in (("push", "send logs to a kvdiag site"), ("watch", "show a launch's output and send it")):
        command = commands.add_parser(
            name, help=text, description=f"{text[:1].upper()}{text[1:]}. KVDIAG_URL is the site, KVDIAG_TOKEN the key."
        )
        if name == "push":
            command.add_argument(
                "files", nargs="+", metavar="FILE", help="one upload of all files; '-' is standard input"
            )
            command.add_argument(
                "--wait", type=float, default=60.0, metavar="S", help="seconds to wait for the verdict"
            )
        command.add_argument("--deployment", default="", help="the deployment it belongs to, by name")
        command.add_argument(
            "--tag", action="append", default=[], metavar="KEY=VALUE", help="may be given several times"
        )
        command.add_argument("--name", default="", help="what the report is called")
        command.add_argument("--url", default=os.environ.get("KVDIAG_URL"), help=f"the site; without one, {HERE}")
        command.add_argument("--token-file", metavar="FILE", help="a file with the key, in place of KVDIAG_TOKEN")
        command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    token = os.environ.get("KVDIAG_TOKEN", "")
    if options.token_file:
        try:
            token = Path(options.token_file).read_text()
        except OSError as failure:
            _say(f"{options.token_file}: {failure.strerror}")
            return FAILED
    url = options.url or HERE
    address = urllib.parse.urlsplit(url)
    if address.scheme not in ("http", "https") or not address.netloc or address.username:
        _say("the site's address begins with http:// or https:// and names a host, no user")
        return FAILED
    site = Site(
        url=url.rstrip("/") + "/",
        is_named=bool(options.url),
        token=token.strip(),
        deployment=options.deployment,
        tags=tuple(options.tag),
        name=options.name,
    )
    return watch(site) if options.command == "watch" else push(site, options.files, wait=options.wait)


def main(arguments: Sequence[str] | None = None) -> int:
    """`push FILE…` or `watch`. Exit status of push: 0 nothing worse than advice, 1 findings, 2 not sent or not read."""
    parser = argparse.ArgumentParser(prog="kvdiag", description="Logs on their way to a kvdiag site.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_commands(commands)
    options = parser.parse_args(arguments)
    try:
        return int(options.run(options))
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
