"""What goes by itself, when, and what the team's trail says about it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from ingest.models import Upload
from ingest.upkeep import purge
from reports import sharing_links, sharing_trash
from reports.models import ShareLink
from reports.retention import forget_ended
from reports.sharing_links import Wish
from teams.models import AuditEntry, Deployment, Invitation, Role
from teams.services import invite
from tests.teams import world as worlds
from tests.teams.conftest import signed_in
from tests.teams.test_sharing import in_a_week
from tests.teams.world import World


def test_the_trash_empties_itself_and_says_so(
    world: World, settings: object, django_capture_on_commit_callbacks
) -> None:
    world.launch(tokens=100_000)
    newest = world.launch(tokens=90_000)
    days = settings.KVDIAG_LIMITS.trash_days  # type: ignore[attr-defined]
    sharing_trash.to_trash(Upload.objects.get(pk=newest.upload.pk), by=world.bob)
    Upload.objects.filter(pk=newest.upload.pk).update(deleted_at=timezone.now() - timedelta(days=days, seconds=-60))
    assert purge() == {}
    Upload.objects.filter(pk=newest.upload.pk).update(deleted_at=timezone.now() - timedelta(days=days, seconds=60))
    with django_capture_on_commit_callbacks(execute=True):
        assert purge() == {(world.team.pk, "reports"): 1}
    told = AuditEntry.objects.get(action="retention.purge")
    assert (told.team, told.detail) == (world.team, {"reports": 1, "logs": 0})
    assert Deployment.objects.get().last_kv_tokens == 100_000


def test_a_log_goes_before_its_report(world: World) -> None:
    stored = world.launch(log="one\n")
    Upload.objects.update(log_until=timezone.now() - timedelta(seconds=1))
    assert purge() == {(world.team.pk, "logs"): 1}
    assert purge() == {}, "and is told once"
    stored.refresh_from_db()
    assert stored.document["launches"]


@pytest.mark.parametrize("teams_own", [True, False])
def test_what_has_expired_is_gone_before_it_is_deleted(world: World, teams_own: bool) -> None:
    row = world.launch(log="one\n").upload if teams_own else worlds.upload(team=None, uploader=None, log="one\n")
    if not teams_own:
        worlds.report(row)
    _, token = sharing_links.make_link(row, Wish(what="log", expires_at=in_a_week()), by=world.bob)
    addresses = [f"/r/{row.public_id}/", f"/r/{row.public_id}.json", f"/r/{row.public_id}/log", f"/s/{token}/"]
    bob = signed_in(world.bob)
    assert {bob.get(address).status_code for address in addresses} == {200}
    Upload.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert {bob.get(address).status_code for address in (*addresses, f"/s/{token}.json")} == {404}


def test_what_was_nobodys_is_told_without_a_team(world: World) -> None:
    worlds.upload(team=None, uploader=None, expires_at=timezone.now() - timedelta(seconds=1))
    assert purge() == {(None, "reports"): 1}
    assert AuditEntry.objects.get(action="retention.purge").team is None


def test_links_and_invitations_are_forgotten_long_after_their_end(world: World) -> None:
    stored = world.launch()
    for days in (1, 89, 91):
        link, _ = sharing_links.make_link(stored.upload, Wish(expires_at=in_a_week()), by=world.bob)
        ShareLink.objects.filter(pk=link.pk).update(expires_at=timezone.now() - timedelta(days=days))
    invited, _ = invite(world.team, "new@example.org", Role.VIEWER, by=world.alice)
    Invitation.objects.filter(pk=invited.pk).update(expires_at=timezone.now() - timedelta(days=91))
    gone = forget_ended()
    assert (gone["links"], gone["invitations"]) == (1, 1)
    assert ShareLink.objects.count() == 2


def test_deleting_an_upload_for_good_takes_its_links_and_comparisons(world: World) -> None:
    from reports.models import Comparison, SearchEntry

    stored = world.launch()
    sharing_links.make_link(stored.upload, Wish(expires_at=in_a_week()), by=world.bob)
    sharing_trash.delete_now(Upload.objects.get(pk=stored.upload.pk), by=world.bob)
    assert [model.objects.count() for model in (Upload, ShareLink, Comparison, SearchEntry)] == [0, 0, 0, 0]
