"""What tests of the API share: the world of the teams' tests, and keys into it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from teams.models import Scope
from teams.services import create_token
from tests.teams.conftest import world  # noqa: F401 - a fixture of the same name
from tests.teams.world import World

ALL = [Scope.READ, Scope.UPLOAD, Scope.WRITE]
Keyed = Callable[..., Client]


def key_of(here: World, user: User, scopes: list[Scope] | None = None, **more: Any) -> str:
    """A fresh token's secret."""
    team = more.pop("team", here.team)
    _, secret = create_token(user=user, team=team, name="test", scopes=scopes or ALL, expires_at=more.get("expires_at"))
    return secret


@pytest.fixture
def keyed(world: World) -> Keyed:  # noqa: F811
    """A client that sends a person's token with every request."""

    def client(user: User, scopes: list[Scope] | None = None, **more: Any) -> Client:
        return Client(headers={"Authorization": f"Bearer {key_of(world, user, scopes, **more)}"})

    return client
