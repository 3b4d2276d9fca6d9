"""What a what-if scenario foresaw, and how true it was once a launch tried it."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet

from ingest.models import StoredReport, Upload
from reports.deployments_changes import arguments_changed, launch_of
from reports.document import dig, launches, listed
from reports.models import Prediction
from teams.audit import person_name, record
from teams.models import Deployment

MOST_KEPT = 50  # scenarios of one deployment that wait for their launch


class NothingToKeep(ValueError):
    """A scenario that no launch could be compared with; the text is a sentence for the person who asked."""


def keep_scenario(
    deployment: Deployment, report: StoredReport, launch: dict[str, Any], found: dict[str, Any], *, by: Any
) -> Prediction:
    """Keep the answer to a what-if until a launch of the deployment runs with its flags. Raises NothingToKeep.

    found  the scenario's document (ledger/what_if/answer.py)
    """
    change = {flag["flag"][2:].replace("-", "_"): _argument(flag["to"]) for flag in listed(found, "flags")}
    tokens, free_gib = dig(found, "tokens", "after"), dig(found, "free_gib", "after")
    if not change:
        raise NothingToKeep("Nothing differs from this start: change a setting, then keep the scenario.")
    if found.get("opening_gib"):
        raise NothingToKeep("Whether a start runs on the other card is not looked at, so this scenario is not kept.")
    if found.get("refused") or tokens is None:
        raise NothingToKeep("This scenario foresees no KV tokens that a start could be compared with.")
    if deployment.predictions.exclude(kept_by_name="").filter(outcome=None).count() >= MOST_KEPT:
        raise NothingToKeep(f"{MOST_KEPT} scenarios wait for their start already. Drop one first.")
    number = launch.get("number")
    prediction = _keep(
        deployment, report, change, launch_number=number, tokens=tokens, free_gib=free_gib, kept_by_name=_name(by)
    )
    record(by, "scenario.keep", team=deployment.team, object=deployment.name, flags=prediction.flags)
    return prediction


def drop_scenario(prediction: Prediction, *, by: Any) -> None:
    """Forget a scenario that somebody kept."""
    deployment = prediction.deployment
    record(by, "scenario.drop", team=deployment.team, object=deployment.name, flags=prediction.flags)
    prediction.delete()


def kept_scenarios(upload: Upload) -> QuerySet[Prediction]:
    """What was kept of an upload's launches, and what its last launch tried of what was kept before; newest first."""
    about = Q(report__upload=upload) | Q(outcome__upload=upload)
    kept = Prediction.objects.filter(deployment=upload.deployment_id).exclude(kept_by_name="")
    return _with_launches(kept.filter(about))


def predictions_of(deployment: Deployment) -> QuerySet[Prediction]:
    """Kept scenarios, tried or not, and the remedies that were tried; newest first."""
    return _with_launches(deployment.predictions.exclude(kept_by_name="", outcome=None))


def _with_launches(predictions: QuerySet[Prediction]) -> QuerySet[Prediction]:
    documents = ("report__document", "outcome__document")
    there = predictions.filter(report__upload__deleted_at=None).select_related("report__upload", "outcome__upload")
    return there.defer(*documents).order_by("-made_at", "-pk")


def _name(person: Any) -> str:
    return person_name(person)[:150] or "somebody"


def _argument(spelled: str | None) -> Any:
    """An argument's value from its spelling behind the flag: a number, True for a switch, None for what is unset."""
    if spelled is None:
        return None
    number = _number(spelled)
    if number is None:
        return spelled or True
    return int(number) if number.is_integer() and "." not in spelled else number


def _keep(deployment: Deployment, report: StoredReport, change: dict[str, Any], **foreseen: Any) -> Prediction:
    """Remember a change until a launch with its flags comes. One change of one report is kept once."""
    prediction, _ = Prediction.objects.update_or_create(
        deployment=deployment, report=report, change=change, outcome=None, defaults=foreseen
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
                _keep(deployment, report, change, tokens=tokens, free_gib=free)


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
        elif value != wanted and not (wanted is None and value is False):
            return False
    return True


def _changed_launch(prediction: Prediction) -> dict[str, Any]:
    """The launch that the scenario changed."""
    document = prediction.report.document
    found = [each for each in launches(document) if each.get("number") == prediction.launch_number]
    return (found[0] if found else launch_of(document)) or {}


def settle_predictions(deployment: Deployment, report: StoredReport, launch: dict[str, Any]) -> None:
    """Compare what was foreseen with what this launch printed."""
    if report.kv_tokens is None:
        return
    for prediction in (
        deployment.predictions.filter(outcome=None).exclude(report__upload=report.upload).select_related("report")
    ):
        if not is_tried(prediction.change, _changed_launch(prediction), launch):
            continue
        prediction.outcome, prediction.printed_tokens = report, report.kv_tokens
        if prediction.tokens is not None and report.kv_tokens:
            prediction.error_percent = 100 * abs(prediction.tokens - report.kv_tokens) / report.kv_tokens
        prediction.save()
