"""Share links: who may make them, what their readers see, and that a dead link looks like one that never was."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.utils import timezone

from ingest.models import StoredReport, Upload
from reports import sharing_links, sharing_trash
from reports.models import ShareLink
from reports.sharing_links import Refused, What, Who, Wish
from teams.tokens import hash_secret
from tests.teams import world as worlds
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
        "launch_server",
        world.bob.email,
        "Inference EU",
    ):
        assert hidden not in text.replace("&#x27;", "'"), hidden


def test_a_link_with_the_log_names_the_phases_as_the_report_does(world: World) -> None:
    made = worlds.document()
    made["launches"][0]["phases"][1]["phase"] = "draft_weights"
    stored = worlds.report(worlds.upload(team=world.team, uploader=world.bob, log="a line"), made)
    _, address = link(world, stored, what=What.LOG)
    pages = [Client().get(address), signed_in(world.bob).get(f"/r/{stored.upload.public_id}/")]
    shared, own = (page.context["log_phases"] for page in pages)
    assert shared == own and ("draft_weights", "Draft weights") in shared


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


def test_tries_are_counted_anew_after_a_while_and_after_the_right_password(world: World, stored: StoredReport) -> None:
    made, url = link(world, stored, who=Who.PASSWORD, password="red lorry yellow")
    right, wrong = {"password": "red lorry yellow"}, {"password": "wrong"}
    assert [Client().post(url, wrong).status_code for _ in range(9)] == [403] * 9
    assert Client().post(url, right).status_code == 302
    assert [Client().post(url, wrong).status_code for _ in range(11)] == [403] * 10 + [429]
    assert Client().post(url, right).status_code == 429
    ShareLink.objects.filter(pk=made.pk).update(tried_since=timezone.now() - timedelta(minutes=16))
    assert Client().post(url, right).status_code == 302


@pytest.mark.django_db(transaction=True)
def test_tries_that_come_together_are_all_counted(world: World, stored: StoredReport) -> None:
    made, _ = link(world, stored, who=Who.PASSWORD, password="red lorry yellow")

    def tried(_: int) -> bool:
        try:
            return sharing_links.count_try(made)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(tried, range(40))).count(True) == sharing_links.TRIES


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


def test_the_preview_shows_the_outcome_in_its_own_colour(world: World, stored: StoredReport) -> None:
    page = signed_in(world.bob).get(f"/r/{stored.upload.public_id}/share/").content.decode()
    outcome = stored.document["launches"][-1]["outcome"]
    assert f'verdict--{outcome}"><div class="verdict__state">' in page


def made_by(client: Client, stored: StoredReport, **form: str) -> str:
    """The link on the answer to a form."""
    path = f"/r/{stored.upload.public_id}/share/"
    text = client.post(path, {"what": "facts", "who": "link", "days": "7", **form}).content.decode()
    return text.split('id="made-link">')[1].split("<")[0]


def test_an_answer_that_is_loaded_again_makes_no_second_link(world: World, stored: StoredReport) -> None:
    editor = signed_in(world.bob)
    page = editor.get(f"/r/{stored.upload.public_id}/share/").content.decode()
    once = page.split('name="once" value="')[1].split('"')[0]
    assert len(once) >= 22
    first = made_by(editor, stored, once=once)
    assert made_by(editor, stored, once=once) == first
    assert ShareLink.objects.count() == 1
    assert world.team.audit.filter(action="share.make").count() == 1
    assert made_by(editor, stored, once=once, days="30") != first, "another choice, another link"
    assert made_by(editor, stored, once="another form") != first
    assert first.rsplit("/", 2)[1] not in str(list(ShareLink.objects.values()))


def test_the_form_of_a_link_that_ended_makes_it_not_again(world: World, stored: StoredReport) -> None:
    editor = signed_in(world.bob)
    made_by(editor, stored, once="a form")
    sharing_links.revoke(ShareLink.objects.get(), by=world.bob)
    form = {"what": "facts", "who": "link", "days": "7", "once": "a form"}
    answer = editor.post(f"/r/{stored.upload.public_id}/share/", form)
    assert answer.status_code == 400 and "has ended" in answer.content.decode()
    assert ShareLink.objects.count() == 1


# --- Who sent a log without an account ------------------------------------------------------------------------


@pytest.fixture
def nobodys(world: World) -> StoredReport:
    return worlds.report(worlds.upload(team=None, uploader=None, delete_token_hash=hash_secret("shown once")))


def sender_of(stored: StoredReport) -> Client:
    """The browser that sent it."""
    client = Client()
    session = client.session
    session["uploader"] = "the browser's own secret"
    session.save()
    client.cookies[settings.SESSION_COOKIE_NAME] = session.session_key
    Upload.objects.filter(pk=stored.upload_id).update(owner_hash=hash_secret("the browser's own secret"))
    return client


def test_a_sender_without_an_account_lists_and_revokes_links(nobodys: StoredReport) -> None:
    sender, stranger = sender_of(nobodys), Client()
    sheet = f"/r/{nobodys.upload.public_id}/share/"
    url = made_by(sender, nobodys).removeprefix("http://testserver")
    made = ShareLink.objects.get()
    revoke = f"/shares/{made.public_id}/revoke/"
    assert made.hint in sender.get(sheet).content.decode() and revoke in sender.get(sheet).content.decode()
    assert stranger.get(sheet).status_code == 404
    assert "/account/login/" in stranger.post(revoke)["Location"]
    assert stranger.get(url).status_code == 200
    assert sender.post(revoke)["Location"] == sheet
    assert stranger.get(url).status_code == 404


def test_the_delete_token_makes_another_browser_the_senders(world: World, nobodys: StoredReport) -> None:
    browser, path = Client(), f"/r/{nobodys.upload.public_id}/"
    assert f"{path}share/" not in browser.get(path).content.decode()
    browser.post(f"{path}sender/", {"delete_token": "a guess"})
    assert browser.get(f"{path}share/").status_code == 404
    browser.post(f"{path}sender/", {"delete_token": "shown once"})
    assert f"{path}share/" in browser.get(path).content.decode()
    made_by(browser, nobodys)
    assert browser.post(f"/shares/{ShareLink.objects.get().public_id}/revoke/").status_code == 302
    assert ShareLink.objects.get().revoked_at is not None
    assert browser.post(f"{path}delete").status_code == 303
    assert not Upload.objects.filter(pk=nobodys.upload_id).exists()


def test_the_token_of_one_upload_opens_no_other(world: World, nobodys: StoredReport, stored: StoredReport) -> None:
    other = worlds.report(worlds.upload(team=None, uploader=None, delete_token_hash=hash_secret("another")))
    browser = Client()
    browser.post(f"/r/{nobodys.upload.public_id}/sender/", {"delete_token": "shown once"})
    for upload in (other.upload, stored.upload):
        assert browser.post(f"/r/{upload.public_id}/share/", {"days": "7"}).status_code == 404
    assert not ShareLink.objects.exists()


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
