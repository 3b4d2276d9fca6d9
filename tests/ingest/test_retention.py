"""How long things are kept: the site's figures, a team's own, and the days since the last view."""

import os
import time
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from ingest import retention, services, upkeep
from ingest.models import Upload
from ingest.sender import Sender
from teams.models import Membership, Role, Team

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


@pytest.fixture
def member() -> Sender:
    team = Team.objects.create(name="Inference", slug="inference")
    user = get_user_model().objects.create_user("alice", password="a long password")
    Membership.objects.create(team=team, user=user, role=Role.OWNER)
    return Sender(user, team, "a" * 64, "")


def days(until) -> int:
    return round((until - timezone.now()) / DAY)


def test_a_strangers_upload_goes_whole_after_a_week(accept) -> None:
    upload = accept("report\n")
    assert (days(upload.expires_at), days(upload.log_until)) == (7, 7)


def test_a_members_report_outlives_its_log(accept, member: Sender) -> None:
    upload = accept("report\n", sender=member)
    assert (days(upload.expires_at), days(upload.log_until)) == (395, 90)


def test_what_a_killed_web_process_left_goes_after_an_hour(accept, uploads_folder: Path) -> None:
    """Of a log that is still coming in only the newest part is young."""
    kept = accept("report\n")
    ages = {"lost": (7200, 7200), "coming": (7200, 60), kept.public_id: (7200, 7200)}
    for name, (begun, written) in ages.items():
        part = uploads_folder / name / "raw" / "0.part"
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(b"half a log")
        for path, age in ((part, written), (part.parent, begun), (part.parent.parent, begun)):
            os.utime(path, (time.time() - age,) * 2)
    upkeep.remove_stray_folders()
    assert {each.name for each in uploads_folder.iterdir()} == {"coming", kept.public_id}


def test_a_team_has_its_own_figures(accept, member: Sender) -> None:
    member.team.settings = {"keep_report_days": 30, "keep_log_days": 60}
    upload = accept("report\n", sender=member)
    assert (days(upload.expires_at), days(upload.log_until)) == (30, 30)


def test_a_sender_may_ask_for_less_and_not_for_more(accept) -> None:
    assert days(accept("report\n", keep_days=1).expires_at) == 1
    assert days(accept("report\n", keep_days=4000).expires_at) == 7


def test_a_log_that_is_looked_at_is_kept_longer(accept, member: Sender) -> None:
    upload = accept("report\n", sender=member)
    services.diagnose_upload(upload.pk)
    Upload.objects.update(log_until=timezone.now() + 5 * DAY)
    upload.refresh_from_db()
    retention.log_was_viewed(upload)
    upload.refresh_from_db()
    assert days(upload.log_until) == 90
    until = upload.log_until
    retention.log_was_viewed(upload)  # again within the day: nothing is written
    upload.refresh_from_db()
    assert upload.log_until == until
