"""Large files in parts, so that a cut connection costs one part and not the whole.

    POST  /api/uploads/                 {"files": [{"name", "bytes"}], …}   → 201 with the address of each file
    PATCH /api/uploads/<id>/<file>      Upload-Offset: n, the next part     → 204 with the new Upload-Offset
    HEAD  /api/uploads/<id>/<file>                                          → 200 with Upload-Offset, Upload-Length
    POST  /api/uploads/<id>/finish      {"sha256": […]} if the sender knows → 200, and the diagnosis begins

Everything after the first request carries the Upload-Token that it answered.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, BinaryIO

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_POST

from ingest import answers
from ingest.arrival import (
    CHUNK,
    check_free_disk,
    digest_of,
    disk_full,
    folder_of,
    is_disk_full,
    plain_name,
    sync_folder,
)
from ingest.door import announced_length, body_of, days_of, spend_upload
from ingest.models import State, Upload
from ingest.refusals import Refused, empty, too_large
from ingest.sender import give_browser_secret, refuse_other_sites, sender_of
from ingest.services import Options, announce_upload, complete_upload, known_key
from kvdiag.diagnosis.masking import PATTERNS
from teams.access import holds_delete_token

PART_BYTES = 8 << 20
MAX_PART_BYTES = 64 << 20
MAX_JSON_BYTES = 256 << 10

View = Callable[..., HttpResponse]


def answering(view: View) -> View:
    """The view with refusals as JSON answers."""

    @csrf_exempt
    @wraps(view)
    def wrapped(request: HttpRequest, *arguments: Any, **more: Any) -> HttpResponse:
        try:
            refuse_other_sites(request)
            try:
                return view(request, *arguments, **more)
            except FileNotFoundError:  # deleted meanwhile
                raise Http404 from None
            except OSError as problem:
                if is_disk_full(problem):
                    raise disk_full() from problem
                raise
        except Refused as problem:
            body = {"error": {"code": problem.code, "message": problem.sentence}}
            return JsonResponse(body, status=problem.status, headers=problem.headers)

    return wrapped


def read_json(request: HttpRequest) -> dict[str, Any]:
    length = announced_length(request)
    if length > MAX_JSON_BYTES:
        raise Refused(413, "json_too_large", f"The description may have {MAX_JSON_BYTES >> 10} KiB.")
    try:
        body = json.loads(request.read(length) or b"{}")
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise Refused(400, "json", "The body is not a JSON object.")
    return body


def text_of(body: dict[str, Any], name: str) -> str:
    value = body.get(name, "")
    return value if isinstance(value, str) else ""


def texts_of(body: dict[str, Any], name: str) -> tuple[str, ...]:
    value = body.get(name)
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


@answering
@require_POST
def begin(request: HttpRequest) -> HttpResponse:
    """Makes the row; the files follow."""
    body = read_json(request)
    sender = sender_of(request, text_of(body, "team"))
    if sender.user is None:
        give_browser_secret(request)
        sender = sender_of(request)
    spend_upload(sender)
    options = Options(
        name=plain_name(text_of(body, "name")) if text_of(body, "name") else "",
        deployment_key=text_of(body, "deployment").strip(),
        tags=texts_of(body, "tags"),
        keep_log=body.get("keep_log", True) is not False,
        keep_days=days_of(str(body.get("keep_days", ""))),
        idempotency_key=request.headers.get("Idempotency-Key", "")[:200],
        hidden=counts_of(body.get("hidden")),
    )
    earlier = known_key(sender, options)
    if earlier is not None:
        return JsonResponse(answers.described(request, earlier))
    files = files_of(body)
    total = sum(file["bytes"] for file in files)
    if total > sender.limit:
        raise too_large(total, sender.limit, files[0]["name"])
    check_free_disk(total)
    made = announce_upload(sender, options, files)
    public_id = made.upload.public_id
    return JsonResponse(
        answers.described(request, made.upload)
        | {
            "delete_token": made.delete_token,
            "part_bytes": PART_BYTES,
            "files": [f"/api/uploads/{public_id}/{number}" for number in range(len(files))],
            "finish": f"/api/uploads/{public_id}/finish",
        },
        status=201,
    )


def counts_of(said: Any) -> dict[str, int]:
    """What the browser says it hid: known kinds, honest numbers."""
    kinds = {pattern.kind for pattern in PATTERNS}
    if not isinstance(said, dict):
        return {}
    return {kind: count for kind, count in said.items() if kind in kinds and type(count) is int and 0 < count < 10**9}


def files_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The files announced: names for people, sizes in bytes."""
    most = settings.KVDIAG_LIMITS.max_archive_members
    described = body.get("files")
    if not isinstance(described, list) or not described:
        raise empty()
    if len(described) > most:
        raise Refused(413, "too_many_files", f"{len(described)} files are too many; {most} may come at once.")
    files = []
    for file in described:
        name = file.get("name") if isinstance(file, dict) else None
        size = file.get("bytes") if isinstance(file, dict) else None
        if not isinstance(name, str) or not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise Refused(400, "files", 'Each file needs a "name" and its size in "bytes".')
        if size:
            files.append({"name": plain_name(name), "bytes": size})
    if not files:
        raise empty()
    return files


def receiving(request: HttpRequest, public_id: str) -> Upload:
    """The upload that this sender is in the middle of. 404 for everybody else."""
    upload = get_object_or_404(Upload, public_id=public_id, deleted_at=None)
    if not holds_delete_token(upload, request.headers.get("Upload-Token", "")):
        raise Http404
    return upload


@answering
@require_http_methods(["PATCH", "HEAD"])
def part(request: HttpRequest, public_id: str, number: int) -> HttpResponse:
    """Takes the next part of one file, or says how much has come."""
    upload = receiving(request, public_id)
    if number >= len(upload.files):
        raise Http404
    size = upload.files[number]["bytes"]
    if request.method == "HEAD":
        path = folder_of(public_id) / "raw" / str(number)
        came = path.stat().st_size if path.exists() else 0
        return HttpResponse(headers={"Upload-Offset": str(came), "Upload-Length": str(size)})
    if upload.state != State.RECEIVING:
        raise Refused(409, "not_receiving", "This upload was finished or cancelled before.")
    length = announced_length(request)
    if length > MAX_PART_BYTES:
        raise too_large(length, MAX_PART_BYTES, upload.files[number]["name"])
    check_free_disk(length)
    with at_its_end(folder_of(public_id) / "raw" / str(number)) as out:
        offset = out.tell()
        if request.headers.get("Upload-Offset") != str(offset):
            raise Refused(
                409,
                "offset",
                f"{offset:,} bytes of this file have come; the next part must begin there.",
                {"Upload-Offset": str(offset)},
            )
        if offset + length > size:
            raise Refused(413, "beyond_end", f"The file was announced with {size:,} bytes; this part goes beyond.")
        try:
            for piece in body_of(request, length):
                out.write(piece)
        finally:
            # what came of a part that was cut is kept: HEAD tells the sender where to go on
            out.flush()
            os.fsync(out.fileno())
        return HttpResponse(status=204, headers={"Upload-Offset": str(out.tell())})


@contextmanager
def at_its_end(path: Path) -> Iterator[BinaryIO]:
    """The file, open for appending, by one request at a time."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as out:
        try:
            fcntl.flock(out, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(409, "busy", "Another part of this file is arriving.", {"Retry-After": "1"}) from None
        out.seek(0, os.SEEK_END)
        yield out


@answering
@require_POST
def finish(request: HttpRequest, public_id: str) -> HttpResponse:
    """All parts came: checks lengths and digests, and begins the diagnosis."""
    upload = receiving(request, public_id)
    body = read_json(request)
    if upload.state == State.RECEIVING:
        raw = folder_of(public_id) / "raw"
        digests = [checked(raw / str(number), file["bytes"], file["name"]) for number, file in enumerate(upload.files)]
        claimed = body.get("sha256")
        if isinstance(claimed, list) and [str(digest).lower() for digest in claimed] != digests:
            raise Refused(422, "sha256", "What arrived is not what was sent: the SHA-256 differs. Send it again.")
        sync_folder(raw)
        complete_upload(upload, [file["bytes"] for file in upload.files], digest_of(digests))
        upload.refresh_from_db()
    answer = answers.described(request, upload)
    earlier = answers.same_content(upload)
    if earlier:
        answer["same_content"] = answers.absolute(request, answers.page_path(earlier))
    return JsonResponse(answer)


def checked(path: Path, size: int, name: str) -> str:
    """The digest of a file that came whole. Raises Refused (409) for one that did not."""
    came = path.stat().st_size if path.exists() else 0
    if came != size:
        raise Refused(409, "incomplete", f"{came:,} of {size:,} bytes of {name} have come.")
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(CHUNK * 4):
            digest.update(piece)
    return digest.hexdigest()
