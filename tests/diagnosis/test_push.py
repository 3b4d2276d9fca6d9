"""`kvdiag push` and `kvdiag watch` against a small server: what is sent, when, and that the pipe never suffers."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kvdiag.diagnosis import push
from kvdiag.diagnosis.push import Site, Spool, Watch

ARGUMENTS = b"[2026-11-29 09:14:02] server_args=ServerArgs(model_path='m')\n"
READY = b"[2026-11-29 09:20:04] The server is fired up and ready to roll!\n"
CRASH = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


@dataclass
class FakeSite:
    """Remembers what it was sent; answers like the upload door, or with the statuses it was told to."""

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    report_status: int = 200
    document: dict[str, Any] = field(default_factory=lambda: {"launches": [{"verdict": "Ready.", "findings": []}]})


@pytest.fixture
def fake() -> Iterator[FakeSite]:
    fake = FakeSite()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            fake.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            fake.headers.append({name.lower(): value for name, value in self.headers.items()})
            status = fake.statuses.pop(0) if fake.statuses else 201
            if status >= 400:
                return self.say(status, {"error": {"code": "no", "message": "Said no."}})
            return self.say(
                status, {"id": "x", "url": f"{fake.url}r/x/", "report": f"{fake.url}r/x.json", "state": "queued"}
            )

        def do_GET(self) -> None:
            self.say(fake.report_status, fake.document)

        def say(self, status: int, body: dict[str, Any]) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Retry-After", "0")
            self.send_header("Location", "http://elsewhere.example/")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    fake.url = f"http://127.0.0.1:{server.server_port}/"
    yield fake
    server.shutdown()
    server.server_close()


def site(fake: FakeSite, **more: Any) -> Site:
    return Site(url=fake.url, token="kvd_secret", **more)


def test_one_file_is_the_body_byte_for_byte(fake: FakeSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "node 0.log"
    log.write_bytes(b"\x00\xff raw\r\n")
    sender = site(fake, deployment="prod ü", tags=("image=25.01",))
    assert push.push(sender, [str(log)], wait=5) == 0
    assert fake.bodies == [b"\x00\xff raw\r\n"]
    sent = fake.headers[0]
    assert sent["authorization"] == "Bearer kvd_secret"
    assert sent["x-kvdiag-deployment"] == "prod %C3%BC"
    assert sent["x-kvdiag-tags"] == "image=25.01"
    assert sent["file-name"] == "node%200.log"
    assert capsys.readouterr().out == f"{fake.url}r/x/\nReady.\n"


def test_without_a_key_the_sender_is_told_what_that_means(
    fake: FakeSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(ARGUMENTS)
    push.push(Site(url=fake.url, deployment="prod"), [str(log)], wait=1)
    assert "KVDIAG_TOKEN is not set" in (said := capsys.readouterr().err) and "prod was not used" in said
    push.push(Site(url=fake.url, token="kvd_x", deployment="prod"), [str(log)], wait=1)
    assert capsys.readouterr().err == ""


def test_several_files_are_one_upload(fake: FakeSite, tmp_path: Path) -> None:
    for name in ("node0.log", "node1.log"):
        (tmp_path / name).write_text(name)
    assert push.push(site(fake), [str(tmp_path / "node0.log"), str(tmp_path / "node1.log")], wait=0) == 0
    (body,) = fake.bodies
    assert body.count(b'name="file"') == 2 and b'filename="node1.log"' in body
    assert int(fake.headers[0]["content-length"]) == len(body)


@pytest.mark.parametrize(("severity", "status"), [("critical", 1), ("warning", 1), ("advice", 0)])
def test_the_exit_status_tells_a_pipeline_about_findings(
    fake: FakeSite, tmp_path: Path, severity: str, status: int
) -> None:
    (tmp_path / "a.log").write_text("x")
    fake.document["launches"][0]["findings"] = [{"severity": severity}]
    assert push.push(site(fake), [str(tmp_path / "a.log")], wait=5) == status


def test_a_busy_site_is_asked_again_with_the_same_key(fake: FakeSite, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("x")
    fake.statuses = [503, 429]
    assert push.push(site(fake), [str(tmp_path / "a.log")], wait=0) == 0
    assert len({headers["idempotency-key"] for headers in fake.headers}) == 1
    assert fake.bodies == [b"x"] * 3


def test_a_refusal_is_said_and_not_repeated(fake: FakeSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.log").write_text("x")
    fake.statuses = [401]
    assert push.push(site(fake), [str(tmp_path / "a.log")], wait=0) == 2
    assert capsys.readouterr().err == "kvdiag: Said no.\n"
    assert len(fake.bodies) == 1


def test_a_redirect_does_not_take_the_key_elsewhere(fake: FakeSite, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("x")
    fake.statuses = [302]
    with pytest.raises(push.NotSent):
        Site(url=fake.url, token="kvd_secret").send([("a.log", io.BytesIO(b"x"))])


def test_a_file_that_is_not_there_is_said(fake: FakeSite, capsys: pytest.CaptureFixture[str]) -> None:
    assert push.push(site(fake), ["/nowhere/a.log"], wait=0) == 2
    assert "No such file" in capsys.readouterr().err


@pytest.mark.parametrize("count", [1, 2])
def test_empty_files_are_said_and_not_sent(
    fake: FakeSite, count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [str(tmp_path / f"{number}.log") for number in range(count)]
    for name in names:
        Path(name).touch()
    assert push.push(site(fake), names, wait=0) == 2
    said = capsys.readouterr().err
    assert all(name in said for name in names) and "empty: nothing was sent" in said and "curl" not in said
    assert not fake.bodies


def test_an_empty_file_beside_a_full_one_is_sent_with_it(fake: FakeSite, tmp_path: Path) -> None:
    (tmp_path / "a.log").touch()
    (tmp_path / "b.log").write_text("x")
    assert push.push(site(fake), [str(tmp_path / "a.log"), str(tmp_path / "b.log")], wait=0) == 0
    assert len(fake.bodies) == 1


# --- watch ------------------------------------------------------------------------------------------------------------


def watched(fake: FakeSite, *pieces: bytes) -> tuple[bytes, list[str]]:
    shown, said = io.BytesIO(), []
    watch = Watch(site(fake), show=lambda piece: shown.write(piece) and None, say=said.append)
    for piece in pieces:
        watch.take(piece)
    watch.end()
    return shown.getvalue(), said


def test_a_log_is_sent_when_the_server_is_ready_and_not_again_at_the_end(fake: FakeSite) -> None:
    shown, said = watched(fake, ARGUMENTS, READY, b"Decode batch\n")
    assert shown == ARGUMENTS + READY + b"Decode batch\n"
    assert fake.bodies == [ARGUMENTS + READY]
    assert said == [f"{fake.url}r/x/", "Ready."]


def test_a_watched_log_is_called_after_its_deployment_or_its_model_and_the_time(fake: FakeSite) -> None:
    for deployment, wanted in (("kimi prod", "kimi-prod"), ("", "Kimi-K2.5")):
        watch = Watch(site(fake, deployment=deployment), show=lambda _: None, say=lambda _: None)
        watch.take(ARGUMENTS.replace(b"'m'", b"'/models/Kimi-K2.5/'") + READY)
        watch.end()
        name = urllib.parse.unquote(fake.headers[-1]["file-name"])
        assert re.fullmatch(rf"{re.escape(wanted)} \d{{4}}-\d\d-\d\d \d\d\.\d\d\.\d\d\.log", name)


def test_a_watch_does_not_wait_long_for_a_verdict(fake: FakeSite) -> None:
    fake.report_status = 202
    said: list[str] = []
    watch = Watch(site(fake), show=lambda _: None, say=said.append, wait=0.0)
    watch.take(ARGUMENTS + READY)
    watch.end()
    assert said == [f"{fake.url}r/x/"]


@pytest.mark.parametrize("named", [False, True])
def test_a_site_that_was_not_named_is_said_to_be_missing(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(ARGUMENTS)
    monkeypatch.delenv("KVDIAG_URL", raising=False)
    monkeypatch.setattr(push, "TRIES", 1)
    nobody = "http://127.0.0.1:1/"
    monkeypatch.setattr(push, "HERE", nobody)
    assert push.main(["push", str(log), *(["--url", nobody] if named else [])]) == push.FAILED
    said = capsys.readouterr().err
    assert nobody in said
    assert ("KVDIAG_URL is not set" in said and "export KVDIAG_URL=" in said) is not named


def test_a_start_that_fails_is_sent_at_its_end(fake: FakeSite) -> None:
    watched(fake, ARGUMENTS, CRASH)
    assert fake.bodies == [ARGUMENTS + CRASH]


def test_a_server_that_dies_after_it_was_ready_is_sent_again(fake: FakeSite) -> None:
    watched(fake, ARGUMENTS, READY, b"Decode batch\n", CRASH)
    assert sorted(fake.bodies, key=len) == [ARGUMENTS + READY, ARGUMENTS + READY + b"Decode batch\n" + CRASH]


def test_a_log_that_just_ends_is_sent(fake: FakeSite) -> None:
    watched(fake, ARGUMENTS, b"Load weight begin.\n")
    assert len(fake.bodies) == 1


def test_a_restart_in_the_same_output_is_an_upload_of_its_own(fake: FakeSite) -> None:
    watched(fake, ARGUMENTS, CRASH, ARGUMENTS, READY)
    assert sorted(fake.bodies) == sorted([ARGUMENTS + CRASH, ARGUMENTS + READY])


def test_phrases_are_found_however_the_pipe_cuts_them(fake: FakeSite) -> None:
    text = ARGUMENTS + READY
    watched(fake, *(text[at : at + 1] for at in range(len(text))))
    assert len(fake.bodies) == 1 and text.startswith(fake.bodies[0])


def test_nothing_is_sent_for_no_output(fake: FakeSite) -> None:
    assert watched(fake) == (b"", [])
    assert fake.bodies == []


def test_a_site_that_refuses_does_not_hurt_the_pipe(fake: FakeSite) -> None:
    fake.statuses = [413]
    shown, said = watched(fake, ARGUMENTS, READY, b"more\n")
    assert shown.endswith(b"more\n") and said == ["Said no."]


def test_of_an_endless_log_the_start_and_the_end_are_kept() -> None:
    spool = Spool(head=1000, tail=2000)
    for number in range(10_000):
        spool.write(b"line %05d\n" % number)
    whole = spool.copy()
    whole.seek(0)
    text = whole.read()
    assert text.startswith(b"line 00000\n") and text.endswith(b"line 09999\n")
    assert len(text) < 3200 and b"left out" in text
    spool.close()


def test_the_command_shows_everything_and_sends_it(fake: FakeSite, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("kvd_from_file\n")
    done = subprocess.run(
        [sys.executable, "-m", "kvdiag.diagnosis.push", "watch", "--url", fake.url, "--token-file", str(key)],
        input=ARGUMENTS + READY,
        capture_output=True,
        timeout=60,
        env={key: value for key, value in os.environ.items() if key not in ("KVDIAG_URL", "KVDIAG_TOKEN")},
    )
    assert (done.returncode, done.stdout) == (0, ARGUMENTS + READY)
    assert fake.bodies == [ARGUMENTS + READY]
    assert fake.headers[0]["authorization"] == "Bearer kvd_from_file"
