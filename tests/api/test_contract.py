"""The OpenAPI document against the running application: generated requests, checked answers. Bounded and repeatable."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase
from hypothesis import settings as hypothesis_settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from kvdiag.wsgi import application
from reports.models import TrackedFinding
from tests.api.conftest import key_of
from tests.teams.world import World

schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", application)
CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)


@dataclass
class Known:
    """A key into a team with two launches, and the ids of what is there."""

    key: str
    ids: dict[str, Any]


@pytest.fixture
def known(world: World, settings: Any) -> Known:
    settings.KVDIAG_LIMITS = dataclasses.replace(settings.KVDIAG_LIMITS, token_requests_per_minute=10**6)
    world.launch(log="one\ntwo\n", findings=[("thin-slack-after-capture", "warning")])
    stored = world.launch(tokens=80_000, findings=[("thin-slack-after-capture", "warning")])
    deployment = stored.upload.deployment
    finding = TrackedFinding.objects.get()
    assert deployment is not None
    ids = {"report_id": stored.upload.public_id, "deployment_id": deployment.public_id, "finding_id": finding.public_id}
    return Known(key_of(world, world.alice), ids)


@pytest.mark.slow
@schema.parametrize()
@hypothesis_settings(
    max_examples=12,
    derandomize=True,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_no_request_breaks_the_contract(case: Any, known: Known) -> None:
    """Whatever fits the description is answered as described; whatever does not is refused as described.

    Half of the requests go to objects that are there, or they would all end in 404.
    """
    if len(repr(case.query) + repr(case.body)) % 2 == 0:
        for name in set(case.path_parameters or {}) & known.ids.keys():
            case.path_parameters[name] = known.ids[name]
    case.headers = {**(case.headers or {}), "Authorization": f"Bearer {known.key}"}
    case.call_and_validate(checks=CHECKS)
