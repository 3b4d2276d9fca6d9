"""The starts of a deployment as rows: each start beside one other, the pinned baseline or the start before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ingest.models import StoredReport
from kvdiag.diagnosis.endings import came_up
from reports.deployments_changes import change_words, launch_of, moved_words
from reports.models import Comparison
from reports.templatetags.teamwords import when


@dataclass(frozen=True, slots=True)
class Start:
    """One row. Everything in it is measured against the same launch.

    base           the launch it is measured against; None for the baseline itself, a first start, and one whose
                   other is in the trash
    tokens_change  KV tokens against that launch, as a ratio; None when either has none,
                   or the start did not come up
    """

    report: StoredReport
    base: StoredReport | None
    change: str
    moved: str
    tokens_change: float | None
    is_baseline: bool = False
    when: str = ""


def against_previous(reports: Sequence[StoredReport], comparisons: dict[int, Comparison]) -> list[Start]:
    """Each start beside the one before it, as it was compared when it arrived."""
    starts = []
    for report in reports:
        told = comparisons.get(report.pk)
        if told is None:
            starts.append(Start(report, None, "", "", None))
            continue
        base = told.previous if told.previous and told.previous.upload.deleted_at is None else None
        starts.append(Start(report, base, told.change, told.moved, told.tokens_change))
    return starts


def against_baseline(reports: Sequence[StoredReport], baseline: StoredReport) -> list[Start]:
    """Each start beside the pinned baseline, whenever it was pinned."""
    pinned = launch_of(baseline.document) or {}
    documents = StoredReport.objects.filter(pk__in=[each.pk for each in reports]).values_list("pk", "document")
    said, up = {}, set()
    for pk, document in documents.iterator(chunk_size=4):
        launch = launch_of(document) or {}
        said[pk] = change_words(pinned, launch), moved_words(pinned, launch)
        up |= {pk} if came_up(launch) else set()
    starts = []
    for report in reports:
        if report.upload_id == baseline.upload_id:
            starts.append(Start(report, None, "the baseline", "", None, is_baseline=True))
            continue
        known = baseline.kv_tokens and report.kv_tokens is not None and report.pk in up
        ratio = report.kv_tokens / baseline.kv_tokens - 1 if known else None
        starts.append(Start(report, baseline, *said.get(report.pk, ("", "")), ratio))
    return starts


def times_of(reports: Sequence[StoredReport]) -> dict[int, str]:
    """When each start was sent, by report; those that the minute does not tell apart have seconds."""
    words = {report.pk: when(report.upload.created_at) for report in reports}
    counted = Counter(words.values())
    for report in reports:
        if counted[words[report.pk]] > 1:
            words[report.pk] = when(report.upload.created_at, "seconds")
    return words


def timed(starts: Sequence[Start], times: dict[int, str]) -> list[Start]:
    """The rows with when each was sent."""
    return [replace(start, when=times[start.report.pk]) for start in starts]
