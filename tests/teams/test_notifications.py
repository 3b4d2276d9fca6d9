"""Alerts on their way out: signed, told once, and never a way into the operator's own network."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from django.core import mail

from reports import alerts_address, alerts_sending
from reports.alerts_address import Refused, checked_url, is_outside, post, resolve
from reports.models import Alert, Channel, Delivery
from reports.tasks import deliver_alert
from tests.teams.conftest import signed_in
from tests.teams.world import World


@dataclass
class Receiver:
    """Another side that remembers what it was sent."""

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    status: int = 200


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            found.headers.append({name.lower(): value for name, value in self.headers.items()})
            self.send_response(found.status)
            self.send_header("Location", found.url)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    found.url = f"http://127.0.0.1:{server.server_port}/hook"
    yield found
    server.shutdown()
    server.server_close()


@pytest.fixture
def alert(world: World) -> Alert:
    world.launch(tokens=100_000)
    world.launch(tokens=80_000)
    return Alert.objects.select_related("deployment__team", "report__upload").get()


def channel(world: World, kind: str, address: str) -> Channel:
    return Channel.objects.create(team=world.team, kind=kind, address=address)


# --- The address ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1",
        "::1", "fe80::1", "fc00::1", "fec0::1", "::7f00:1", "64:ff9b:1::7f00:1",
        "240.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "ff02::1", "fe80::1%eth0",
    ],
)  # fmt: skip
def test_internal_and_special_addresses_are_known(address: str) -> None:
    assert not is_outside(address)


@pytest.mark.parametrize("address", ["93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34"])
def test_addresses_of_the_internet_pass(address: str) -> None:
    assert is_outside(address)


@pytest.mark.parametrize(
    "url", ["ftp://example.org/", "file:///etc/passwd", "https://", "https://user:pw@example.org/", "http://[::1", "x"]
)
def test_addresses_that_are_no_webhook_are_refused(url: str) -> None:
    with pytest.raises(Refused):
        checked_url(url, allow_internal=True)


@pytest.mark.parametrize("host", ["localhost", "x.localhost:8000", "127.0.0.1", "[::1]:80", "10.1.2.3"])
def test_an_address_that_is_internal_by_itself_is_refused_when_it_is_added(host: str) -> None:
    with pytest.raises(Refused, match="internal network"):
        checked_url(f"http://{host}/hook", allow_internal=False)
    assert checked_url(f"http://{host}/hook", allow_internal=True).path == "/hook"


def test_a_name_with_one_internal_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(0, 0, 0, "", ("93.184.216.34", 443)), (0, 0, 0, "", ("10.0.0.1", 443))]
    monkeypatch.setattr(alerts_address.socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(Refused, match="internal"):
        resolve("hooks.example.org", 443, allow_internal=False)


def test_the_connection_goes_to_the_very_address_that_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name may not answer with one address for the check and another for the use."""
    asked, connected = [], []

    def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        return [(0, 0, 0, "", ("93.184.216.34", port))]

    def create_connection(address: tuple[str, int], *_: Any) -> Any:
        connected.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(alerts_address.socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(alerts_address.socket, "create_connection", create_connection)
    with pytest.raises(OSError):
        post("http://hooks.example.org/x", b"{}", {})
    assert (asked, connected) == (["hooks.example.org"], [("93.184.216.34", 80)])


def test_a_redirect_is_not_followed(receiver: Receiver) -> None:
    receiver.status = 307
    assert post(receiver.url, b"{}", {}, allow_internal=True) == 307
    assert len(receiver.bodies) == 1


def test_a_channel_into_the_own_network_sends_nothing(world: World, alert: Alert, receiver: Receiver) -> None:
    delivery, may_help = alerts_sending.deliver(channel(world, "webhook", receiver.url), alert)
    assert not delivery.is_sent and "internal" in delivery.error and not may_help
    assert receiver.bodies == []


def test_an_address_may_have_any_letters(receiver: Receiver) -> None:
    assert post(f"{receiver.url}/größe?wörter=a b", b"{}", {}, allow_internal=True) == 200


def test_an_answer_that_trickles_in_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte in time, the whole never: it would hold one thread of the site for as long as it likes."""
    monkeypatch.setattr(alerts_address, "WHOLE_S", 0.05)
    gave_up = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def trickle() -> None:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\n")
                while not gave_up.wait(0.02):
                    connection.sendall(b"X-More: 1\r\n")

        other_side = threading.Thread(target=trickle, daemon=True)
        other_side.start()
        with pytest.raises(OSError):
            post(f"http://127.0.0.1:{server.getsockname()[1]}/", b"{}", {}, allow_internal=True)
        gave_up.set()
        other_side.join()


# --- What is sent -----------------------------------------------------------------------------------------------


@pytest.fixture
def open_network(settings: Any) -> None:
    settings.KVDIAG_INTERNAL_WEBHOOKS = True


def test_a_webhook_is_signed_over_time_and_body(
    world: World, alert: Alert, receiver: Receiver, open_network: None
) -> None:
    to = channel(world, "webhook", receiver.url)
    delivery, _ = alerts_sending.deliver(to, alert)
    assert (delivery.is_sent, delivery.status) == (True, 200)
    (body,) = receiver.bodies
    parts = dict(part.split("=") for part in receiver.headers[0]["x-kvdiag-signature"].split(","))
    key = alerts_sending.signing_key(to).encode()
    assert parts["v1"] == hmac.new(key, f"{parts['t']}.".encode() + body, hashlib.sha256).hexdigest()
    said = json.loads(body)
    assert said["event"] == "alert.tokens" and "20.0 % fewer" in said["text"]
    assert key.decode() not in str(list(Channel.objects.values()))


@pytest.mark.parametrize(("kind", "field_name"), [("slack", "text"), ("discord", "content")])
def test_chats_get_their_own_form_and_nobody_is_called(
    world: World, alert: Alert, receiver: Receiver, open_network: None, kind: str, field_name: str
) -> None:
    alert.text = "<!channel> 20 % fewer"
    alerts_sending.deliver(channel(world, kind, receiver.url), alert)
    said = json.loads(receiver.bodies[0])
    assert "20 % fewer" in said[field_name]
    assert "<!channel>" not in said[field_name] or said["allowed_mentions"] == {"parse": []}


def test_mail_is_sent_when_the_site_sends_mail(world: World, alert: Alert, settings: Any) -> None:
    to = channel(world, "email", "oncall@example.org")
    settings.KVDIAG_SENDS_MAIL = False
    assert "KVDIAG_SMTP_URL" in alerts_sending.deliver(to, alert)[0].error
    settings.KVDIAG_SENDS_MAIL = True
    assert alerts_sending.deliver(to, alert)[0].is_sent
    assert mail.outbox[0].to == ["oncall@example.org"] and "kimi-prod" in mail.outbox[0].subject
    alert.text = "fewer\r\nBcc: somebody@example.org"
    assert alerts_sending.deliver(to, alert)[0].is_sent
    assert mail.outbox[1].subject.endswith("fewer Bcc: somebody@example.org") and mail.outbox[1].bcc == []


def test_a_deployments_name_holds_what_is_printed(world: World) -> None:
    stored = world.launch()
    page = f"/deployments/{stored.upload.deployment.public_id}/change/"
    assert signed_in(world.bob).post(page, {"name": "a\r\nb\0 \u202ec"}).status_code == 302
    stored.upload.deployment.refresh_from_db()
    assert stored.upload.deployment.name == "a b c"


@pytest.mark.parametrize(("status", "again"), [(500, True), (404, False), (204, False)])
def test_only_failures_of_the_other_side_are_tried_again(
    world: World, alert: Alert, receiver: Receiver, open_network: None, status: int, again: bool
) -> None:
    receiver.status = status
    assert alerts_sending.deliver(channel(world, "webhook", receiver.url), alert)[1] is again


def test_an_alert_that_was_sent_is_not_sent_again(
    world: World, alert: Alert, receiver: Receiver, open_network: None
) -> None:
    to = channel(world, "webhook", receiver.url)
    deliver_alert(alert.pk, to.pk)
    deliver_alert(alert.pk, to.pk)
    assert len(receiver.bodies) == 1 and Delivery.objects.count() == 1


def test_alerts_are_queued_by_ids_for_every_channel_that_is_on(
    world: World, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr("reports.tasks.deliver_alert.delay", lambda *ids: sent.append(ids))
    to, off = channel(world, "slack", "https://x.example/"), channel(world, "slack", "https://y.example/")
    off.is_on = False
    off.save()
    world.launch(tokens=100_000)
    with django_capture_on_commit_callbacks(execute=True):
        world.launch(tokens=50_000)
    assert sent == [(Alert.objects.get().pk, to.pk)]


# --- The page -----------------------------------------------------------------------------------------------------


def test_the_owner_adds_tests_and_removes_a_channel(world: World, receiver: Receiver, open_network: None) -> None:
    client, page = signed_in(world.alice), f"/teams/{world.team.slug}/notifications/"
    assert client.post(page, {"kind": "webhook", "address": receiver.url}).status_code == 302
    added = Channel.objects.get()
    text = client.get(page).content.decode()
    assert receiver.url in text and alerts_sending.signing_key(added) in text
    client.post(f"{page}{added.public_id}/", {"deed": "test"})
    assert json.loads(receiver.bodies[0])["event"] == "test"
    client.post(f"{page}{added.public_id}/", {"deed": "remove"})
    assert not Channel.objects.exists()


def test_members_see_no_address_and_no_key(world: World) -> None:
    added = channel(world, "webhook", "https://hooks.example.org/secret-path")
    text = signed_in(world.bob).get(f"/teams/{world.team.slug}/notifications/").content.decode()
    assert "secret-path" not in text and alerts_sending.signing_key(added) not in text


def test_an_address_that_is_none_is_said_at_the_field(world: World) -> None:
    page = f"/teams/{world.team.slug}/notifications/"
    for kind, address in (
        ("webhook", "ftp://example.org"),
        ("webhook", "http://10.1.2.3/"),
        ("email", "not an address"),
    ):
        answer = signed_in(world.alice).post(page, {"kind": kind, "address": address})
        assert answer.status_code == 200 and "field__error" in answer.content.decode()
    assert not Channel.objects.exists()
