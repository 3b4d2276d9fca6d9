"""The upload door: a raw body by POST or PUT, as curl sends it, or a form with files and pasted text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from django.conf import settings
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation, TooManyFieldsSent, TooManyFilesSent
from django.core.files.uploadedfile import UploadedFile
from django.core.files.uploadhandler import FileUploadHandler
from django.http import HttpRequest, UnreadablePostError
from django.http.multipartparser import MultiPartParserError

from ingest import rate
from ingest.arrival import CHUNK, Arrival, Writer, check_free_disk, plain_name
from ingest.content_encoding import decoded
from ingest.refusals import Refused, empty, too_large
from ingest.retention import refuse_full
from ingest.sender import Sender, refuse_forged, refuse_other_sites, sender_of
from ingest.services import Accepted, Options, accept_upload, known_key

PASTED = "pasted.log"
FORM_OVERHEAD = 64 << 10  # boundaries and field names of a form around a file that just fits


def take_upload(request: HttpRequest, name: str = "") -> Accepted:
    """Everything the door does with one request. Raises Refused."""
    refuse_other_sites(request)
    sender = sender_of(request, request.headers.get("Kvdiag-Team", ""))
    spend_upload(sender)
    if request.content_type == "multipart/form-data":
        return take_form(request, sender)
    options = options_of(request.headers.get, request)
    earlier = known_key(sender, options)
    if earlier is not None:
        return Accepted(earlier, is_new=False)
    return take_body(request, sender, options, name)


def spend_upload(sender: Sender) -> None:
    """Counts an upload against the sender's rate, and looks for room in her team. Raises Refused (429, 409)."""
    spend_rate(sender)
    refuse_full(sender.team)


def spend_rate(sender: Sender) -> None:
    """Counts a log against the sender's rate. Raises Refused (429)."""
    limits = settings.KVDIAG_LIMITS
    if sender.user is None:
        rate.spend("upload", sender.address_hash, limits.anonymous_uploads_per_minute)
    else:
        rate.spend("upload", sender.key, limits.token_requests_per_minute)


def announced_length(request: HttpRequest) -> int:
    """The Content-Length. Raises Refused (411) without one: a chunked body would reach us empty."""
    try:
        return int(request.META["CONTENT_LENGTH"])
    except (KeyError, ValueError):
        raise Refused(
            411,
            "length_required",
            "The body has no Content-Length. curl gives one for a file (curl -T server.log <address>) and for a pipe "
            "(… | curl --data-binary @- <address>), but not for curl -T -.",
        ) from None


def take_body(request: HttpRequest, sender: Sender, options: Options, name: str) -> Accepted:
    """One file, its bytes being the body."""
    length = announced_length(request)
    name = name_of(request, name)
    if length > sender.limit:
        raise too_large(length, sender.limit, name)
    if length == 0:
        raise empty()
    check_free_disk(length)
    encoding = request.headers.get("Content-Encoding", "")
    unpacked = settings.KVDIAG_LIMITS.max_unpacked_bytes
    with Arrival(unpacked if encoding else sender.limit) as arrival:
        arrival.take(name, body_chunks(request, length, encoding, unpacked=unpacked))
        return accept_upload(arrival, sender, options)


def name_of(request: HttpRequest, name: str = "") -> str:
    """What the log is called: by its address, by a header, or as nobody said."""
    name = name or request.headers.get("File-Name", "")
    return plain_name(unquote(name)) if name else "server.log"


def body_chunks(request: HttpRequest, length: int, encoding: str, *, unpacked: int) -> Iterator[bytes]:
    """The body without its content encoding, of which at most so many bytes may come out."""
    ratio = settings.KVDIAG_LIMITS.max_unpacked_ratio
    return decoded(body_of(request, length), encoding, max_bytes=unpacked, max_ratio=ratio)


def body_of(request: HttpRequest, length: int) -> Iterator[bytes]:
    """The body in pieces. Raises Refused when the sender went away before its end."""
    left = length
    while left:
        try:
            piece = request.read(min(CHUNK, left))
        except UnreadablePostError:
            piece = b""
        if not piece:
            raise Refused(400, "cut", f"The body ended {left:,} bytes before its Content-Length. Send it again.")
        left -= len(piece)
        yield piece


def options_of(get: Any, request: HttpRequest) -> Options:
    """Options from headers."""
    return Options(
        name=plain_name(unquote(get("Upload-Name", ""))) if get("Upload-Name") else "",
        deployment_key=unquote(get("X-Kvdiag-Deployment") or get("Deployment", "")).strip(),
        tags=split_tags(unquote(get("X-Kvdiag-Tags") or get("Tags", ""))),
        keep_log=get("Keep-Log", "1") not in ("0", "no", "false"),
        keep_days=days_of(get("Keep-Days", "")),
        idempotency_key=get("Idempotency-Key", "")[:200],
    )


def split_tags(tags: str) -> tuple[str, ...]:
    return tuple(tag.strip() for tag in tags.split(",") if tag.strip())


def days_of(days: str) -> int | None:
    return int(days) if days.isascii() and days.isdigit() and 0 < int(days) <= 4000 else None


# --- The form ---------------------------------------------------------------------------------------------------------


class IntoArrival(FileUploadHandler):
    """Streams the files of a form to where they stay, instead of a temporary folder."""

    def __init__(self, request: HttpRequest, arrival: Arrival) -> None:
        super().__init__(request)
        self._arrival = arrival
        self._writer: Writer | None = None

    def new_file(self, *arguments: Any, **more: Any) -> None:
        super().new_file(*arguments, **more)
        self._writer = self._arrival.begin(self.file_name or "server.log")

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        assert self._writer is not None
        self._writer.write(raw_data)

    def file_complete(self, file_size: int) -> UploadedFile | None:
        assert self._writer is not None
        writer, self._writer = self._writer, None
        if file_size == 0:
            writer.abandon()  # an empty file among others says nothing; all empty is refused below
            return None
        writer.finish()
        return None

    def upload_interrupted(self) -> None:
        if self._writer is not None:
            self._writer.abandon()


def take_form(request: HttpRequest, sender: Sender) -> Accepted:
    """Several files and pasted text, from the page or `curl -F`."""
    length = announced_length(request)
    if length > sender.limit + FORM_OVERHEAD:
        raise too_large(length, sender.limit)
    check_free_disk(length)
    with Arrival(sender.limit) as arrival:
        fields = receive_form(request, arrival)
        chosen = sender_of(request, fields.get("team", "") or request.headers.get("Kvdiag-Team", ""))
        options = Options(
            name=plain_name(fields["name"]) if fields.get("name") else "",
            deployment_key=fields.get("deployment", "").strip(),
            tags=split_tags(fields.get("tags", "")),
            keep_log=fields.get("keep_log", "1") not in ("0", "no", "false"),
            keep_days=days_of(fields.get("keep_days", "")),
            idempotency_key=request.headers.get("Idempotency-Key", "")[:200],
        )
        earlier = known_key(chosen, options)
        if earlier is not None:
            return Accepted(earlier, is_new=False)
        return accept_upload(arrival, chosen, options)


def receive_form(request: HttpRequest, arrival: Arrival) -> dict[str, str]:
    """Takes the files and the pasted text of a form; its other fields. Raises Refused."""
    request.upload_handlers = [IntoArrival(request, arrival)]  # type: ignore[list-item]
    fields = read_fields(request)
    refuse_forged(request)
    text = fields.get("text", "")
    if text.strip():
        arrival.take(PASTED, [text.encode()])
    if not arrival.files:
        raise empty()
    return fields


def read_fields(request: HttpRequest) -> dict[str, str]:
    """The text fields of the form; its files go to the upload handler on the way. Raises Refused."""
    try:
        return {name: str(value) for name, value in request.POST.items()}
    except RequestDataTooBig:
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE >> 20
        raise Refused(
            413, "paste_too_large", f"Pasted text may have {limit} MiB. Save it as a file and choose that."
        ) from None
    except TooManyFilesSent:
        raise Refused(413, "too_many_files", "Too many files came at once. Send an archive of them.") from None
    except (
        MultiPartParserError,
        TooManyFieldsSent,
        UnreadablePostError,
        SuspiciousOperation,
        LookupError,  # Python knows the form's charset, but it encodes no text
        UnicodeError,  # or not whatever bytes come
    ):
        raise Refused(400, "form", "The form could not be read. Send it again, or the file alone.") from None
