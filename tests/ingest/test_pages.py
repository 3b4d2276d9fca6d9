"""The upload page and the progress page, as they come from the server."""

import re

import pytest
from django.test import Client, RequestFactory

from ingest import lease, services
from ingest.models import Phase, Upload
from ingest.progress import progress_of
from ingest.templatetags.sentences import said, with_code

pytestmark = pytest.mark.django_db


def test_the_upload_page_shows_its_limits_and_the_command_for_this_host(client: Client) -> None:
    page = client.get("/", headers={"host": "localhost:8123"}).content.decode()
    assert "Up to 64 MiB" in page and "512 MiB" in page and "7 days" in page
    assert "curl --data-binary @server.log \\\n  http://localhost:8123/" in page


def test_the_upload_page_has_no_inline_script_or_style(client: Client) -> None:
    page = client.get("/").content.decode()
    assert not re.search(r"<script(?![^>]*src=)|<style| style=| on[a-z]+=", page)


def test_a_sample_is_one_click_away(client: Client) -> None:
    answer = client.post("/sample/kimi-k25-8gpu/")
    assert answer.status_code == 303
    assert Upload.objects.get().title == "Sample: Kimi-K2.5, 8 GPUs"
    assert client.post("/sample/another/").status_code == 404


def test_the_published_patterns_are_the_engines_own(client: Client) -> None:
    from kvdiag.diagnosis.masking import PATTERNS

    published = client.get("/api/patterns.json").json()["patterns"]
    assert [pattern["expression"] for pattern in published] == [pattern.expression for pattern in PATTERNS]


def test_progress_tells_what_is_done_what_is_now_and_what_is_to_do(accept) -> None:
    upload = accept("report\n")
    turn = lease.claim(upload.pk)
    turn.tell(Phase.UNPACKED, "zstd, 447 MiB")
    turn.tell(Phase.PARSED, "12 of 100 lines", share=0.12)
    assert turn.beat()
    progress = progress_of(Upload.objects.get())
    assert [phase["state"] for phase in progress["phases"]] == ["done", "done", "todo", "now", "todo", "todo"]
    assert progress["phases"][3]["percent"] == 12 and progress["title"] == "Reading"


def test_progress_is_written_at_most_twice_a_second(accept, django_assert_num_queries) -> None:
    turn = lease.claim(accept("report\n").pk)
    turn.tell(Phase.PARSED, "1 line")
    assert turn.beat()
    with django_assert_num_queries(0):
        for line in range(50):
            turn.tell(Phase.PARSED, f"{line} lines")
            turn.beat()


def test_a_waiting_upload_knows_its_place(accept) -> None:
    accept("report\n"), accept("report\n")
    last = accept("report\n")
    assert progress_of(last)["ahead"] == 2


def test_a_failed_upload_says_why_and_what_to_do(accept, rf: RequestFactory, client: Client) -> None:
    upload = accept("other\n+---+\n| NVIDIA-SMI 580 |\n")
    services.diagnose_upload(upload.pk)
    page = client.get(f"/r/{upload.public_id}/").content.decode()
    upload.refresh_from_db()
    assert "<b>This is not an SGLang log.</b>" in page and "<code>nvidia-smi</code>" in page
    assert upload.reference in page and "Choose another file" in page


def test_a_running_upload_has_its_page_at_once(accept, client: Client) -> None:
    upload = accept("report\n")
    page = client.get(f"/r/{upload.public_id}/").content.decode()
    assert "You can close this page" in page and f"/r/{upload.public_id}/status.json" in page


def test_a_file_name_is_text_on_the_page(accept, client: Client) -> None:
    upload = accept("report\n", name="<img src=x onerror=alert(1)>")
    page = client.get(f"/r/{upload.public_id}/").content.decode()
    assert "<img" not in page and "&lt;img" in page


def test_sentences_are_escaped() -> None:
    assert said("A <b>. Then `<i>`.") == "<b>A &lt;b&gt;.</b> Then <code>&lt;i&gt;</code>."
    assert with_code("a ` b") == "a ` b"
