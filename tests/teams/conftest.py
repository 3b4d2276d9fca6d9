"""What tests about teams share."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.teams.world import World, make_world


@pytest.fixture
def world(db: None, settings: object, tmp_path: Path) -> World:
    """A team with its people, and a folder of its own for uploads."""
    settings.KVDIAG_UPLOADS = tmp_path / "uploads"  # type: ignore[attr-defined]
    (tmp_path / "uploads").mkdir()
    return make_world()


def signed_in(user: User | None) -> Client:
    """A browser in which this person is signed in; nobody for None."""
    client = Client()
    if user is not None:
        client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client
