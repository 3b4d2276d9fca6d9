"""A log that is read for one answer: the same report as of an upload, and nothing of it anywhere afterwards."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import Request, urlopen

import pytest
from django.apps import apps
from django.core import serializers
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpRequest
from django.test import Client

from ingest import isolation, passing, upkeep
from ingest.isolation import End, Ended
from ingest.models import Upload
from ingest.refusals import Refused
from tests.live import LiveStack

HERE = Path(__file__).resolve().parent
LOG = (HERE.parent / "corpus" / "kimi-k25-8gpu" / "log.txt").read_bytes()
PATH = "/api/v1/analyses"
WORD = "PLANTEDWORD7"


def send(body: bytes, **headers: str) -> Any:
    return Client().generic("POST", PATH, body, content_type="application/octet-stream", headers=headers)


def error(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


@pytest.fixture
def limits(settings: Any) -> Iterator[Any]:
    """Changes limits of the site."""

    def change(**values: int) -> None:
        settings.KVDIAG_LIMITS = dataclasses.replace(settings.KVDIAG_LIMITS, **values)

    return change


@pytest.fixture
def real_engine(monkeypatch: pytest.MonkeyPatch, fake_engine: None) -> None:
    monkeypatch.setattr(isolation, "COMMAND", (sys.executable, "-m", "ingest.engine_process"))


def rows() -> str:
    """Every row of every table, as text."""
    return "".join(serializers.serialize("json", model._default_manager.all()) for model in apps.get_models())


@pytest.mark.django_db
def test_the_answer_is_the_document_an_upload_would_have(real_engine: None, uploads_folder: Path, accept: Any) -> None:
    from ingest.services import diagnose_upload

    upload = accept(LOG.decode())
    diagnose_upload(upload.pk)
    before = rows()
    answer = send(LOG, **{"File-Name": "node0.log"})
    assert answer.status_code == 200
    report = upload.report
    assert answer.json() == report.document
    assert answer.json()["schema"] == "kvdiag.report/1"
    assert "no-store" in answer["Cache-Control"]
    assert rows() == before and Upload.objects.count() == 1
    assert [each.name for each in uploads_folder.iterdir()] == [upload.public_id]


@pytest.mark.django_db
def test_bodies_come_as_they_do_to_an_upload(uploads_folder: Path) -> None:
    plain = send(b"report\n")
    assert plain.status_code == 200 and plain.json()["schema"] == "kvdiag.report/1"
    assert send(gzip.compress(b"report\n"), **{"Content-Encoding": "gzip"}).status_code == 200
    form = Client().post(PATH, {"files": SimpleUploadedFile("a.log", b"report\n")})
    assert form.status_code == 200
    assert Client().post(PATH, {"text": "report"}).status_code == 200
    assert error(Client().generic("POST", PATH, b"", content_type="text/plain", CONTENT_LENGTH="0")) == (400, "empty")
    assert error(Client().generic("POST", PATH, b"", content_type="text/plain")) == (411, "length_required")
    assert error(send(b"report", **{"Content-Encoding": "br"})) == (415, "content_encoding")
    assert list(uploads_folder.iterdir()) == [] and not Upload.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("log", "told"),
    [
        (b"other log\n", (422, "not_sglang")),
        (b"unreadable\n", (422, "unreadable")),
        (b"memory\n", (422, "out_of_memory")),
        (b"disk\n", (507, "disk_full")),
        (b"mistake\n", (500, "internal")),
        (b"crash\n", (503, "stopped")),
    ],
)
def test_a_log_that_is_not_read_is_answered_with_a_sentence_and_gone(
    log: bytes, told: tuple[int, str], uploads_folder: Path
) -> None:
    answer = send(log)
    assert error(answer) == told
    assert len(answer.json()["error"]["message"]) > 30
    assert list(uploads_folder.iterdir()) == [] and not Upload.objects.exists()


@pytest.mark.django_db
def test_an_endless_log_is_ended_in_time(limits: Any, uploads_folder: Path) -> None:
    limits(passing_soft_s=1)
    begun = time.monotonic()
    assert error(send(b"slow\n")) == (422, "out_of_time")
    assert time.monotonic() - begun < 3 * (1.5 + 1) + 5
    assert list(uploads_folder.iterdir()) == []


@pytest.mark.django_db
def test_a_larger_log_is_told_where_to_go(limits: Any, uploads_folder: Path) -> None:
    limits(max_passing_bytes=1000)
    assert send(b"report " + b"x" * 993).status_code == 200
    for body, headers in (
        (b"report " + b"x" * 994, {}),
        (gzip.compress(b"report " + b"x" * 994), {"Content-Encoding": "gzip"}),
    ):
        answer = send(body, **headers)
        assert error(answer) == (413, "too_large")
        assert "1,000 bytes" in answer.json()["error"]["message"]
        assert "POST /api/v1/reports" in answer.json()["error"]["message"]
    form = Client().post(PATH, {"files": SimpleUploadedFile("a.log", b"report " + b"x" * 994)})
    assert error(form) == (413, "too_large")
    assert Client().get("/api/v1/limits").json()["max_passing_bytes"] == 1000
    assert list(uploads_folder.iterdir()) == []


@pytest.mark.django_db
def test_it_counts_as_an_upload_for_the_rate(limits: Any) -> None:
    limits(anonymous_uploads_per_minute=1)
    assert [send(b"report\n").status_code for _ in range(2)] == [200, 200]
    refused = send(b"report\n")
    assert error(refused) == (429, "too_many") and int(refused["Retry-After"]) > 0
    assert Client().post("/", b"report\n", content_type="text/plain").status_code == 429


@pytest.mark.django_db
def test_a_site_for_its_teams_reads_no_strangers_log(settings: Any) -> None:
    settings.KVDIAG_ANONYMOUS_UPLOADS = False
    assert error(send(b"report\n")) == (401, "sign_in")


@pytest.mark.django_db
def test_no_other_site_sends_a_log_through_its_visitor() -> None:
    assert error(send(b"report\n", **{"Sec-Fetch-Site": "cross-site"})) == (403, "cross_site")


@pytest.mark.django_db
def test_only_a_few_are_read_at_once(monkeypatch: pytest.MonkeyPatch, uploads_folder: Path) -> None:
    monkeypatch.setattr(passing, "WAIT_S", 0.05)
    with passing.turn(), passing.turn():
        answer = send(b"report\n")
        assert error(answer) == (503, "busy") and answer["Retry-After"] == "5"
    assert send(b"report\n").status_code == 200
    assert list(uploads_folder.iterdir()) == []


@pytest.mark.django_db
def test_more_than_a_few_do_not_even_wait(monkeypatch: pytest.MonkeyPatch, uploads_folder: Path) -> None:
    """Every one that waits keeps a thread of the web process: were all taken, no page would be answered."""
    monkeypatch.setattr(passing, "WAIT_S", 5.0)
    found: list[tuple[int, str]] = []

    def wait_in_line() -> None:
        try:
            with passing.turn():
                found.append((200, ""))
        except Refused as refused:
            found.append((refused.status, refused.code))

    waiting = [threading.Thread(target=wait_in_line) for _ in range(passing.WAITING)]
    with passing.turn(), passing.turn():
        for one in waiting:
            one.start()
        deadline = time.monotonic() + 5
        while passing._places.acquire(blocking=False):  # until all have their place
            passing._places.release()
            assert time.monotonic() < deadline
        begun = time.monotonic()
        answer = send(b"report\n")
        assert error(answer) == (503, "busy") and answer["Retry-After"] == "5"
        assert time.monotonic() - begun < 2
    for one in waiting:
        one.join()
    assert found == [(200, "")] * passing.WAITING
    assert send(b"report\n").status_code == 200
    assert list(uploads_folder.iterdir()) == []


@pytest.mark.django_db
def test_an_engine_that_was_killed_is_started_once_more(
    monkeypatch: pytest.MonkeyPatch, uploads_folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    real, ends = passing.run_isolated, [End.KILLED]

    def run(job: Any, **more: Any) -> Ended:
        ended = real(job, **more)  # the first was killed after it wrote its copy
        return Ended(ends.pop()) if ends else ended

    monkeypatch.setattr(passing, "run_isolated", run)
    assert send(b"report\n").status_code == 200 and not ends
    with caplog.at_level(logging.ERROR):
        answer = send(b"crash\n")
    assert error(answer) == (503, "stopped") and answer["Retry-After"] == "60"
    assert "killed 2 times" in caplog.text
    assert list(uploads_folder.iterdir()) == []


@pytest.mark.django_db
def test_a_body_that_is_cut_leaves_nothing(monkeypatch: pytest.MonkeyPatch, uploads_folder: Path) -> None:
    pieces = [b"report", b""]
    monkeypatch.setattr(HttpRequest, "read", lambda request, size: pieces.pop(0))
    assert error(send(b"report\n")) == (400, "cut")
    assert list(uploads_folder.iterdir()) == []


def test_a_client_that_left_is_not_worked_for() -> None:
    ours, client = socket.socketpair()
    with ours, client:
        request: Any = SimpleNamespace(META={"gunicorn.socket": ours})
        assert passing.is_there(request)
        client.send(b"more")
        assert passing.is_there(request)
        ours.recv(4)
        client.close()
        assert not passing.is_there(request)
    assert not passing.is_there(request), "our own side is closed"
    assert passing.is_there(SimpleNamespace(META={}))  # type: ignore[arg-type]


@pytest.mark.django_db
def test_the_work_for_a_client_that_left_stops_and_nothing_stays(
    monkeypatch: pytest.MonkeyPatch, uploads_folder: Path
) -> None:
    monkeypatch.setattr(passing, "is_there", lambda request: False)
    assert error(send(b"slow\n")) == (400, "cut")
    assert list(uploads_folder.iterdir()) == []


@pytest.mark.django_db
def test_our_own_mistake_is_logged_without_a_word_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert error(send(b"mistake\n")) == (500, "internal")
    assert "fake_engine.py" in caplog.text and "a rule of the engine is wrong" not in caplog.text


# --- After a crash ----------------------------------------------------------------------------------------------------

HOLDER = """
import sys, time
from django.conf import settings
settings.configure(KVDIAG_UPLOADS=sys.argv[1], INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes",
    "teams", "ingest"], AUTH_USER_MODEL="auth.User")
import django; django.setup()
from ingest.passing import passing
with passing(1000) as arrival:
    (arrival.folder / "raw" / "0").write_text("PLANTEDWORD7")
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.django_db
def test_what_a_killed_process_leaves_is_removed_and_what_is_in_use_is_not(
    uploads_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(uploads_folder)], stdout=subprocess.PIPE, cwd=HERE.parent.parent
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        (folder,) = uploads_folder.iterdir()
        long_ago = time.time() - 3600
        os.utime(folder, (long_ago, long_ago))
        upkeep.sweep()
        assert (folder / "raw" / "0").read_bytes() == WORD.encode(), "it is held"
        holder.send_signal(signal.SIGKILL)
    new = uploads_folder / f"{passing.PREFIX}new"
    new.mkdir()
    upkeep.sweep()
    assert list(uploads_folder.iterdir()) == [new], "one so new may not be held yet"
    monkeypatch.setattr(passing, "YOUNG_S", 0.0)
    assert passing.remove_abandoned() == 1


def test_a_refusal_inside_leaves_no_folder(uploads_folder: Path) -> None:
    with pytest.raises(Refused), passing.passing(5) as arrival:
        arrival.take("a.log", [b"more than five"])
    assert list(uploads_folder.iterdir()) == []


# --- The running site -------------------------------------------------------------------------------------------------


def planted() -> bytes:
    """A log whose model and a finding's evidence have the word, so that the report has it too."""
    return LOG.replace(b"Kimi-K2.5", f"{WORD}-Kimi-K2.5".encode())


def places_of(word: bytes, folder: Path) -> list[str]:
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and word in path.read_bytes():
            found.append(str(path.relative_to(folder)))
        if word.decode() in path.name:
            found.append(str(path))
    return found


def test_the_running_site_keeps_no_word_of_it(live_stack: LiveStack) -> None:
    """Data folder with uploads, database, broker, cache and logs: read byte by byte."""
    for body in (planted(), WORD.encode() + b" is no log\n"):
        request = Request(live_stack.url + PATH, body, {"Content-Type": "text/plain", "File-Name": f"{WORD}.log"})
        try:
            with urlopen(request, timeout=60) as answer:
                told = answer.read()
                assert answer.status == 200 and WORD.encode() in told
                assert json.load(io.BytesIO(told))["upload"]["files"][0]["name"] == f"{WORD}.log"
        except OSError as problem:
            assert getattr(problem, "code", None) == 422, problem
    assert places_of(WORD.encode(), live_stack.data) == []
    assert WORD not in live_stack.said()
    (live_stack.data / "control").write_bytes(WORD.encode())
    assert places_of(WORD.encode(), live_stack.data) == ["control"], "the search finds what is there"
    (live_stack.data / "control").unlink()
