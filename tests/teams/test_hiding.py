"""Late redaction, trash, claiming; and a planted secret that must be nowhere."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from threading import Barrier, BrokenBarrierError, Thread
from time import process_time
from typing import Any

import pytest
from django.apps import apps
from django.test import Client

from ingest.models import State, StoredReport, Upload
from reports import sharing_links, sharing_redaction, sharing_trash
from reports.deployments import pin
from reports.models import Comparison, TrackedFinding
from reports.sharing_links import What, Wish
from reports.stored import log_files
from teams.models import Deployment
from teams.tokens import hash_secret
from tests.teams import world as worlds
from tests.teams.conftest import signed_in
from tests.teams.test_sharing import in_a_week
from tests.teams.world import World

SLIP = "gpu-host-17.corp"
LOG = f"one\nserver on {SLIP} avail mem=7.43 GB\nthree {SLIP} and {SLIP}\n"


def everything_stored() -> str:
    """Every value of every row, as text."""
    rows: list[Any] = []
    for app in ("teams", "ingest", "reports"):
        for model in apps.get_app_config(app).get_models():
            rows += list(model._default_manager.values())
    return json.dumps(rows, default=str)


@pytest.fixture
def slipped(world: World) -> StoredReport:
    """A report in which a host name slipped through: in the log, the document, and everything made of it."""
    document = worlds.document(findings=[("thin-slack-after-capture", "critical")])
    launch = document["launches"][0]
    launch["findings"][0]["summary"] = f"Too little is left on {SLIP}"
    launch["findings"][0]["evidence"][0]["text"] = f"server on {SLIP}"
    launch["verdict"] = f"Ready on {SLIP}."
    launch["model"]["path"] = f"/mnt/{SLIP}/model"
    row = worlds.upload(team=world.team, uploader=world.bob, log=LOG, name=f"{SLIP}.log", deployment_key="prod")
    return worlds.report(row, document)


def test_hiding_rewrites_the_log_the_documents_and_all_made_of_them(world: World, slipped: StoredReport) -> None:
    later = worlds.upload(team=world.team, uploader=world.bob, deployment_key="prod")
    worlds.report(later)
    assert SLIP in everything_stored()
    page = f"/r/{slipped.upload.public_id}/hide/"
    assert signed_in(world.bob).post(page, {"text": SLIP}).status_code == 302
    assert SLIP not in everything_stored()
    (file,) = log_files(Upload.objects.get(pk=slipped.upload.pk))
    assert SLIP not in file.path.read_text()
    text = signed_in(world.bob).get(f"/r/{slipped.upload.public_id}/").content.decode()
    assert SLIP not in text and "*" * len(SLIP) in text


def test_hiding_keeps_line_numbers_and_byte_offsets(world: World, slipped: StoredReport) -> None:
    before = log_files(slipped.upload)[0].path.read_bytes()
    found = sharing_redaction.hide(slipped.upload, SLIP, by=world.bob)
    after = log_files(slipped.upload)[0].path.read_bytes()
    assert len(after) == len(before) and found >= 3
    assert [len(line) for line in after.splitlines()] == [len(line) for line in before.splitlines()]
    assert oct(log_files(slipped.upload)[0].path.stat().st_mode)[-3:] == "600"


@pytest.mark.parametrize("text", ["", "abc", "two\nlines", "*" * 8, "x" * 500])
def test_what_cannot_be_hidden_is_refused(world: World, slipped: StoredReport, text: str) -> None:
    with pytest.raises(sharing_redaction.Refused):
        sharing_redaction.hide(slipped.upload, text, by=world.bob)


@pytest.mark.parametrize("state", [State.QUEUED, State.RUNNING, State.FAILED])
def test_nothing_is_hidden_in_a_log_that_is_still_to_be_read(world: World, slipped: StoredReport, state: State) -> None:
    """What reads the log, or reads it once more, would write the text into a report again."""
    Upload.objects.update(state=state)
    answer = signed_in(world.bob).post(f"/r/{slipped.upload.public_id}/hide/", {"text": SLIP})
    assert answer.status_code == 400 and "once the report is there" in answer.content.decode()


def test_two_who_hide_at_once_both_succeed(
    world: World, slipped: StoredReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the file is written anew for one, another asks: neither brings back what the other hid."""
    (file,) = log_files(slipped.upload)
    other, begun, results = "7.43", Barrier(2, timeout=10), []
    replace = Path.replace

    def slow(self: Path, target: Path) -> Path:
        with suppress(BrokenBarrierError):
            begun.wait(0.5)  # both have read the file, unless one waits for the other
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", slow)

    def rewrite(text: str) -> None:
        with sharing_redaction._alone(file.path.parent):
            results.append(sharing_redaction._rewrite_file(file.path, text.encode(), b"*" * len(text)))

    threads = [Thread(target=rewrite, args=(text,)) for text in (SLIP, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = file.path.read_text()
    assert SLIP not in kept and other not in kept and sum(results) == 4


def test_an_older_copy_of_the_row_brings_nothing_back(world: World, slipped: StoredReport) -> None:
    first, second = (Upload.objects.get(pk=slipped.upload.pk) for _ in range(2))
    sharing_redaction.hide(first, SLIP, by=world.bob)
    sharing_redaction.hide(second, "7.43", by=world.bob)
    assert SLIP not in everything_stored()


@pytest.mark.parametrize("hidden", [0, 1])
def test_what_is_kept_beside_a_baseline_holds_no_piece_of_the_text(world: World, hidden: int) -> None:
    launches = [world.launch(), world.launch()]
    for number, launch in enumerate(launches):
        value = f"/data/models/drafts/eagle/from-{SLIP}" if number == hidden else "plain"
        launch.document["launches"][-1]["arguments"]["lora_paths"] = {"value": value, "origin": "given"}
        launch.save()
    deployment = launches[0].upload.deployment
    assert deployment is not None
    pin(deployment, launches[0], by=world.alice)
    kept = Comparison.objects.get(report=launches[1])
    assert SLIP[:8] in kept.pinned_change and SLIP not in kept.pinned_change  # cut within the text
    sharing_redaction.hide(launches[hidden].upload, SLIP, by=world.bob)
    assert SLIP[:8] not in everything_stored()
    page = signed_in(world.vera).get(f"/deployments/{deployment.public_id}/")
    assert page.context["starts"][0].change.startswith("lora_paths ") and SLIP[:8] not in page.content.decode()


def test_text_that_is_nowhere_is_said(world: World, slipped: StoredReport) -> None:
    answer = signed_in(world.bob).post(f"/r/{slipped.upload.public_id}/hide/", {"text": "not in there"})
    assert answer.status_code == 400 and "neither in the stored log" in answer.content.decode()


def test_the_trail_tells_that_something_was_hidden_and_not_what(world: World, slipped: StoredReport) -> None:
    sharing_redaction.hide(slipped.upload, SLIP, by=world.bob)
    entry = world.team.audit.get(action="report.hide")
    assert entry.detail == {"characters": len(SLIP)}


# --- Trash and claiming -------------------------------------------------------------------------------------------


def test_the_trash_hides_restores_and_deletes(world: World) -> None:
    stored = world.launch(log=LOG)
    client, base = signed_in(world.bob), f"/r/{stored.upload.public_id}"
    assert client.post(f"{base}/trash/").status_code == 302
    assert client.get(f"{base}/").status_code == 404
    assert stored.upload.title in client.get(f"/teams/{world.team.slug}/trash/").content.decode()
    assert Deployment.objects.get().launch_count == 0
    client.post(f"{base}/restore/")
    assert client.get(f"{base}/").status_code == 200
    assert Deployment.objects.get().launch_count == 1
    client.post(f"{base}/trash/")
    client.post(f"{base}/restore/", {"for_good": "1"})
    assert not Upload.objects.exists() and not StoredReport.objects.exists()
    actions = list(world.team.audit.order_by("pk").values_list("action", flat=True))
    assert actions[1:] == ["report.delete", "report.restore", "report.delete", "report.purge"]


def test_a_finding_leads_to_no_report_in_the_trash(world: World) -> None:
    world.launch(findings=[("thin-slack-after-capture", "warning")])
    row = world.launch(findings=[("thin-slack-after-capture", "warning")]).upload
    bob = signed_in(world.bob)
    assert f"/r/{row.public_id}/" in bob.get("/findings/").content.decode()
    sharing_trash.to_trash(Upload.objects.get(pk=row.pk), by=world.bob)
    for page in ("/findings/", "/dashboard/"):
        assert f"/r/{row.public_id}/" not in bob.get(page).content.decode()


def test_deleting_the_newest_start_shows_the_one_before(world: World) -> None:
    world.launch(tokens=100_000, findings=[])
    bad = world.launch(tokens=90_000, findings=[("thin-slack-after-capture", "warning")])
    sharing_trash.to_trash(Upload.objects.get(pk=bad.upload.pk), by=world.bob)
    deployment = Deployment.objects.get()
    assert (deployment.last_kv_tokens, deployment.open_findings) == (100_000, 0)


def test_an_upload_of_nobody_is_claimed_into_a_team_and_joins_its_series(world: World) -> None:
    row = worlds.upload(
        team=None, uploader=None, owner_hash=hash_secret("this browser"), delete_token_hash=hash_secret("shown once")
    )
    worlds.report(row)
    page = f"/r/{row.public_id}/"
    assert Client().get(page).status_code == 200
    bob = signed_in(world.bob)
    shown = bob.get(page).content.decode()
    assert "Keep in Inference EU" in shown and 'name="delete_token"' in shown
    for token in ("", "guessed"):
        bob.post(f"{page}claim/", {"team": world.team.slug, "delete_token": token})
        row.refresh_from_db()
        assert row.team is None, "whoever was given the address may read the report, not take it"
    bob.post(f"{page}claim/", {"team": world.team.slug, "delete_token": "shown once"})
    row.refresh_from_db()
    assert (row.team, row.uploader) == (world.team, world.bob) and row.deployment is not None
    assert Client().get(page).status_code == 404, "what belongs to a team is no longer anybody's"


def test_the_browser_that_sent_an_upload_claims_it_without_a_token(world: World) -> None:
    row = worlds.upload(team=None, uploader=None, owner_hash=hash_secret("this browser"))
    worlds.report(row)
    bob = signed_in(world.bob)
    session = bob.session
    session["uploader"] = "this browser"
    session.save()
    assert 'name="delete_token"' not in bob.get(f"/r/{row.public_id}/").content.decode()
    bob.post(f"/r/{row.public_id}/claim/", {"team": world.team.slug})
    row.refresh_from_db()
    assert row.team == world.team


def test_a_claim_is_made_once(world: World) -> None:
    row = worlds.upload(team=None, uploader=None)
    assert sharing_trash.claim(row, world.team, by=world.bob)
    assert not sharing_trash.claim(row, world.other_team, by=world.charlie)


# --- A planted secret ----------------------------------------------------------------------------------------------


def test_a_facts_only_reader_gets_no_text_that_a_log_can_plant(world: World) -> None:
    """Every string of the document that the log may have written is planted with a word; no shared form shows it."""
    planted = "PLANTEDWORD"
    document = worlds.document(findings=[("thin-slack-after-capture", "warning")])
    launch = document["launches"][0]
    launch["failure"] = {"kind": "other", "stage": "weights", "message": planted, "lines": [3], "traceback": [planted]}
    launch["failure"]["message"] = f"RuntimeError: {planted} was not found among the kernels"
    launch["findings"][0]["summary"] = f"The start failed: {planted} was not found among the kernels"
    launch["findings"][0]["why"] = "Nothing about memory explains it."
    launch["kv_cache"]["inputs"] = {"model": f"{planted}/private-model"}
    launch["command"] = f"python -m sglang.launch_server --model-path /srv/{planted}"
    launch["not_understood"] = [{"line": 5, "text": planted}]
    launch["traces"] = [{"title": planted, "lines": [planted], "text": planted}]
    launch["verdict"] = f"Failed in /srv/{planted}/model, told by http://{planted.lower()}.corp/x and a@{planted}.org."
    launch["model"]["path"] = f"/srv/{planted}/Kimi-K2.5-INT4"
    launch["arguments"]["served_model_name"] = {"value": planted, "origin": "given"}
    launch["arguments"]["tokenizer_path"] = {"value": f"/srv/{planted}", "origin": "given"}
    launch["findings"][0]["evidence"][0]["text"] = planted
    launch["unforeseen_key"] = planted
    document["upload"]["files"][0]["name"] = f"{planted}.log"
    document["upload"]["note"] = planted
    row = worlds.upload(team=world.team, uploader=world.bob, log=f"{planted}\n", name=f"{planted}.log")
    stored = worlds.report(row, document)
    _, token = sharing_links.make_link(row, Wish(expires_at=in_a_week()), by=world.alice)
    for path in (f"/s/{token}/", f"/s/{token}.json", f"/s/{token}/log", f"/s/{token}/log/find?q={planted[:3]}"):
        assert planted.lower() not in Client().get(path).content.decode().lower(), path
    assert planted in json.dumps(stored.document), "the team itself still has everything"
    _, token = sharing_links.make_link(row, Wish(what=What.LOG, expires_at=in_a_week()), by=world.alice)
    assert planted in Client().get(f"/s/{token}/").content.decode()


def test_the_facts_name_no_argument_of_a_fork_and_cite_no_error_beside_the_one_that_ended_it() -> None:
    from reports.sharing_scope import facts_only

    document = worlds.document(findings=[("not-a-memory-failure", "warning")])
    launch = document["launches"][0]
    given = {"enable_acme_router": True, "acme_seats": 40, "api_key": 12345678, "max_running_requests": 48}
    launch["arguments"] |= {name: {"value": value, "origin": "given"} for name, value in given.items()}
    launch["failure"] = {"kind": "gpu_oom", "stage": "serving", "message": "CUDA out of memory.", "lines": [3]}
    ended = "It ended, and not for want of memory: RuntimeError: acme failed"
    launch["findings"][0]["summary"] = launch["verdict"] = ended
    (shown,) = facts_only(document)["launches"]
    assert "acme" not in json.dumps(shown) and "api_key" not in shown["arguments"]
    assert shown["arguments"]["max_running_requests"]["value"] == 48
    assert shown["findings"][0]["summary"] == "It ended, and not for want of memory."


def test_the_facts_of_many_failed_starts_are_told_at_once() -> None:
    from reports.sharing_scope import facts_only

    document = worlds.document(findings=[("not-a-memory-failure", "warning")] * 4)
    launch = document["launches"][0]
    launch["failure"] = {
        "kind": "other",
        "stage": "serving",
        "message": "rows of rare words, and others, " * 60,
        "lines": [3],
    }
    for finding in launch["findings"]:
        finding["summary"] = finding["why"] = "rows of rare words: " * 90
    document["launches"] = [launch] * 100
    begun = process_time()
    facts = facts_only(document)
    assert process_time() - begun < 4
    assert facts["launches"][99]["findings"][3]["why"].endswith("…")


def test_alerts_and_findings_hold_what_the_engine_says_and_no_line_of_the_log(world: World) -> None:
    world.launch(tokens=100_000)
    world.launch(tokens=50_000, findings=[("thin-slack-after-capture", "critical")])
    rows = [list(model.objects.values()) for model in (Comparison, TrackedFinding)]
    assert "the log's own words" not in json.dumps(rows, default=str)


CASES = (
    "qwen25-15b-gb10-fp4kv-ninja-graph-fail", "glm45-air-2x3090-marlin-error-tail", "kimi-k25-8gpu",
    "kimi-k25-8gpu-refused", "qwen3-ray-verl-tcpstore-error", "deepseek-v4-pro-h200-graph-oom-wrapped",
)  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_no_line_that_a_real_report_cites_is_in_its_facts(case: str) -> None:
    from kvdiag.diagnosis import diagnose
    from kvdiag.diagnosis.lines import Log
    from reports.sharing_scope import OWN_WORDS, facts_only
    from tests.live import ROOT

    with (ROOT / "tests" / "corpus" / case / "log.txt").open("rb") as log:
        document = diagnose(Log("server.log", log)).document
    facts = json.dumps(facts_only(document), ensure_ascii=False)
    for launch in document["launches"]:
        cited = [piece["text"] for finding in launch["findings"] for piece in finding["evidence"]]
        cited += [each["text"] for each in launch["not_understood"]]
        failure = launch["failure"] or {}
        if failure.get("kind") not in (*OWN_WORDS, None):
            message = str(failure.get("message") or "")
            cited += [message[at : at + 30] for at in range(0, max(len(message) - 30, 0), 10)]
        assert [text for text in cited if len(text) >= 24 and json.dumps(text, ensure_ascii=False)[1:-1] in facts] == []
        assert "/models/" not in facts and "host-a" not in facts
