"""What a what-if scenario foresaw, and how true it was once a launch tried it."""

from __future__ import annotations

from typing import Any

from ingest.models import StoredReport
from reports.deployments_changes import arguments_changed, launch_of
from reports.document import dig, listed
from reports.models import Prediction
from teams.models import Deployment


def keep_prediction(
    deployment: Deployment, report: StoredReport, change: dict[str, Any], *, tokens: int | None, free_gib: float | None
) -> Prediction:
    """Remember a scenario until a launch with its flags comes. One scenario of one report is kept once."""
    prediction, _ = Prediction.objects.update_or_create(
        deployment=deployment,
        report=report,
        change=change,
        outcome=None,
        defaults={"tokens": tokens, "free_gib": free_gib},
    )
    return prediction


def keep_remedies(deployment: Deployment, report: StoredReport, launch: dict[str, Any]) -> None:
    """Remember what the report's own remedies promise, as far as they are one flag with a value and tokens."""
    for finding in listed(launch, "findings"):
        for remedy in listed(finding, "remedies"):
            flag, value = str(remedy.get("flag") or ""), _number(remedy.get("to"))
            tokens = dig(remedy, "effect", "kv_tokens", "to")
            if flag.startswith("--") and value is not None and isinstance(tokens, int):
                change, free = {flag[2:].replace("-", "_"): value}, dig(remedy, "effect", "free_gib", "to")
                keep_prediction(deployment, report, change, tokens=tokens, free_gib=free)


def _number(text: Any) -> float | None:
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def is_tried(change: dict[str, Any], before: dict[str, Any], launch: dict[str, Any]) -> bool:
    """True when the launch ran with every flag of the scenario, and nothing else was changed by hand."""
    if not change or dig(before, "version", "exact") != dig(launch, "version", "exact"):
        return False
    for name, _, _ in arguments_changed(before, launch):
        by_hand = "given" in (dig(each, "arguments", name, "origin") for each in (before, launch))
        if by_hand and name not in change:
            return False
    for name, wanted in change.items():
        value = dig(launch, "arguments", name, "value")
        if isinstance(wanted, int | float) and isinstance(value, int | float):
            if abs(float(wanted) - float(value)) > 1e-6:
                return False
        elif value != wanted:
            return False
    return True


def settle_predictions(deployment: Deployment, report: StoredReport, launch: dict[str, Any]) -> None:
    """Compare what was foreseen with what this launch printed."""
    if report.kv_tokens is None:
        return
    for prediction in (
        deployment.predictions.filter(outcome=None).exclude(report__upload=report.upload).select_related("report")
    ):
        if not is_tried(prediction.change, launch_of(prediction.report.document) or {}, launch):
            continue
        prediction.outcome, prediction.printed_tokens = report, report.kv_tokens
        if prediction.tokens is not None and report.kv_tokens:
            prediction.error_percent = 100 * abs(prediction.tokens - report.kv_tokens) / report.kv_tokens
        prediction.save()
