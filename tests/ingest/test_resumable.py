"""A file that comes in parts, and the connection that is cut between them."""

import errno
import hashlib
import json
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest
from django.test import Client

from ingest import resumable, services
from ingest.models import State, Upload

pytestmark = pytest.mark.django_db

LOG = b"report\n" + bytes(range(256)) * 40


def begin(client: Client, *files: tuple[str, int], **options):
    body = {"files": [{"name": name, "bytes": size} for name, size in files], **options}
    return client.post("/api/uploads/", json.dumps(body), content_type="application/json")


def patch(client: Client, url: str, part: bytes, offset: int, token: str, **more):
    headers = {"upload-offset": str(offset), "upload-token": token}
    return client.patch(url, part, content_type="application/offset+octet-stream", headers=headers, **more)


def finish(client: Client, said: dict, **body):
    return client.post(
        said["finish"],
        json.dumps(body),
        content_type="application/json",
        headers={"upload-token": said["delete_token"]},
    )


def test_parts_in_order_become_the_file(
    client: Client, uploads_folder: Path, django_capture_on_commit_callbacks, broker
) -> None:
    said = begin(client, ("server.log", len(LOG))).json()
    url, token = said["files"][0], said["delete_token"]
    assert patch(client, url, LOG[:4000], 0, token)["Upload-Offset"] == "4000"
    assert patch(client, url, LOG[4000:], 4000, token).status_code == 204
    with django_capture_on_commit_callbacks(execute=True):
        answer = finish(client, said, sha256=[hashlib.sha256(LOG).hexdigest()])
    upload = Upload.objects.get()
    assert answer.status_code == 200 and answer.json()["state"] == "queued"
    assert (uploads_folder / upload.public_id / "raw" / "0").read_bytes() == LOG
    assert upload.sha256 == hashlib.sha256(LOG).hexdigest() and upload.bytes_received == len(LOG)
    assert broker.sent == [upload.pk]


def test_a_cut_part_is_continued_where_it_stopped(client: Client) -> None:
    said = begin(client, ("server.log", len(LOG))).json()
    url, token = said["files"][0], said["delete_token"]
    cut = patch(client, url, LOG[:1000], 0, token, CONTENT_LENGTH="4000", **{"wsgi.input": BytesIO(LOG[:1000])})
    assert cut.status_code == 400
    head = client.head(url, headers={"upload-token": token})
    assert (head["Upload-Offset"], head["Upload-Length"]) == ("1000", str(len(LOG)))
    assert patch(client, url, LOG[1000:], 1000, token).status_code == 204
    assert finish(client, said, sha256=[hashlib.sha256(LOG).hexdigest()]).status_code == 200


def test_a_part_at_the_wrong_place_is_refused_with_the_right_one(client: Client) -> None:
    said = begin(client, ("server.log", len(LOG))).json()
    url, token = said["files"][0], said["delete_token"]
    patch(client, url, LOG[:1000], 0, token)
    again = patch(client, url, LOG[:1000], 0, token)
    assert again.status_code == 409 and again["Upload-Offset"] == "1000"


def test_a_part_beyond_the_announced_end_is_refused(client: Client) -> None:
    said = begin(client, ("server.log", 10)).json()
    assert patch(client, said["files"][0], b"x" * 11, 0, said["delete_token"]).status_code == 413


def test_an_unfinished_file_is_not_diagnosed(client: Client, broker) -> None:
    said = begin(client, ("server.log", len(LOG))).json()
    patch(client, said["files"][0], LOG[:1000], 0, said["delete_token"])
    answer = finish(client, said)
    assert answer.status_code == 409 and "1,000 of" in answer.json()["error"]["message"]
    assert Upload.objects.get().state == State.RECEIVING and broker.sent == []


def test_a_file_that_changed_on_its_way_is_refused(client: Client) -> None:
    said = begin(client, ("server.log", len(LOG))).json()
    patch(client, said["files"][0], LOG, 0, said["delete_token"])
    assert finish(client, said, sha256=["0" * 64]).status_code == 422
    assert Upload.objects.get().state == State.RECEIVING


def test_finishing_twice_begins_one_diagnosis(client: Client, broker, django_capture_on_commit_callbacks) -> None:
    said = begin(client, ("server.log", len(LOG))).json()
    patch(client, said["files"][0], LOG, 0, said["delete_token"])
    with django_capture_on_commit_callbacks(execute=True):
        assert finish(client, said).status_code == finish(client, said).status_code == 200
    assert len(broker.sent) == 1


def test_only_who_began_an_upload_goes_on_with_it(client: Client) -> None:
    said = begin(client, ("server.log", len(LOG))).json()
    assert patch(client, said["files"][0], LOG, 0, "another").status_code == 404
    assert client.head(said["files"][0]).status_code == 404


def test_the_size_is_checked_before_the_first_byte(client: Client, settings) -> None:
    answer = begin(client, ("server.log", settings.KVDIAG_LIMITS.max_upload_bytes + 1))
    assert answer.status_code == 413 and not Upload.objects.exists()


@pytest.mark.parametrize(
    "files", [[], [{"name": "a"}], [{"name": 1, "bytes": 1}], [{"name": "a", "bytes": -1}], "x", None]
)
def test_a_description_that_makes_no_sense_is_a_400(client: Client, files) -> None:
    answer = client.post("/api/uploads/", json.dumps({"files": files}), content_type="application/json")
    assert answer.status_code == 400 and answer.json()["error"]["message"]


def test_what_the_browser_hid_is_counted_with_what_the_server_hides(client: Client) -> None:
    begin(client, ("server.log", 5), hidden={"api_key": 2, "made_up": 3, "ip_address": "many", "jwt": -1})
    assert Upload.objects.get().masked == {"api_key": 2}


def test_a_part_for_which_the_disk_has_no_room_is_refused(client: Client, settings, monkeypatch) -> None:
    said = begin(client, ("server.log", len(LOG))).json()
    url, token = said["files"][0], said["delete_token"]

    def sync(_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as full:
        full.setattr(resumable.os, "fsync", sync)
        assert patch(client, url, LOG, 0, token).status_code == 507
    settings.KVDIAG_LIMITS = replace(settings.KVDIAG_LIMITS, min_free_disk_bytes=1 << 60)
    assert patch(client, url, b"x", len(LOG), token).status_code == 507


def test_a_part_of_an_upload_that_is_deleted_meanwhile_finds_nothing(client: Client, monkeypatch) -> None:
    said = begin(client, ("server.log", len(LOG))).json()
    look = resumable.receiving

    def deleted_behind(*request):
        upload = look(*request)
        services.delete_upload(Upload.objects.get())
        return upload

    monkeypatch.setattr(resumable, "receiving", deleted_behind)
    assert patch(client, said["files"][0], LOG, 0, said["delete_token"]).status_code == 404
