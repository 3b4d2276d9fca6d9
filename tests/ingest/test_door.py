"""The upload door as curl, a program and a form use it."""

import errno
import gzip
import json
from io import BytesIO
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import OperationalError
from django.test import Client

from ingest import door, services
from ingest.arrival import Writer
from ingest.models import State, Upload

pytestmark = pytest.mark.django_db

CURL = "application/x-www-form-urlencoded"  # what curl --data-binary calls any body
JSON = {"HTTP_ACCEPT": "application/json"}


@pytest.fixture
def curl(client: Client, django_capture_on_commit_callbacks):
    """POST or PUT of raw bytes, as curl sends them."""

    def send(body: bytes | str, path: str = "/", method: str = "POST", content_type: str = CURL, **headers):
        with django_capture_on_commit_callbacks(execute=True):
            return client.generic(method, path, body, content_type=content_type, **headers)

    return send


def raw(uploads_folder: Path, number: int = 0) -> bytes:
    return (uploads_folder / Upload.objects.get().public_id / "raw" / str(number)).read_bytes()


def test_curl_data_binary_is_taken_byte_for_byte(curl, uploads_folder: Path, broker) -> None:
    body = b"a=1&b=%20+\r\n\x1b[32mline two\xff\n"
    answer = curl(body)
    upload = Upload.objects.get()
    assert answer.status_code == 201 and answer["Content-Type"].startswith("text/plain")
    assert answer.content.decode().splitlines()[0] == f"http://testserver/r/{upload.public_id}/"
    assert raw(uploads_folder) == body and upload.bytes_received == len(body)
    assert broker.sent == [upload.pk]


def test_curl_upload_file_names_the_log(curl) -> None:
    answer = curl("report\n", "/node%200.log", "PUT", content_type="")
    assert answer.status_code == 201
    assert Upload.objects.get().files[0]["name"] == "node 0.log"


@pytest.mark.parametrize("path", ["/", "/server.log", "/rules/", "/r/abc", "/a/b/c.log"])
def test_every_put_below_the_root_is_an_upload(curl, path: str) -> None:
    assert curl("report\n", path, "PUT").status_code == 201


@pytest.mark.parametrize(("path", "method"), [("/", "POST"), ("/server.log", "PUT")])
def test_a_program_gets_the_addresses_as_json(curl, path: str, method: str) -> None:
    answer = curl("report\n", path, method, **JSON)
    upload = Upload.objects.get()
    said = answer.json()
    assert answer.status_code == 201
    assert said["id"] == upload.public_id and said["state"] == "queued"
    assert said["url"] == f"http://testserver/r/{upload.public_id}/" == answer["Location"]
    assert said["report"] == f"http://testserver/r/{upload.public_id}.json"


def test_the_answer_has_the_verdict_when_it_is_there(curl, monkeypatch) -> None:
    def diagnosed(upload: Upload) -> Upload:
        services.diagnose_upload(upload.pk)
        return Upload.objects.get(pk=upload.pk)

    monkeypatch.setattr("ingest.answers.wait_for_end", diagnosed)
    assert "Ready, nothing to fix." in curl("report\n").content.decode()
    answer = curl("other\n")
    assert answer.status_code == 422 and "This is not an SGLang log." in answer.content.decode()
    assert "To delete it" not in answer.content.decode(), "its text was not kept"


def test_a_body_without_content_length_is_refused_with_what_to_do(client: Client) -> None:
    environ = client._base_environ(PATH_INFO="/", REQUEST_METHOD="POST", HTTP_TRANSFER_ENCODING="chunked")
    environ.pop("CONTENT_LENGTH", None)
    answer = client.request(**environ)
    assert answer.status_code == 411 and b"--data-binary @-" in answer.content


@pytest.mark.parametrize(("size", "status"), [(999, 201), (1000, 201), (1001, 413)])
def test_the_limit_on_the_body(curl, settings, size: int, status: int) -> None:
    settings.KVDIAG_LIMITS = replaced(settings.KVDIAG_LIMITS, max_upload_bytes=1000)
    answer = curl(b"x" * size)
    assert answer.status_code == status
    if status == 413:
        said = answer.content.decode()
        assert "1,001 bytes" in said and "1,000 bytes" in said and "zstd" in said
        assert not Upload.objects.exists()


def replaced(limits, **changes):
    from dataclasses import replace

    return replace(limits, **changes)


def test_an_empty_body_is_refused(curl) -> None:
    answer = curl(b"", CONTENT_LENGTH="0")
    assert answer.status_code == 400 and b"empty" in answer.content


def test_a_body_that_ends_early_leaves_nothing(client: Client, uploads_folder: Path) -> None:
    answer = client.generic(
        "POST", "/", b"half", content_type=CURL, CONTENT_LENGTH="100", **{"wsgi.input": BytesIO(b"half")}
    )
    assert answer.status_code == 400 and b"96 bytes before" in answer.content
    assert not Upload.objects.exists() and list(uploads_folder.iterdir()) == []


def test_a_compressed_body_is_unpacked_on_the_way(curl, uploads_folder: Path) -> None:
    answer = curl(gzip.compress(b"report\n" * 99), HTTP_CONTENT_ENCODING="gzip")
    assert answer.status_code == 201 and raw(uploads_folder) == b"report\n" * 99


def test_a_bomb_as_content_encoding_leaves_nothing(curl, settings, uploads_folder: Path) -> None:
    settings.KVDIAG_LIMITS = replaced(settings.KVDIAG_LIMITS, max_unpacked_bytes=1 << 20)
    answer = curl(gzip.compress(bytes(4 << 20)), HTTP_CONTENT_ENCODING="gzip")
    assert answer.status_code == 413 and list(uploads_folder.iterdir()) == []


def test_a_full_disk_is_said_before_the_body_is_read(curl, settings) -> None:
    settings.KVDIAG_LIMITS = replaced(settings.KVDIAG_LIMITS, min_free_disk_bytes=1 << 60)
    assert curl("report\n").status_code == 507


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        (Writer, OSError(errno.ENOSPC, "full")),
        (Writer, OSError(errno.EDQUOT, "full")),
        (Upload, OperationalError("database or disk is full")),
    ],
)
def test_a_disk_that_fills_up_on_the_way_leaves_nothing(
    curl, uploads_folder: Path, monkeypatch, place: type, problem: Exception
) -> None:
    def full(*_, **__) -> None:
        raise problem

    monkeypatch.setattr(place, "write" if place is Writer else "save", full)
    answer = curl("report\n", **JSON)
    assert answer.status_code == 507 and answer.json()["error"]["code"] == "disk_full"
    assert list(uploads_folder.iterdir()) == [] and not Upload.objects.exists()


def test_a_form_with_files_and_text_is_one_upload(client: Client, uploads_folder: Path) -> None:
    files = [SimpleUploadedFile("node0.log", b"report\n"), SimpleUploadedFile("node1.log", b"second\n")]
    answer = client.post("/", {"files": files, "text": "pasted\n", "name": "Two nodes"})
    upload = Upload.objects.get()
    assert answer.status_code == 201 and upload.title == "Two nodes"
    assert [file["name"] for file in upload.files] == ["node0.log", "node1.log", "pasted.log"]
    assert [raw(uploads_folder, number) for number in range(3)] == [b"report\n", b"second\n", b"pasted\n"]
    assert [path.name for path in uploads_folder.iterdir()] == [upload.public_id]


def test_a_browser_is_sent_to_the_reports_own_address_at_once(client: Client) -> None:
    answer = client.post("/", {"text": "report\n"}, headers={"accept": "text/html"})
    assert answer.status_code == 303 and answer["Location"] == f"/r/{Upload.objects.get().public_id}/"


@pytest.mark.parametrize("charset", ["hex", "zlib", "rot13", "no-such", "idna", "undefined"])
def test_a_form_in_a_charset_that_is_none_is_refused_or_read(client: Client, charset: str) -> None:
    part = b'--x\r\nContent-Disposition: form-data; name="text"\r\n\r\nhello, report\r\n--x--\r\n'
    answer = client.generic(
        "POST", "/", part, content_type=f"multipart/form-data; boundary=x; charset={charset}", **JSON
    )
    assert answer.status_code in (201, 400)
    assert answer.status_code == 201 or "could not be read" in answer.json()["error"]["message"]


def test_an_empty_form_keeps_its_page_and_says_why(client: Client) -> None:
    answer = client.post("/", {"text": "  "}, headers={"accept": "text/html"})
    assert answer.status_code == 400 and b'role="alert"' in answer.content and b"<textarea" in answer.content


def test_a_form_over_the_limit_leaves_nothing(client: Client, settings, uploads_folder: Path, monkeypatch) -> None:
    settings.KVDIAG_LIMITS = replaced(settings.KVDIAG_LIMITS, max_upload_bytes=1000)
    monkeypatch.setattr(door, "FORM_OVERHEAD", 1 << 20)
    answer = client.post("/", {"files": SimpleUploadedFile("server.log", b"x" * 1001)})
    assert answer.status_code == 413 and list(uploads_folder.iterdir()) == []


def test_too_many_files_are_refused(client: Client, settings) -> None:
    settings.KVDIAG_LIMITS = replaced(settings.KVDIAG_LIMITS, max_archive_members=2)
    files = [SimpleUploadedFile(f"{number}.log", b"report\n") for number in range(3)]
    assert client.post("/", {"files": files}).status_code == 413


def test_one_idempotency_key_makes_one_upload(curl) -> None:
    first = curl("report\n", HTTP_IDEMPOTENCY_KEY="run-17", **JSON)
    second = curl("report\n", HTTP_IDEMPOTENCY_KEY="run-17", **JSON)
    other = curl("report\n", HTTP_IDEMPOTENCY_KEY="run-18", **JSON)
    assert (first.status_code, second.status_code, other.status_code) == (201, 200, 201)
    assert first.json()["id"] == second.json()["id"] != other.json()["id"]
    assert "delete_token" in first.json() and "delete_token" not in second.json()


def test_strangers_behind_one_address_do_not_share_an_idempotency_key(curl) -> None:
    """Behind a company's or a proxy's address a guessed key must not lead to another's report."""
    first = curl("report of one\n", HTTP_IDEMPOTENCY_KEY="run-17", **JSON)
    other = curl("report of another\n", HTTP_IDEMPOTENCY_KEY="run-17", **JSON)
    assert other.status_code == 201 and other.json()["id"] != first.json()["id"]


def test_a_sender_who_comes_too_often_is_told_how_long_to_wait(curl, settings) -> None:
    settings.KVDIAG_LIMITS = replaced(settings.KVDIAG_LIMITS, anonymous_uploads_per_minute=2)
    statuses = [curl("report\n").status_code for _ in range(5)]
    assert statuses == [201, 201, 201, 201, 429]  # two minutes' worth at once
    answer = curl("report\n")
    assert 0 < int(answer["Retry-After"]) <= 30 and answer["Retry-After"] in answer.content.decode()


def test_another_address_has_a_bucket_of_its_own(curl, settings) -> None:
    settings.KVDIAG_LIMITS = replaced(settings.KVDIAG_LIMITS, anonymous_uploads_per_minute=1)
    for _ in range(3):
        curl("report\n")
    assert curl("report\n", REMOTE_ADDR="192.0.2.7").status_code == 201


@pytest.mark.parametrize(
    "headers",
    [
        {"HTTP_SEC_FETCH_SITE": "cross-site"},
        {"HTTP_SEC_FETCH_SITE": "same-site"},
        {"HTTP_ORIGIN": "https://elsewhere.example"},
    ],
)
def test_no_other_site_sends_through_its_visitors(curl, headers: dict[str, str]) -> None:
    assert curl("report\n", **headers).status_code == 403


def test_over_plain_http_a_form_of_unknown_place_needs_its_pages_token(client: Client) -> None:
    """`Origin: null` and no more is what our page sends without scripts, and what a frame elsewhere can send."""

    def sent(body: object, **more: str) -> int:
        return client.post("/", body, HTTP_ORIGIN="null", HTTP_ACCEPT="text/html", **more).status_code

    page = client.get("/").content.decode()
    token = page.split('name="csrfmiddlewaretoken" value="')[1].split('"')[0]
    assert sent({"text": "report\n"}) == 403
    assert sent({"text": "report\n", "csrfmiddlewaretoken": "a" * 64}) == 403
    assert sent("report\n", content_type="text/plain") == 403
    assert not Upload.objects.exists()
    assert sent({"text": "report\n", "csrfmiddlewaretoken": token}) == 303


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"HTTP_SEC_FETCH_SITE": "same-origin", "HTTP_ORIGIN": "null"},
        {"HTTP_SEC_FETCH_SITE": "none"},
        {"HTTP_ORIGIN": "http://testserver"},
    ],
)
def test_programs_and_our_own_page_may_send(curl, headers: dict[str, str]) -> None:
    assert curl("report\n", **headers).status_code == 201


def test_without_anonymous_uploads_a_stranger_is_asked_to_sign_in(curl, settings) -> None:
    settings.KVDIAG_ANONYMOUS_UPLOADS = False
    answer = curl("report\n")
    assert answer.status_code == 401 and b"Sign in" in answer.content


def test_a_sender_deletes_with_the_token_it_was_given(curl, client: Client, uploads_folder: Path) -> None:
    said = curl("report\n", **JSON).json()
    page = f"/r/{said['id']}/"
    assert client.delete(page).status_code == 404
    assert client.delete(page, headers={"upload-token": "wrong"}).status_code == 404
    assert client.delete(page, headers={"upload-token": said["delete_token"]}).status_code == 204
    assert not Upload.objects.exists() and list(uploads_folder.iterdir()) == []


def test_the_token_is_stored_as_a_hash_only(curl) -> None:
    token = curl("report\n", **JSON).json()["delete_token"]
    upload = Upload.objects.get()
    assert token not in json.dumps(list(Upload.objects.values()), default=str)
    assert len(upload.delete_token_hash) == 64


def test_the_same_log_again_is_taken_and_the_earlier_report_offered(client: Client) -> None:
    browser = {"accept": "text/html"}
    client.get("/", headers=browser)
    client.post("/", {"text": "report\n"}, headers=browser)
    first = Upload.objects.get()
    services.diagnose_upload(first.pk)
    assert client.get(f"/api/uploads/known/{first.sha256}").json()["url"] == f"/r/{first.public_id}/"
    client.post("/", {"text": "report\n"}, headers=browser)
    assert Upload.objects.count() == 2
    assert Client().get(f"/api/uploads/known/{first.sha256}").json() == {"url": None}


def test_the_state_of_a_put_upload_is_never_a_page_of_its_own(curl, client: Client) -> None:
    curl("report\n", "/server.log", "PUT")
    assert client.get("/server.log").status_code == 404
    assert Upload.objects.get().state == State.QUEUED
