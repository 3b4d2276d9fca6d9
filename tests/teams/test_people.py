"""Accounts, teams, invitations and tokens: who gets in, and what each change leaves behind."""

from __future__ import annotations

import re
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.mail import EmailMessage
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from teams import access, services
from teams.access import Action
from teams.models import ApiToken, Invitation, Membership, Role, SetupLink, Team
from tests.teams.conftest import signed_in
from tests.teams.world import PASSWORD, World

FORM = {"email": "Mara@Example.org", "name": "Mara Reuter", "password": "a long enough phrase", "team": "Inference EU"}


def printed_link() -> str:
    out = StringIO()
    call_command("setup_link", stdout=out)
    return out.getvalue().strip()


# --- The first person ------------------------------------------------------------------------------------------


def test_the_first_start_prints_a_link_that_makes_an_owner(db: None) -> None:
    link, client = printed_link(), Client()
    assert client.get(link).status_code == 200
    answer = client.post(link, FORM)
    assert (answer.status_code, answer["Location"]) == (302, "/dashboard/")
    mara = User.objects.get()
    assert (mara.email, mara.is_superuser) == ("mara@example.org", True)
    assert Membership.objects.get().role == Role.OWNER
    assert client.get("/dashboard/").status_code == 200, "she is signed in"


def test_a_setup_link_works_once_and_none_is_printed_afterwards(db: None) -> None:
    link = printed_link()
    Client().post(link, FORM)
    assert Client().get(link).status_code == 404
    assert Client().post(link, {**FORM, "email": "second@example.org"}).status_code == 404
    assert printed_link() == ""


def test_each_start_replaces_the_link_before(db: None) -> None:
    first, second = printed_link(), printed_link()
    assert Client().get(first).status_code == 404
    assert Client().get(second).status_code == 200
    assert first.split("/")[2] not in str(list(SetupLink.objects.values()))


def test_a_weak_password_is_refused(db: None) -> None:
    link = printed_link()
    assert Client().post(link, {**FORM, "password": "password12"}).status_code == 200
    assert not User.objects.exists()


# --- Signing in and up ------------------------------------------------------------------------------------------


def test_people_sign_in_by_e_mail_and_password(world: World) -> None:
    client = Client()
    answer = client.post("/account/login/", {"login": "alice@example.org", "password": PASSWORD})
    assert (answer.status_code, answer["Location"]) == (302, "/dashboard/")
    assert Client().get("/signin/?next=/findings/")["Location"] == "/account/login/?next=/findings/"


def test_a_wrong_password_and_an_unknown_address_look_the_same(world: World) -> None:
    def said(address: str) -> str:
        answer = Client().post("/account/login/", {"login": address, "password": "no such thing"})
        assert answer.status_code == 200
        return answer.content.decode().split('role="alert"')[1].split("</p>")[0]

    assert said("alice@example.org") == said("nobody@example.org")


def test_guessing_passwords_is_slowed(world: World) -> None:
    client, form = Client(), {"login": "alice@example.org", "password": "wrong"}
    for _ in range(12):
        client.post("/account/login/", form)
    answer = client.post("/account/login/", {**form, "password": PASSWORD})
    assert answer.status_code != 302


def test_signing_up_brings_a_team_of_ones_own(db: None, settings: object) -> None:
    settings.KVDIAG_SIGN_UP = True  # type: ignore[attr-defined]
    client = Client()
    answer = client.post("/account/signup/", {"email": "jo@example.org", "password1": "a long enough phrase"})
    assert answer.status_code == 302
    assert Membership.objects.get().role == Role.OWNER
    assert Team.objects.get().name == "jo’s team"


@pytest.fixture
def sends_mail(settings: Any) -> None:
    """As with KVDIAG_SMTP_URL; and nobody has guessed passwords before."""
    cache.clear()
    settings.KVDIAG_SENDS_MAIL, settings.ACCOUNT_EMAIL_VERIFICATION = True, "mandatory"


SIGN_UP = {"email": "jo@example.org", "password1": "a long enough phrase"}


def test_where_mail_is_sent_an_address_opens_nothing_before_it_is_verified(
    db: None, sends_mail: None, mailoutbox: list[EmailMessage]
) -> None:
    client, sign_in = Client(), {"login": "jo@example.org", "password": "a long enough phrase"}
    assert "confirm the address" in client.get("/account/signup/").content.decode()
    assert client.post("/account/signup/", SIGN_UP)["Location"] == "/account/confirm-email/"
    assert client.get("/dashboard/").status_code == 302
    assert Client().post("/account/login/", sign_in)["Location"] == "/account/confirm-email/"
    (mail,) = mailoutbox
    assert mail.to == ["jo@example.org"]
    link = re.search(r"http://testserver(/account/confirm-email/\S+)", str(mail.body))
    assert link is not None
    assert client.get(link[1]).status_code == 200
    assert not EmailAddress.objects.get().verified, "looking at the page confirms nothing"
    client.post(link[1])
    assert EmailAddress.objects.get().verified
    newcomer = Client()
    assert newcomer.post("/account/login/", sign_in)["Location"] == "/dashboard/"


def test_signing_up_with_anothers_address_tells_nothing(
    world: World, sends_mail: None, mailoutbox: list[EmailMessage]
) -> None:
    answers = [Client().post("/account/signup/", SIGN_UP | {"email": each}) for each in ("new@x.org", world.bob.email)]
    assert len({(answer.status_code, answer["Location"]) for answer in answers}) == 1
    assert [mail.to for mail in mailoutbox] == [["new@x.org"], [world.bob.email]]
    assert world.bob.check_password(PASSWORD)


def test_who_was_invited_by_mail_need_not_verify_again(world: World, sends_mail: None) -> None:
    client = Client()
    client.post(invitation(world), {"name": "New Person", "password": "a long enough phrase"})
    again = Client().post("/account/login/", {"login": "new@example.org", "password": "a long enough phrase"})
    assert again["Location"] == "/dashboard/"


def test_without_mail_addresses_stay_unverified_and_pages_say_so(world: World) -> None:
    client = Client()
    assert "sends no mail" in client.get("/account/signup/").content.decode()
    client.post("/account/signup/", SIGN_UP)
    jo = User.objects.get(email="jo@example.org")
    Membership.objects.create(team=world.team, user=jo, role=Role.VIEWER)
    text = signed_in(world.alice).get(f"/teams/{world.team.slug}/members/").content.decode()
    assert "jo@example.org, not verified" in text and "bob@example.org, not verified" not in text
    assert services.unverified_people(world.team) == {jo.pk}


def test_signing_up_can_be_closed(db: None, settings: object) -> None:
    settings.KVDIAG_SIGN_UP = False  # type: ignore[attr-defined]
    answer = Client().post("/account/signup/", {"email": "jo@example.org", "password1": "a long enough phrase"})
    assert "by invitation" in answer.content.decode()
    assert not User.objects.exists()


def test_signing_out_ends_the_session_itself(world: World) -> None:
    client = signed_in(world.alice)
    stolen = Client()
    stolen.cookies = client.cookies.copy()  # type: ignore[assignment]
    client.post("/account/logout/")
    assert stolen.get("/dashboard/").status_code == 302


# --- Invitations ------------------------------------------------------------------------------------------


def invitation(world: World, email: str = "new@example.org", role: Role = Role.EDITOR) -> str:
    return services.invite(world.team, email, role, by=world.alice)[1]


def test_an_invited_stranger_makes_an_account_and_is_in(world: World) -> None:
    link, client = invitation(world), Client()
    assert "Join Inference EU" in client.get(link).content.decode()
    answer = client.post(link, {"name": "New Person", "password": "a long enough phrase"})
    assert answer.status_code == 302
    assert Membership.objects.get(user__email="new@example.org", team=world.team).role == Role.EDITOR
    assert client.get("/dashboard/").status_code == 200


def test_looking_at_an_invitation_accepts_nothing_and_a_used_one_is_dead(world: World) -> None:
    link, charlie = invitation(world, "charlie@example.org"), signed_in(world.charlie)
    charlie.get(link)
    assert access.role_in(world.team, world.charlie) is None
    charlie.post(link)
    assert access.role_in(world.team, world.charlie) == Role.EDITOR
    assert Client().get(link).status_code == 404


@pytest.mark.parametrize("how", ["revoked", "ended", "replaced", "never made"])
def test_dead_invitations_look_alike(world: World, how: str) -> None:
    link = invitation(world) if how != "never made" else "/invitation/never-made/"
    if how == "revoked":
        services.revoke_invitation(Invitation.objects.get(), by=world.alice)
    if how == "ended":
        Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    if how == "replaced":
        invitation(world)
    answer = Client().post(link, {"name": "New", "password": "a long enough phrase"})
    assert answer.status_code == 404 and "This link does not work" in answer.content.decode()
    assert not User.objects.filter(email="new@example.org").exists()


def test_an_invitation_does_not_take_over_an_account(world: World) -> None:
    """Whoever holds the link of an address that has an account must sign in; she cannot set its password."""
    link = invitation(world, "charlie@example.org")
    Client().post(link, {"name": "Mallory", "password": "a long enough phrase"})
    assert access.role_in(world.team, world.charlie) is None
    assert world.charlie.check_password(PASSWORD)


def test_only_hashes_of_invitations_are_stored(world: World) -> None:
    secret = invitation(world).split("/")[2]
    assert secret not in str(list(Invitation.objects.values()))


def test_a_full_team_takes_nobody_more(world: World) -> None:
    with pytest.raises(services.Refused):
        services.invite(world.team, "x@example.org", Role.VIEWER, by=world.alice, limit=3)


# --- Roles ------------------------------------------------------------------------------------------


def test_a_team_keeps_an_owner(world: World) -> None:
    owner = world.team.memberships.get(user=world.alice)
    with pytest.raises(services.Refused):
        services.remove_member(owner, by=world.alice)
    with pytest.raises(services.Refused):
        services.change_role(owner, Role.VIEWER, by=world.alice)


def test_handing_over_makes_one_owner_and_one_editor(world: World) -> None:
    services.transfer(world.team, world.team.memberships.get(user=world.bob), by=world.alice)
    assert access.role_in(world.team, world.bob) == Role.OWNER
    assert access.role_in(world.team, world.alice) == Role.EDITOR


def test_whoever_leaves_takes_her_tokens_with_her(world: World) -> None:
    _, secret = services.create_token(user=world.bob, team=world.team, name="ci", scopes=[], expires_at=None)
    assert services.user_of_token(secret) == world.bob
    page = f"/teams/{world.team.slug}/members/{world.team.memberships.get(user=world.bob).pk}/"
    assert signed_in(world.bob).post(page, {"deed": "remove"}).status_code == 302
    assert services.user_of_token(secret) is None
    assert ApiToken.objects.get().revoked_at is not None


def test_viewers_manage_nobody(world: World) -> None:
    page = f"/teams/{world.team.slug}/members/{world.team.memberships.get(user=world.bob).pk}/"
    for deed in ("remove", "transfer", "role"):
        assert signed_in(world.vera).post(page, {"deed": deed, "role": "viewer"}).status_code == 403
    assert access.role_in(world.team, world.bob) == Role.EDITOR


def test_every_change_is_in_the_trail(world: World) -> None:
    invitation(world)
    services.change_role(world.team.memberships.get(user=world.vera), Role.EDITOR, by=world.alice)
    services.remove_member(world.team.memberships.get(user=world.vera), by=world.alice)
    assert list(world.team.audit.order_by("pk").values_list("action", flat=True)) == [
        "team.create",
        "member.invite",
        "member.role",
        "member.remove",
    ]
    text = signed_in(world.alice).get(f"/teams/{world.team.slug}/trail/").content.decode()
    assert 'tabindex="0" role="region" aria-label="Audit trail"' in text
    assert "member.remove" in text and "Alice Example" in text


# --- Tokens ------------------------------------------------------------------------------------------


def test_a_token_is_shown_once_and_kept_as_a_hash(world: World) -> None:
    client, page = signed_in(world.bob), f"/teams/{world.team.slug}/tokens/"
    text = client.post(page, {"name": "ci", "scopes": ["upload"], "lasts": "30"}).content.decode()
    secret = text.split('id="new-token">')[1].split("<")[0]
    assert secret.startswith("kvd_") and len(secret) >= 4 + 43
    assert secret not in client.get(page).content.decode()
    assert secret not in str(list(ApiToken.objects.values()))
    token = ApiToken.objects.get()
    assert token.expires_at is not None and token.scopes == ["upload"]
    assert client.post(f"{page}{token.pk}/revoke/").status_code == 302
    assert services.user_of_token(secret) is None


def test_an_answer_that_is_loaded_again_makes_no_second_token(world: World) -> None:
    client, page = signed_in(world.bob), f"/teams/{world.team.slug}/tokens/"
    once = client.get(page).content.decode().split('name="once" value="')[1].split('"')[0]
    form = {"name": "ci", "scopes": ["upload"], "lasts": "30", "once": once}

    def made(client: Client, **change: str) -> str:
        return client.post(page, form | change).content.decode().split('id="new-token">')[1].split("<")[0]

    first = made(client)
    assert made(client) == first and services.user_of_token(first) == world.bob
    assert ApiToken.objects.count() == 1
    assert made(client, name="another") != first
    assert made(signed_in(world.vera)) != first, "the same form of another person is another token"
    services.revoke_token(ApiToken.objects.get(name="ci", user=world.bob), by=world.bob)
    assert 'id="new-token"' not in client.post(page, form).content.decode()


def test_nobody_revokes_anothers_token_but_the_owner(world: World) -> None:
    token, _ = services.create_token(user=world.bob, team=world.team, name="ci", scopes=[], expires_at=None)
    page = f"/teams/{world.team.slug}/tokens/{token.pk}/revoke/"
    assert signed_in(world.vera).post(page).status_code == 404
    assert signed_in(world.alice).post(page).status_code == 302


# --- Permissions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("person", "action", "may"),
    [
        ("alice", Action.MANAGE, True),
        ("bob", Action.MANAGE, False),
        ("bob", Action.SHARE, True),
        ("vera", Action.VIEW, True),
        ("vera", Action.UPLOAD, False),
        ("charlie", Action.VIEW, False),
    ],
)
def test_roles_include_those_below(world: World, person: str, action: Action, may: bool) -> None:
    assert access.may(getattr(world, person), action, world.team) is may


def test_every_model_about_a_team_is_known_to_access() -> None:
    """A model that hangs on a team or an upload and is not listed could not be asked about."""
    from django.apps import apps

    named = {"reports.prediction"}
    for app in ("teams", "ingest", "reports"):
        for model in apps.get_app_config(app).get_models():
            hangs = {field.name for field in model._meta.get_fields() if field.many_to_one and field.concrete}
            if hangs & {"team", "upload", "deployment", "report", "channel"} or model is Team:
                named.add(model._meta.label_lower)
    assert named <= set(access.TEAM_OF)
