"""Launches in series: what they join, what each changed, and what is worth an alert."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from ingest.models import Upload
from reports import sharing_trash
from reports.alerts import Thresholds
from reports.alerts_findings import set_state, wake_muted
from reports.deployments import merge, pin
from reports.deployments_series import series_of
from reports.deployments_watch import watch_report
from reports.models import Alert, Baseline, Comparison, Prediction, TrackedFinding
from teams.deployments import merge_deployments
from teams.forms import ThresholdForm
from teams.models import Deployment
from tests.teams import world as worlds
from tests.teams.conftest import signed_in
from tests.teams.world import World

State = TrackedFinding.State


def kinds(stored: object) -> list[str]:
    return sorted(Alert.objects.filter(report=stored).values_list("kind", flat=True))


def test_launches_join_the_deployment_that_was_named(world: World) -> None:
    one, two = world.launch("prod"), world.launch("Prod ")
    assert one.upload.deployment == two.upload.deployment
    assert one.upload.deployment is not None
    assert Deployment.objects.get().launch_count == 2


def test_unnamed_launches_join_by_model_hardware_and_layout(world: World) -> None:
    made = [worlds.upload(team=world.team, uploader=world.bob) for _ in range(3)]
    worlds.report(made[0])
    worlds.report(made[1], worlds.document(fraction=0.9))
    worlds.report(made[2], worlds.document(model="/models/Another"))
    joined = [Upload.objects.get(pk=each.pk).deployment_id for each in made]
    assert joined[0] == joined[1] != joined[2]


def test_a_merged_deployment_receives_what_its_old_key_sends(world: World) -> None:
    old, new = world.launch("old name").upload.deployment, world.launch("new name").upload.deployment
    assert old is not None and new is not None
    merge_deployments(old, new, by=world.alice)
    assert world.launch("old name").upload.deployment == new
    assert new.uploads.count() == 3


def test_a_merge_takes_a_baseline_along_where_there_is_none(world: World) -> None:
    first, later = world.launch("old name", tokens=100_000), world.launch("new name", tokens=90_000)
    old, new = first.upload.deployment, later.upload.deployment
    pin(old, first, by=world.alice)
    merge(old, new, by=world.alice)
    assert Baseline.objects.get().deployment == new
    assert Comparison.objects.get(report=later).pinned == first

    third = world.launch("third name")
    pin(third.upload.deployment, third, by=world.alice)
    merge(third.upload.deployment, new, by=world.alice)
    assert [(each.deployment, each.report) for each in Baseline.objects.all()] == [(new, first)]


def test_nothing_is_merged_into_a_deployment_that_is_part_of_another(world: World) -> None:
    gone, whole, other = (world.launch(name).upload.deployment for name in ("gone", "whole", "other"))
    merge(gone, whole, by=world.alice)
    answer = signed_in(world.alice).post(f"/deployments/{other.public_id}/change/", {"into": gone.public_id})
    assert answer.status_code == 404
    other.refresh_from_db()
    assert other.merged_into is None and other.uploads.count() == 1
    with pytest.raises(ValueError, match="part of another"):
        merge_deployments(other, Deployment.objects.get(pk=gone.pk), by=world.alice)


def test_a_deployment_whose_last_launch_is_gone_claims_no_state(world: World) -> None:
    stored = world.launch("kimi")
    sharing_trash.to_trash(stored.upload, by=world.alice)
    deployment = Deployment.objects.get(name="kimi")
    assert (deployment.last_outcome, deployment.last_kv_tokens, deployment.launch_count) == ("", None, 0)
    sharing_trash.restore(stored.upload, by=world.alice)
    deployment.refresh_from_db()
    assert (deployment.last_outcome, deployment.last_kv_tokens) == ("ready", stored.kv_tokens)


def test_the_change_and_what_it_moved_are_said_in_words(world: World) -> None:
    world.launch(fraction=0.85, free=9.37, release="0.5.7")
    stored = world.launch(fraction=0.88, free=7.43, release="0.5.9")
    comparison = Comparison.objects.get(report=stored)
    assert comparison.change == "SGLang 0.5.7 to 0.5.9, fraction 0.85 to 0.88"
    assert comparison.moved == "−1.94 GiB free"
    assert comparison.marks == ["SGLang 0.5.7 to 0.5.9", "fraction 0.85 to 0.88"]


def test_the_deployments_page_leads_to_the_explained_difference(world: World) -> None:
    first, second = world.launch(fraction=0.85), world.launch(fraction=0.88)
    deployment = second.upload.deployment
    assert deployment is not None
    page, reader = f"/deployments/{deployment.public_id}/", signed_in(world.vera)
    link = f"/compare/?r={first.upload.public_id}&amp;r={second.upload.public_id}"
    assert f'href="{link}">explained</a>' in reader.get(page).content.decode()
    assert "Which change moved" in reader.get(link.replace("&amp;", "&")).content.decode()
    pin(deployment, first, by=world.alice)
    third = world.launch(fraction=0.9)
    text = reader.get(page).content.decode()
    assert f'r={first.upload.public_id}&amp;r={third.upload.public_id}">explained from the baseline' in text


def test_a_row_of_the_starts_has_one_reference(world: World) -> None:
    first = world.launch(fraction=0.85, tokens=100_000, free=9.37)
    world.launch(fraction=0.86, tokens=110_000, free=8.4)
    newest = world.launch(fraction=0.88, tokens=120_000, free=7.43)
    deployment = newest.upload.deployment
    assert deployment is not None
    page, reader = f"/deployments/{deployment.public_id}/", signed_in(world.vera)
    before = reader.get(page)
    assert "since the start before" in before.content.decode()
    assert [start.change for start in before.context["starts"]][0] == "fraction 0.86 to 0.88"
    pin(deployment, first, by=world.alice)  # after they arrived
    pinned = reader.get(page)
    text, start = pinned.content.decode(), pinned.context["starts"][0]
    assert "since the baseline" in text and "since the start before" not in text
    assert (start.base, start.change, start.moved) == (first, "fraction 0.85 to 0.88", "−1.94 GiB free")
    assert start.tokens_change == pytest.approx(0.2)
    assert f'r={first.upload.public_id}&amp;r={newest.upload.public_id}">explained from the baseline' in text
    assert f"r={first.upload.public_id}&amp;r={first.upload.public_id}" not in text


def test_a_pinned_baseline_reads_no_more_documents_to_show_the_starts(world: World) -> None:
    first = world.launch(fraction=0.85, tokens=100_000)
    early = world.launch(fraction=0.86, tokens=110_000)
    deployment = early.upload.deployment
    assert deployment is not None
    page, reader = f"/deployments/{deployment.public_id}/", signed_in(world.vera)

    def documents_read() -> int:
        with CaptureQueriesContext(connection) as asked:
            assert reader.get(page).status_code == 200
        return sum('"ingest_storedreport"."document"' in each["sql"] for each in asked)

    before = documents_read()
    pin(deployment, first, by=world.alice)
    world.launch(fraction=0.88, tokens=120_000)  # after the pin
    assert documents_read() == before
    kept = [(start.change, start.moved, start.tokens_change) for start in reader.get(page).context["starts"]]
    assert [change for change, _, _ in kept] == ["fraction 0.85 to 0.88", "fraction 0.85 to 0.86", "the baseline"]
    Comparison.objects.update(pinned=None)  # as rows of before: they are worked out for the page, alike
    assert [(start.change, start.moved, start.tokens_change) for start in reader.get(page).context["starts"]] == kept
    assert documents_read() > before


def test_a_series_reads_nothing_of_its_uploads_that_no_list_shows(world: World) -> None:
    deployment = world.launch().upload.deployment
    assert deployment is not None
    with CaptureQueriesContext(connection) as asked:
        assert len(series_of(deployment, most=50).reports) == 1
    assert not any('"ingest_upload"."phases"' in each["sql"] for each in asked)


def test_another_baseline_and_a_baseline_that_is_stored_anew_change_what_is_said(world: World) -> None:
    launches = [world.launch(fraction=fraction) for fraction in (0.85, 0.86, 0.88)]
    deployment = launches[0].upload.deployment
    assert deployment is not None

    def newest() -> Any:
        return signed_in(world.vera).get(f"/deployments/{deployment.public_id}/").context["starts"][0].change

    for launch, said in zip(launches, ("0.85 to 0.88", "0.86 to 0.88"), strict=False):
        pin(deployment, launch, by=world.alice)
        assert newest() == f"fraction {said}"
    launches[1].document["launches"][-1]["arguments"]["mem_fraction_static"]["value"] = 0.87
    launches[1].save()
    watch_report(launches[1])
    assert newest() == "fraction 0.87 to 0.88"


@pytest.mark.parametrize("pinned", [False, True])
def test_a_start_that_did_not_come_up_has_no_gain_and_no_free_memory(world: World, pinned: bool) -> None:
    first = world.launch(tokens=100_000, free=9.37)
    failed = world.launch(tokens=120_000, free=2.09, ready_after=None, outcome="failed", stage="cuda_graph")
    deployment = failed.upload.deployment
    assert deployment is not None
    deployment.refresh_from_db()
    assert deployment.last_free_gib is None and deployment.last_tokens_change is None
    if pinned:
        pin(deployment, first, by=world.alice)
    start = signed_in(world.vera).get(f"/deployments/{deployment.public_id}/").context["starts"][0]
    assert start.tokens_change is None and "free" not in start.moved


def test_starts_chosen_from_the_list_are_compared_from_the_older_one_on(world: World) -> None:
    old, new = world.launch(fraction=0.85).upload, world.launch(fraction=0.88).upload
    assert old.deployment is not None
    reader = signed_in(world.vera)
    assert 'name="order" value="time"' in reader.get(f"/deployments/{old.deployment.public_id}/").content.decode()

    def order(ids: list[str], **more: str) -> list[str]:
        columns = reader.get("/compare/", {"r": ids, **more}).context["columns"]
        return [column.key.split(".")[0] for column in columns]

    newest_first = [new.public_id, old.public_id]
    assert order(newest_first, order="time") == [old.public_id, new.public_id]
    assert order(newest_first) == newest_first  # links say their own order
    pin(old.deployment, new.report, by=world.alice)
    assert order(newest_first, order="time") == newest_first


def test_two_starts_of_one_minute_are_told_apart_by_seconds(world: World) -> None:
    base = timezone.now().replace(hour=9, minute=14, second=5, microsecond=0) - timedelta(days=3)
    for at in (base, base + timedelta(seconds=31), base + timedelta(minutes=2)):
        row = worlds.upload(team=world.team, uploader=world.bob, at=at, deployment_key="prod")
        worlds.report(row)
    address = f"/deployments/{Deployment.objects.get().public_id}/"
    starts = signed_in(world.vera).get(address).context["starts"]
    assert [start.when.split(", ")[-1] for start in starts] == ["09:16", "09:14:36", "09:14:05"]


def test_from_a_report_the_other_starts_are_offered_to_compare(world: World) -> None:
    first, second = world.launch("prod").upload, world.launch("prod").upload
    world.launch("another")
    answer = signed_in(world.vera).get("/compare/", {"r": second.public_id})
    assert answer.context["choices_are"] == "Other starts of prod"
    assert [report.upload for report, _ in answer.context["choices"]] == [first]
    page = answer.content.decode()
    assert f'value="{second.public_id}.1"' in page and f'value="{first.public_id}" checked' in page
    chosen = signed_in(world.vera).get("/compare/", {"r": [f"{second.public_id}.1", first.public_id], "order": "time"})
    assert [column.key for column in chosen.context["columns"]] == [f"{first.public_id}.1", f"{second.public_id}.1"]
    assert len(signed_in(world.vera).get("/compare/").context["choices"]) == 3


def test_strangers_and_other_teams_are_offered_nothing_of_a_team(world: World) -> None:
    world.launch("prod")
    loose = worlds.report(worlds.upload(team=None, uploader=None), tell=False).upload
    for reader in (None, world.charlie):
        answer = signed_in(reader).get("/compare/", {"r": loose.public_id})
        assert answer.context["choices"] == []
        assert 'placeholder="http://testserver/r/' in answer.content.decode()


def test_a_start_whose_other_is_in_the_trash_is_a_first_start_in_every_figure(world: World) -> None:
    first, second = world.launch(fraction=0.85, tokens=100_000), world.launch(fraction=0.88, tokens=120_000)
    assert Comparison.objects.get(report=second).tokens_change == pytest.approx(0.2)
    sharing_trash.to_trash(first.upload, by=world.alice)
    told = Comparison.objects.get(report=second)
    assert (told.change, told.moved, told.tokens_change) == ("first start", "", None)
    assert (told.marks, told.explained) == ([], {})
    assert Deployment.objects.get().last_tokens_change is None


def test_a_baseline_in_the_trash_is_none_until_it_is_back(world: World) -> None:
    first = world.launch(fraction=0.85, tokens=200_000)
    second = world.launch(fraction=0.86, tokens=100_000)
    deployment = Deployment.objects.get()
    pin(deployment, first, by=world.alice)
    sharing_trash.to_trash(first.upload, by=world.alice)
    third = world.launch(fraction=0.87, tokens=101_000)
    assert kinds(third) == [], "no fewer tokens than the start before"
    assert Comparison.objects.get(report=third).baseline is None
    page, reader = f"/deployments/{deployment.public_id}/", signed_in(world.vera)
    shown = reader.get(page).content.decode()
    assert "None pinned: each start is compared with the one before" in shown
    assert first.upload.public_id not in shown and "pinned baseline" not in shown
    sharing_trash.restore(first.upload, by=world.alice)
    assert [start.base for start in reader.get(page).context["starts"]] == [first, first, None]
    assert Comparison.objects.get(report=third).baseline == first
    assert second.upload.deleted_at is None


def test_nothing_changed_is_said_as_well(world: World) -> None:
    world.launch()
    assert Comparison.objects.get(report=world.launch()).change == "nothing changed"


@pytest.mark.parametrize(
    ("tokens", "alerts"), [(95_001, []), (95_000, ["tokens"]), (80_000, ["tokens"]), (120_000, [])]
)
def test_five_per_cent_fewer_tokens_raise_an_alert(world: World, tokens: int, alerts: list[str]) -> None:
    world.launch(tokens=100_000)
    assert kinds(world.launch(tokens=tokens)) == alerts


@pytest.mark.parametrize(("seconds", "alerts"), [(129.0, []), (130.0, ["slower"])])
def test_a_third_longer_start_raises_an_alert(world: World, seconds: float, alerts: list[str]) -> None:
    world.launch(ready_after=100.0)
    assert kinds(world.launch(ready_after=seconds)) == alerts


def test_a_short_start_may_waver(world: World) -> None:
    world.launch(ready_after=8.0)
    assert kinds(world.launch(ready_after=12.5)) == []


@pytest.mark.parametrize(("free", "alerts"), [(7.42, []), (6.94, []), (6.93, ["free"])])
def test_less_free_memory_raises_an_alert_and_rounding_does_not(world: World, free: float, alerts: list[str]) -> None:
    world.launch(free=7.43)
    assert kinds(world.launch(free=free)) == alerts


def test_a_missing_figure_is_no_drop(world: World) -> None:
    world.launch(tokens=100_000, free=7.43, ready_after=100.0)
    assert kinds(world.launch(tokens=None, free=None, ready_after=None, outcome="incomplete")) == []


def test_the_same_log_sent_again_is_quiet(world: World) -> None:
    world.launch(tokens=100_000)
    again = world.launch(tokens=50_000)
    Alert.objects.all().delete()
    third = worlds.upload(team=world.team, uploader=world.bob, deployment_key="kimi-prod")
    third.sha256 = again.upload.sha256
    third.save()
    assert kinds(worlds.report(third, worlds.document(tokens=50_000))) == []


def test_a_new_critical_finding_raises_an_alert_once(world: World) -> None:
    world.launch()
    assert kinds(world.launch(findings=[("gpu-oom-in-capture", "critical")])) == ["finding"]
    assert kinds(world.launch(findings=[("gpu-oom-in-capture", "critical")])) == []


def test_the_pinned_baseline_is_what_counts(world: World) -> None:
    first = world.launch(tokens=100_000)
    assert first.upload.deployment is not None
    pin(first.upload.deployment, first, by=world.alice)
    assert kinds(world.launch(tokens=97_000)) == []
    assert kinds(world.launch(tokens=94_500)) == ["tokens"], "5.5 % below the baseline, 2.6 % below the one before"


def test_a_failed_start_is_not_what_the_next_is_measured_by(world: World) -> None:
    world.launch(free=7.43)
    world.launch(free=21.7, outcome="failed")
    assert kinds(world.launch(free=7.40)) == []


def test_a_teams_own_thresholds_hold(world: World) -> None:
    world.team.settings = {"tokens_drop_percent": 20.0}
    world.team.save()
    world.launch(tokens=100_000)
    assert kinds(world.launch(tokens=85_000)) == []


@pytest.mark.parametrize(
    ("own", "severity", "alerts"),
    [
        (None, "critical", ["finding"]),
        (None, "warning", []),
        ("warning", "warning", ["finding"]),
        ("warning", "advice", []),
        ("advice", "critical", ["finding"]),
        ("never", "critical", []),
    ],
)
def test_a_team_chooses_which_new_findings_are_worth_an_alert(
    world: World, own: str | None, severity: str, alerts: list[str]
) -> None:
    world.team.settings = {} if own is None else {"finding_severity": own}
    world.team.save()
    world.launch(findings=[])
    assert kinds(world.launch(findings=[("thin-slack-after-capture", severity)])) == alerts


def test_a_team_chooses_from_how_many_seconds_a_start_is_slower(world: World) -> None:
    world.team.settings = {"slower_seconds": 2.0}
    world.team.save()
    world.launch(ready_after=8.0)
    assert kinds(world.launch(ready_after=12.5)) == ["slower"]


def test_every_figure_of_an_alert_has_its_field_in_the_teams_settings(world: World) -> None:
    assert set(Thresholds.__dataclass_fields__) <= set(ThresholdForm().fields)


def test_a_second_run_of_the_same_report_leaves_the_same_rows(world: World) -> None:
    from reports.deployments_watch import watch_report

    world.launch(tokens=100_000)
    stored = world.launch(tokens=80_000, findings=[("thin-slack-after-capture", "warning")])
    before = (Alert.objects.count(), TrackedFinding.objects.count(), Comparison.objects.count())
    watch_report(stored)
    assert (Alert.objects.count(), TrackedFinding.objects.count(), Comparison.objects.count()) == before


def test_a_finding_goes_and_comes_back_as_regressed(world: World) -> None:
    rule = [("thin-slack-after-capture", "warning")]
    world.launch(findings=rule)
    tracked = TrackedFinding.objects.get()
    assert tracked.state == State.OPEN
    world.launch(findings=[])
    tracked.refresh_from_db()
    assert tracked.state == State.GONE
    world.launch(findings=rule)
    tracked.refresh_from_db()
    assert tracked.state == State.REGRESSED


def test_a_log_that_ends_early_closes_no_finding(world: World) -> None:
    world.launch(findings=[("thin-slack-after-capture", "warning")])
    world.launch(findings=[], outcome="incomplete")
    assert TrackedFinding.objects.get().state == State.OPEN


def test_a_mute_needs_a_reason_and_an_end_and_wakes_by_itself(world: World) -> None:
    from datetime import timedelta

    from django.utils import timezone

    world.launch(findings=[("thin-slack-after-capture", "warning")])
    tracked = TrackedFinding.objects.get()
    with pytest.raises(ValueError):
        set_state(tracked, State.MUTED, by=world.bob, reason="known")
    set_state(tracked, State.MUTED, by=world.bob, reason="known", until=timezone.now() + timedelta(days=1))
    assert Deployment.objects.get().open_findings == 0
    world.launch(findings=[("thin-slack-after-capture", "warning")])
    tracked.refresh_from_db()
    assert tracked.state == State.MUTED
    TrackedFinding.objects.update(muted_until=timezone.now() - timedelta(seconds=1))
    assert wake_muted() == 1
    assert Deployment.objects.get().open_findings == 1


def test_an_older_log_that_arrives_late_does_not_become_the_newest(world: World) -> None:
    from datetime import timedelta

    newest = world.launch(tokens=100_000)
    late = worlds.upload(
        team=world.team, uploader=world.bob, at=newest.upload.created_at - timedelta(days=3), deployment_key="kimi-prod"
    )
    worlds.report(late, worlds.document(tokens=1_000))
    deployment = Deployment.objects.get()
    assert deployment.last_kv_tokens == 100_000
    assert deployment.launch_count == 2
    assert deployment.history == [[1_000, "ready"], [100_000, "ready"]]


def test_uploads_of_nobody_join_nothing(world: World) -> None:
    worlds.report(worlds.upload(team=None, uploader=None))
    assert not Deployment.objects.exists()


def test_what_a_remedy_promises_is_compared_with_the_launch_that_tries_it(world: World) -> None:
    document = worlds.document(fraction=0.88, tokens=159_277, findings=[("big-free-memory-left", "advice")])
    effect = {"kv_tokens": {"from": 159_277, "to": 216_800}, "free_gib": {"from": 7.43, "to": 3.4}}
    remedy = {"flag": "--mem-fraction-static", "direction": "raise", "from": "0.88", "to": "0.92", "effect": effect}
    document["launches"][0]["findings"][0]["remedies"] = [remedy]
    worlds.report(worlds.upload(team=world.team, uploader=world.bob, deployment_key="kimi-prod"), document)
    Upload.objects.update(created_at=world.clock)
    world.launch(fraction=0.92, tokens=100_000, release="0.6.0")
    prediction = Prediction.objects.get()
    assert prediction.outcome is None, "the release changed as well: that launch is no test of the remedy"
    world.launch(fraction=0.92, tokens=216_690)
    prediction.refresh_from_db()
    assert prediction.printed_tokens == 216_690
    assert prediction.error_percent == pytest.approx(0.0508, abs=0.001)
