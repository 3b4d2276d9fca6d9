"""Share links: who may make them, what their readers see, and that a dead link looks like one that never was."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from ingest.models import StoredReport
from reports import sharing_links, sharing_trash
from reports.models import ShareLink
from reports.sharing_links import Refused, What, Who, Wish
from tests.teams.conftest import signed_in
from tests.teams.world import World

LOG = "first line of the log\nsecond line names db-host-7 and avail mem=7.43 GB\nthird line\n"


def in_a_week() -> Any:
    return timezone.now() + timedelta(days=7)


@pytest.fixture
def stored(world: World) -> StoredReport:
    return world.launch(log=LOG, findings=[("thin-slack-after-capture", "warning")])


def link(world: World, stored: StoredReport, **wish: Any) -> tuple[ShareLink, str]:
    wish.setdefault("expires_at", in_a_week())
    made, token = sharing_links.make_link(stored.upload, Wish(**wish), by=world.alice)
    return made, f"/s/{token}/"


def test_a_facts_only_link_shows_figures_and_no_text_of_the_log(world: World, stored: StoredReport) -> None:
    _, url = link(world, stored)
    page = Client().get(url)
    text = page.content.decode()
    assert page.status_code == 200
    assert "7.43" in text and "Summary of thin-slack-after-capture" in text
    for hidden in (
        "the log's own words",
        "/models/",
        "server.log",
        world.bob.email,
        "Inference EU",
    ):
        assert hidden not in text.replace("&#x27;", "'"), hidden


def test_a_facts_only_link_gives_no_line_of_the_log_by_any_address(world: World, stored: StoredReport) -> None:
    _, url = link(world, stored)
    assert Client().get(f"{url}log?from=1&to=3").status_code == 404
    assert Client().get(f"{url}log/find?q=second").status_code == 404
    document = Client().get(f"{url[:-1]}.json")
    assert document.status_code == 200
    assert "the log's own words" not in document.content.decode()
    assert "db-host-7" not in document.content.decode()


def test_a_link_with_the_log_reads_the_log_but_not_the_upload_itself(world: World, stored: StoredReport) -> None:
    _, url = link(world, stored, what=What.LOG)
    assert "the log" in Client().get(url).content.decode()
    assert Client().get(f"/r/{stored.upload.public_id}/").status_code == 404
    assert Client().get(f"/r/{stored.upload.public_id}/log?from=1&to=2").status_code == 404


def test_dead_links_and_links_that_never_were_get_the_identical_answer(world: World, stored: StoredReport) -> None:
    expired, expired_url = link(world, stored)
    ShareLink.objects.filter(pk=expired.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    revoked, revoked_url = link(world, stored)
    sharing_links.revoke(revoked, by=world.alice)
    used_up, used_url = link(world, stored, max_views=1)
    ShareLink.objects.filter(pk=used_up.pk).update(views=1)
    _, members_url = link(world, stored, who=Who.TEAM, expires_at=None)
    urls = [expired_url, revoked_url, used_url, members_url, "/s/never-existed-at-all/"]
    answers = [Client().get(url) for url in urls]
    assert {answer.status_code for answer in answers} == {404}
    assert len({answer.content for answer in answers}) == 1
    assert len({tuple(sorted(answer.headers.items())) for answer in answers}) == 1
    parts = [Client().get(f"{url}log?from=1") for url in urls]
    assert len({(part.status_code, part.content) for part in parts}) == 1


def test_deleting_the_upload_ends_its_links_for_good(world: World, stored: StoredReport) -> None:
    _, url = link(world, stored)
    sharing_trash.to_trash(stored.upload, by=world.bob)
    assert Client().get(url).status_code == 404
    stored.upload.refresh_from_db()
    sharing_trash.restore(stored.upload, by=world.bob)
    assert Client().get(url).status_code == 404


def test_only_hashes_of_tokens_are_stored(world: World, stored: StoredReport) -> None:
    made, url = link(world, stored)
    token = url.split("/")[2]
    assert len(token) >= 22  # 128 bits
    row = ShareLink.objects.filter(pk=made.pk).values().get()
    assert token not in str(row)


def test_no_get_counts_a_view_or_changes_anything(world: World, stored: StoredReport) -> None:
    made, url = link(world, stored, max_views=2)
    for _ in range(3):
        assert "Open the report" in Client().get(url).content.decode()
        assert Client().head(url).status_code == 200
    made.refresh_from_db()
    assert made.views == 0 and made.last_viewed_at is None


def test_a_view_limit_is_counted_by_the_click_and_then_ends_the_link(world: World, stored: StoredReport) -> None:
    made, url = link(world, stored, max_views=1)
    reader = Client()
    assert reader.post(url).status_code == 302
    assert "7.43" in reader.get(url).content.decode()
    assert "7.43" in reader.get(url).content.decode(), "whoever was counted may reload"
    assert Client().get(url).status_code == 404
    assert Client().post(url).status_code == 404
    made.refresh_from_db()
    assert made.views == 1


def test_a_password_is_asked_for_and_its_guessing_is_slowed(world: World, stored: StoredReport) -> None:
    _, url = link(world, stored, who=Who.PASSWORD, password="red lorry yellow")
    reader = Client()
    assert "7.43" not in reader.get(url).content.decode()
    assert reader.get(f"{url[:-1]}.json").status_code == 404
    assert reader.post(url, {"password": "wrong"}).status_code == 403
    assert reader.post(url, {"password": "red lorry yellow"}).status_code == 302
    assert "7.43" in reader.get(url).content.decode()
    guesser = Client()
    statuses = [guesser.post(url, {"password": f"guess {number}"}).status_code for number in range(12)]
    assert statuses[-1] == 429


def test_members_follow_a_members_link_and_outsiders_do_not(world: World, stored: StoredReport) -> None:
    _, url = link(world, stored, who=Who.TEAM, expires_at=None)
    assert signed_in(world.vera).get(url).status_code == 200
    assert signed_in(world.charlie).get(url).status_code == 404


def test_shared_pages_are_not_listed_not_kept_and_not_told_to_others(world: World, stored: StoredReport) -> None:
    _, url = link(world, stored)
    page = Client().get(url)
    assert page["X-Robots-Tag"] == "noindex, nofollow, noarchive"
    assert page["Referrer-Policy"] == "no-referrer"
    assert page["Cache-Control"] == "private, no-store"
    text = page.content.decode()
    assert '<meta name="robots" content="noindex' in text
    assert "<title>kvdiag report</title>" in text and 'og:description"' not in text


def test_a_preview_is_shown_only_when_it_was_allowed(world: World, stored: StoredReport) -> None:
    _, url = link(world, stored, show_preview=True)
    text = Client().get(url).content.decode()
    assert "<title>kvdiag report</title>" not in text and 'og:description"' in text


@pytest.mark.parametrize(
    "wish",
    [
        {"expires_at": None},
        {"expires_at": timezone.now() - timedelta(minutes=1)},
        {"expires_at": timezone.now() + timedelta(days=400)},
        {"who": Who.PASSWORD, "password": "short"},
        {"max_views": 0},
        {"what": "everything"},
    ],
)
def test_a_link_without_sense_is_refused(world: World, stored: StoredReport, wish: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        sharing_links.make_link(stored.upload, Wish(**{"expires_at": in_a_week(), **wish}), by=world.alice)


def test_the_sheet_makes_a_link_that_works_and_shows_it_once(world: World, stored: StoredReport) -> None:
    editor = signed_in(world.bob)
    sheet = f"/r/{stored.upload.public_id}/share/"
    text = editor.post(sheet, {"what": "facts", "who": "link", "days": "7"}).content.decode()
    url = text.split('id="made-link">')[1].split("<")[0]
    assert Client().get(url.removeprefix("http://testserver")).status_code == 200
    assert url not in editor.get(sheet).content.decode()
    made = ShareLink.objects.get()
    assert made.expires_at is not None
    assert abs((made.expires_at - in_a_week()).total_seconds()) < 60


def test_viewers_and_outsiders_make_no_link(world: World, stored: StoredReport) -> None:
    sheet = f"/r/{stored.upload.public_id}/share/"
    assert signed_in(world.vera).post(sheet, {"days": "7"}).status_code == 403
    assert signed_in(world.charlie).post(sheet, {"days": "7"}).status_code == 404
    assert not ShareLink.objects.exists()


def test_revoking_ends_the_link_and_is_written_down(world: World, stored: StoredReport) -> None:
    made, url = link(world, stored)
    assert signed_in(world.charlie).post(f"/shares/{made.public_id}/revoke/").status_code == 404
    assert signed_in(world.vera).post(f"/shares/{made.public_id}/revoke/").status_code == 403
    assert signed_in(world.bob).post(f"/shares/{made.public_id}/revoke/").status_code == 302
    assert Client().get(url).status_code == 404
    assert world.team.audit.filter(action="share.revoke", actor=world.bob).exists()
