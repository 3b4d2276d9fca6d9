"""Sign-in by an operator's own OpenID Connect server, in a process of its own: the setting is read at the start."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pytest

from tests.live import ROOT, clean_environment

pytest.importorskip("jwt")

# Migrate, then walk: the sign-in page, to the server and back, the dashboard.
WALK = """
import django; django.setup()
from urllib.parse import parse_qs, urlsplit
from django.conf import settings
from django.core.management import call_command
from django.test import Client
settings.ALLOWED_HOSTS = ["testserver"]
settings.STORAGES["staticfiles"]["BACKEND"] = "django.contrib.staticfiles.storage.StaticFilesStorage"
call_command("migrate", verbosity=0)
client = Client()
page = client.get("/account/login/").content.decode()
print("offered" if "Sign in with Example SSO" in page else "not offered")
asked = client.get("/account/oidc/sso/login/?process=login")
query = parse_qs(urlsplit(asked["Location"]).query)
print(query["code_challenge_method"][0], query["client_id"][0])
back = client.get("/account/oidc/sso/login/callback/", {"code": "the-code", "state": query["state"][0]})
print(back.status_code, back["Location"])
print(client.get("/dashboard/").status_code)
forged = Client().get("/account/oidc/sso/login/callback/", {"code": "the-code", "state": "made-up"})
print(forged.status_code, "sessionid" in str(forged.cookies))
from django.contrib.auth.models import User
print(User.objects.get().email, User.objects.get().memberships.count())
"""


@pytest.fixture
def server() -> Iterator[str]:
    """An OpenID Connect server that knows one person."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.endswith("/.well-known/openid-configuration"):
                ends = ("authorization", "token", "userinfo")
                self.say(
                    {"issuer": base, "jwks_uri": f"{base}/keys", **{f"{end}_endpoint": f"{base}/{end}" for end in ends}}
                )
            elif self.headers.get("Authorization") == "Bearer an-access-token":
                self.say({"sub": "42", "email": "mara@example.org", "email_verified": True, "name": "Mara Reuter"})
            else:
                self.say({}, 401)

        def do_POST(self) -> None:
            form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            is_right = form["code"] == ["the-code"] and form["code_verifier"] and form["client_secret"] == ["shh"]
            self.say(
                {"access_token": "an-access-token", "token_type": "Bearer"} if is_right else {},
                200 if is_right else 400,
            )

        def say(self, body: dict[str, object], status: int = 200) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    base = f"http://127.0.0.1:{listening.server_port}"
    threading.Thread(target=listening.serve_forever, args=(0.02,), daemon=True).start()
    yield base
    listening.shutdown()
    listening.server_close()


def test_a_person_of_the_operators_server_gets_in_even_where_sign_up_is_closed(server: str, tmp_path: Path) -> None:
    variables = {
        "KVDIAG_DATA": str(tmp_path / "data"),
        "KVDIAG_SIGN_UP": "0",
        "KVDIAG_OIDC_URL": server,
        "KVDIAG_OIDC_NAME": "Example SSO",
        "KVDIAG_OIDC_CLIENT_ID": "kvdiag-test",
        "KVDIAG_OIDC_SECRET": "shh",
        "DJANGO_SETTINGS_MODULE": "kvdiag.settings",
    }
    walk = [sys.executable, "-c", WALK]
    done = subprocess.run(
        walk, cwd=ROOT, env=clean_environment(**variables), capture_output=True, text=True, timeout=120
    )
    assert done.stdout.splitlines() == [
        "offered",
        "S256 kvdiag-test",
        "302 /dashboard/",
        "200",
        "401 False",
        "mara@example.org 1",
    ], done.stderr[-3000:]
