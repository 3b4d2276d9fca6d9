"""When a launch is worth telling about, against the pinned baseline or, without one, the launch before it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ingest.models import StoredReport
from reports.models import TrackedFinding
from reports.words import SEVERITIES, duration, gib, tokens


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From which change on a launch is worth an alert.

    tokens_drop_percent  fewer KV tokens than the baseline
    slower_percent       longer from start to ready
    slower_seconds       and by as many seconds at least: less is the machine's own unrest
    free_drop_gib        less memory free after start, on the rank with the least
    finding_severity     a new finding of this severity or worse; or "never"
    """

    tokens_drop_percent: float = 5.0
    slower_percent: float = 30.0
    slower_seconds: float = 5.0
    free_drop_gib: float = 0.5
    finding_severity: str = "critical"

    @classmethod
    def of(cls, settings: dict[str, Any]) -> Thresholds:
        """The site's thresholds, as a team's settings change them."""
        held = cls()
        return replace(
            held,
            finding_severity=settings.get("finding_severity") or held.finding_severity,
            **{name: float(settings[name]) for name in _FIGURES if settings.get(name)},
        )

    def tells(self, severity: str) -> bool:
        """True when a new finding of this severity is worth an alert."""
        if self.finding_severity not in SEVERITIES or severity not in SEVERITIES:
            return False
        return SEVERITIES.index(severity) <= SEVERITIES.index(self.finding_severity)


_FIGURES = ("tokens_drop_percent", "slower_percent", "slower_seconds", "free_drop_gib")


@dataclass(frozen=True, slots=True)
class Warned:
    """One alert to be: its kind, which is told once a report, and one sentence."""

    kind: str
    text: str


def worth_telling(
    report: StoredReport, base: StoredReport | None, new: list[TrackedFinding], thresholds: Thresholds
) -> list[Warned]:
    """The alerts of one launch.

    A figure missing on either side raises none. The same log sent again raises none, whatever it says: it was told.
    new  findings that opened or came back with this launch
    """
    if base is not None and base.upload.sha256 and base.upload.sha256 == report.upload.sha256:
        return []
    found = []
    told = sorted((each for each in new if thresholds.tells(each.severity)), key=lambda x: SEVERITIES.index(x.severity))
    if told:
        more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
        found.append(Warned("finding", f"{told[0].summary}{more}"))
    if base is None:
        return found
    says_why = bool(told) and told[0].severity == "critical"
    if base.outcome == "ready" and report.outcome == "failed" and not says_why:
        found.append(Warned("failed", report.verdict or "The start failed; the one before was ready."))
    found += _fewer_tokens(report, base, thresholds)
    found += _less_free(report, base, thresholds)
    found += _slower(report, base, thresholds)
    return found


def _fewer_tokens(report: StoredReport, base: StoredReport, thresholds: Thresholds) -> list[Warned]:
    if report.kv_tokens is None or not base.kv_tokens:
        return []
    drop = 100 * (base.kv_tokens - report.kv_tokens) / base.kv_tokens
    if drop < thresholds.tokens_drop_percent:
        return []
    return [
        Warned("tokens", f"{drop:.1f} % fewer KV tokens: {tokens(report.kv_tokens)}, was {tokens(base.kv_tokens)}.")
    ]


def _less_free(report: StoredReport, base: StoredReport, thresholds: Thresholds) -> list[Warned]:
    if report.free_gib is None or base.free_gib is None:
        return []
    drop = round(base.free_gib - report.free_gib, 4)
    if drop < thresholds.free_drop_gib:
        return []
    text = f"{gib(drop)} GiB less memory free after start: {gib(report.free_gib)}, was {gib(base.free_gib)} GiB."
    return [Warned("free", text)]


def _slower(report: StoredReport, base: StoredReport, thresholds: Thresholds) -> list[Warned]:
    if report.ready_after_s is None or not base.ready_after_s:
        return []
    longer = report.ready_after_s - base.ready_after_s
    percent = 100 * longer / base.ready_after_s
    if percent < thresholds.slower_percent or longer < thresholds.slower_seconds:
        return []
    text = (
        f"The start took {percent:.0f} % longer: {duration(report.ready_after_s)}, was {duration(base.ready_after_s)}."
    )
    return [Warned("slower", text)]
