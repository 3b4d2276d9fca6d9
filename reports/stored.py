"""Stored uploads as the report pages need them: the document, the masked log on disk, who may read it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.http import Http404, HttpRequest

from ingest.arrival import folder_of
from ingest.models import StoredReport, Upload
from ingest.views import upload_of
from reports.document import Document, LineRef
from reports.log_excerpt import excerpt, marks_of, viewer_data
from reports.steps import phase_name


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of the masked log."""

    name: str
    path: Path
    lines: int


def log_files(upload: Upload) -> list[LogFile]:
    """The masked copies that are still kept, by their place in the upload. Empty when any is gone."""
    files = []
    for described in upload.files:
        path = folder_of(upload.public_id) / described["path"] if described.get("path") else None
        if path is None or not path.is_file():
            return []
        files.append(LogFile(str(described.get("name") or "log"), path, described.get("lines") or 0))
    return files


def line_texts(files: list[LogFile], refs: list[LineRef]) -> dict[LineRef, str]:
    """The text of some lines. Neighbours are read together, through the index."""
    from kvdiag.diagnosis.masked_copy import log_range

    texts: dict[LineRef, str] = {}
    for place, file in enumerate(files):
        wanted = sorted(ref.line for ref in refs if ref.file == place)
        by_line = {ref.line: ref for ref in refs if ref.file == place}
        at = 0
        while at < len(wanted):
            end = at
            while end + 1 < len(wanted) and wanted[end + 1] - wanted[end] <= 64:
                end += 1
            for number, text in log_range(file.path, wanted[at], wanted[end]):
                if number in by_line:
                    texts[by_line[number]] = text
            at = end + 1
    return texts


def log_context(upload: Upload, document: Document) -> dict[str, Any]:
    """The log viewer's part of a page: whether the log is kept, the lines shown first, what its script needs."""
    files = log_files(upload)

    def fetch(refs: list[LineRef]) -> dict[LineRef, str]:
        return line_texts(files, refs)

    marks = marks_of(document)
    data = viewer_data(document, marks)
    return {
        "can_log": bool(files),
        "log_items": excerpt(document, fetch if files else None, marks),
        "log_data": data,
        "log_phases": list(dict.fromkeys((phase[0], phase_name(phase[0])) for phase in data["phases"])),
    }


def report_of(request: HttpRequest, public_id: str) -> tuple[Upload, StoredReport]:
    """An upload and its newest report, for whoever may see them; 404 for everybody else and before there is one."""
    upload = upload_of(request, public_id)
    report = upload.report
    if report is None:
        raise Http404("There is no report yet.")
    return upload, report
