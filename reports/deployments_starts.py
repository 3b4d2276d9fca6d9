"""The starts of a deployment as rows: each start beside one other, the pinned baseline or the start before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction

from ingest.models import StoredReport
from kvdiag.diagnosis.endings import came_up
from reports.deployments_changes import UNCHANGED, Launch, change_words, launch_of, moved_words
from reports.models import Baseline, Comparison
from reports.words import when
from teams.models import Deployment


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

    @property
    def is_unchanged(self) -> bool:
        """Whether there is no difference to explain."""
        return self.change == UNCHANGED and not self.moved


def baseline_of(deployment: Deployment) -> Baseline | None:
    """The pinned baseline of a deployment; None also while its report is in the trash."""
    pinned = Baseline.objects.filter(deployment=deployment, report__upload__deleted_at=None)
    return pinned.select_related("report__upload").defer("report__document").first()


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


def against_baseline(
    reports: Sequence[StoredReport], comparisons: dict[int, Comparison], baseline: StoredReport
) -> list[Start]:
    """Each start beside the pinned baseline, whenever it was pinned; what is not kept of that is worked out."""
    told = {pk: each for pk, each in comparisons.items() if each.pinned_id == baseline.pk}
    unkept = [each for each in reports if each.pk not in told and each.upload_id != baseline.upload_id]
    if unkept:
        told |= {pk: Comparison(report_id=pk, **values) for pk, values in _worked_out(unkept, baseline)}
    starts = []
    for report in reports:
        if report.upload_id == baseline.upload_id:
            starts.append(Start(report, None, "the baseline", "", None, is_baseline=True))
            continue
        said = told.get(report.pk) or Comparison()
        starts.append(Start(report, baseline, said.pinned_change, said.pinned_moved, said.pinned_tokens_change))
    return starts


def keep_against(reports: Sequence[StoredReport], baseline: StoredReport) -> None:
    """Keep what the page says of some starts beside a baseline, with their comparisons."""
    with transaction.atomic():
        # locked, so that no text that is hidden meanwhile is kept from an older copy of a document
        pks = [baseline.pk, *(each.pk for each in reports)]
        held = StoredReport.objects.filter(pk__in=pks).order_by("pk").select_for_update(no_key=True)
        list(held.values_list("pk"))
        for pk, values in _worked_out(reports, baseline):
            Comparison.objects.filter(report=pk).update(**values)


def _worked_out(reports: Sequence[StoredReport], baseline: StoredReport) -> Iterator[tuple[int, dict[str, Any]]]:
    """By report what its comparison keeps beside a baseline, the documents read for it."""
    known = {each.pk: each for each in reports}
    pinned = launch_of(StoredReport.objects.values_list("document", flat=True).get(pk=baseline.pk)) or {}
    documents = StoredReport.objects.filter(pk__in=known).values_list("pk", "document")
    for pk, document in documents.iterator(chunk_size=4):
        yield pk, beside_pinned(known[pk], launch_of(document) or {}, baseline, pinned)


def beside_pinned(report: StoredReport, launch: Launch, baseline: StoredReport, pinned: Launch) -> dict[str, Any]:
    """What a comparison keeps of a report's launch beside that of a baseline."""
    return {"pinned": baseline} | {
        f"pinned_{name}": value for name, value in beside(report, launch, baseline, pinned).items()
    }


def beside(report: StoredReport, launch: Launch, base: StoredReport, before: Launch) -> dict[str, Any]:
    """What is said of a report's launch beside another: what changed, what that moved, and KV tokens as a ratio."""
    ratio = None
    if base.kv_tokens and report.kv_tokens is not None and came_up(launch):
        ratio = report.kv_tokens / base.kv_tokens - 1
    return {
        "change": change_words(before, launch),
        "moved": moved_words(before, launch)[:300],
        "tokens_change": ratio,
    }


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
