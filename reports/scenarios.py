"""Keeping a what-if scenario until a launch of the deployment shows how true it was."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from ingest.models import Upload
from ingest.views import upload_of
from reports import deployments_predictions, what_if
from reports.document import launches
from reports.knobs import PREFIX
from reports.models import Prediction
from teams import access
from teams.access import Action

MOST = 2000  # characters of a report page's address


def settings_in(query: str) -> dict[str, str]:
    """The settings of a scenario in the query of a report page's address."""
    given = parse_qsl(query[:MOST].removeprefix("?"))
    return {name.removeprefix(PREFIX): value for name, value in given if name.startswith(PREFIX)}


def may_keep(request: HttpRequest, upload: Upload) -> bool:
    """True for the deployment's editors."""
    return upload.deployment_id is not None and access.may(request.user, Action.EDIT, upload)


@login_required
@require_POST
def keep_scenario(request: HttpRequest, public_id: str) -> HttpResponse:
    """Keep the scenario that the page's address held; the what-if panel puts it there, with scripts or without."""
    upload = upload_of(request, public_id)
    deployment, stored = upload.deployment, upload.report
    if deployment is None or stored is None:
        raise Http404
    if not may_keep(request, upload):
        return render(request, "teams/not_allowed.html", {"team": upload.team}, status=403)
    number = request.POST.get("launch", "")
    launch = next((each for each in launches(stored.document) if str(each.get("number")) == number), None)
    if launch is None:
        raise Http404
    settings = settings_in(request.POST.get("scenario", ""))
    found, status = what_if.answer(launch, settings)
    try:
        if status != 200:
            raise deployments_predictions.NothingToKeep(str(found["error"]))
        deployments_predictions.keep_scenario(deployment, stored, launch, found, by=request.user)
    except deployments_predictions.NothingToKeep as nothing:
        messages.error(request, str(nothing))
    else:
        messages.success(request, f"Kept. The start of {deployment.name} that runs with it is compared with it.")
    query = urlencode({"launch": number} | {f"{PREFIX}{name}": value for name, value in settings.items()})
    return HttpResponseRedirect(f"{reverse('report', args=[upload.public_id])}?{query}#scenarios")


@login_required
@require_POST
def drop_scenario(request: HttpRequest, scenario: int) -> HttpResponse:
    """Forget a scenario that was kept."""
    visible = access.visible(Prediction, to=request.user).exclude(kept_by_name="")
    prediction = get_object_or_404(visible.select_related("deployment__team", "report__upload"), pk=scenario)
    if not access.may(request.user, Action.EDIT, prediction):
        return render(request, "teams/not_allowed.html", {"team": prediction.deployment.team}, status=403)
    deployments_predictions.drop_scenario(prediction, by=request.user)
    messages.success(request, "The scenario is forgotten.")
    return HttpResponseRedirect(f"{reverse('report', args=[prediction.report.upload.public_id])}#scenarios")
