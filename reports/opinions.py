"""What readers said of findings: helpful or wrong, one answer a person and finding. The only writer of `Opinion`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest
from django.utils import timezone

from ingest.arrival import plain_text
from ingest.models import StoredReport, Upload
from ingest.sender import sent_it
from kvdiag.diagnosis.masking import Masker
from reports.deployments_series import UNSHOWN
from reports.document import launches
from reports.finding_cards import anchored
from reports.models import Opinion
from teams import access, redaction
from teams.access import Action
from teams.models import Team

MOST_REASON = 500  # characters
MOST_REASONS = 20  # of a rule, that its team reads
SENDER = "sender"


class Refused(ValueError):
    """An answer that is not taken; the text is a sentence for whoever gave it."""


def may_say(request: HttpRequest, upload: Upload) -> bool:
    """True for the team's members, the uploader, and the sender of nobody's upload."""
    if access.may(request.user, Action.JUDGE, upload):
        return True
    return sent_it(request, upload, request.headers.get("Upload-Token", ""))


def reader_key(user: Any) -> str:
    """What tells readers of one report apart: nobody's upload has one sender."""
    return f"user {user.pk}" if access.is_person(user) else SENDER


def say(report: StoredReport, launch_number: int, finding: str, says: str, reason: str = "", *, by: Any) -> None:
    """Keep an answer in place of an earlier one; an empty one takes it back. Raises Refused.

    finding  the anchor of the finding on the report's page
    """
    if says not in ("", *Opinion.Says.values):
        raise Refused("A finding is helpful or wrong.")
    reason = " ".join(plain_text(" ".join(reason.split())).split())
    if len(reason) > MOST_REASON:
        raise Refused(f"A reason has at most {MOST_REASON} characters.")
    rule = rule_of(report, launch_number, finding)
    which = {
        "report": report,
        "launch_number": launch_number,
        "finding": finding,
        "reader_key": reader_key(by),
    }
    if not says:
        Opinion.objects.filter(**which).delete()
        return
    team = report.upload.team
    masker = Masker(redaction.patterns_of(team.settings if team is not None else {}))
    values = {
        "rule": rule,
        "engine": report.engine,
        "says": says,
        "reason": masker.mask(reason)[:MOST_REASON] if reason else "",
        "said_at": timezone.now(),
    }
    Opinion.objects.update_or_create(**which, defaults=values)


def rule_of(report: StoredReport, launch_number: int, finding: str) -> str:
    """The rule of a finding. Raises Refused for one that the report does not have."""
    launch = next((each for each in launches(report.document) if each.get("number") == launch_number), None)
    found = next((rule for anchor, rule, _ in anchored(launch or {}) if anchor == finding), None)
    if found is None:
        raise Refused("This report has no such finding.")
    return found[:100]


def said_by(user: Any, report: StoredReport) -> dict[int, dict[str, Opinion]]:
    """A reader's answers on one report: by launch, then by finding."""
    said: dict[int, dict[str, Opinion]] = {}
    for opinion in report.opinions.filter(reader_key=reader_key(user)).order_by("launch_number", "finding"):
        said.setdefault(opinion.launch_number, {})[opinion.finding] = opinion
    return said


@dataclass(slots=True)
class Counted:
    """What a team's readers said of one rule, as one release of the engine ran it."""

    rule: str
    engine: str
    helpful: int = 0
    wrong: int = 0
    reasons: list[Opinion] = field(default_factory=list)


def counted(team: Team, *, to: Any) -> list[Counted]:
    """Answers by rule and engine, the rule that was wrong most often first; none of what is in the trash."""
    found: dict[tuple[str, str], Counted] = {}
    opinions = access.visible(Opinion, to=to).filter(report__upload__team=team)
    unread = ("report__document", *(f"report__{column}" for column in UNSHOWN))
    for opinion in opinions.select_related("report__upload").defer(*unread).order_by("-said_at", "-pk"):
        row = found.setdefault((opinion.rule, opinion.engine), Counted(opinion.rule, opinion.engine))
        if opinion.says == Opinion.Says.HELPFUL:
            row.helpful += 1
        else:
            row.wrong += 1
        if opinion.reason and len(row.reasons) < MOST_REASONS:
            row.reasons.append(opinion)
    return sorted(found.values(), key=lambda row: (-row.wrong, -row.helpful, row.rule, row.engine))
