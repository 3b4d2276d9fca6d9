"""The dashboard, the search, the findings list and a deployment's page."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from reports.dashboard_spark import spark
from reports.deployments import pin
from reports.deployments_history import history, shortened
from reports.models import SavedView, TrackedFinding
from teams.models import Deployment
from tests.teams.conftest import signed_in
from tests.teams.world import World, document, report, upload


def text(world: World, path: str, person: str = "vera") -> str:
    answer = signed_in(getattr(world, person)).get(path)
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", answer.content.decode())


def shown(page: str) -> list[str]:
    """The names of the deployments in the table, in order."""
    return re.findall(r'<a class="cell-link" href="/deployments/[^"]+/">([^<]+)</a>', page)


def test_a_new_team_sees_how_to_send_its_first_log(world: World) -> None:
    page = text(world, "/dashboard/")
    assert "No deployment yet" in page and "curl -fsS --data-binary @server.log" in page


def test_a_row_tells_state_tokens_change_and_findings(world: World) -> None:
    world.launch("kimi", tokens=100_000, fraction=0.85)
    world.launch("kimi", tokens=137_000, fraction=0.88, findings=[("a-rule", "warning"), ("b-rule", "advice")])
    page = text(world, "/dashboard/")
    assert "137,000" in page and "+37" in page and "fraction 0.85 to 0.88" in page and "1 warning" in page
    assert 'class="spark"' in page and "Bob Example" in page


def test_a_launch_without_tokens_says_none_and_never_zero(world: World) -> None:
    world.launch("kimi", tokens=None, free=None, outcome="failed")
    page = text(world, "/dashboard/")
    assert "<b>none</b>" in page and ">unknown</td>" in page


def test_a_server_that_died_while_serving_is_not_said_to_have_failed_to_start(world: World) -> None:
    for stage, said, unsaid in (
        ("serving", "Died while serving", "Failed</span>"),
        ("weights", "Failed</span>", "Died"),
    ):
        made = document(outcome="failed")
        made["launches"][0] |= {"stage": stage, "failure": {"kind": "gpu_oom", "stage": stage}}
        row = upload(team=world.team, uploader=world.bob, at=timezone.now(), deployment_key=f"kimi-{stage}")
        report(row, made)
        found = Deployment.objects.get(name=f"kimi-{stage}")
        for path in (f"/dashboard/?q=kimi-{stage}", f"/deployments/{found.public_id}/", f"/reports/?q=kimi-{stage}"):
            page = text(world, path)
            page = page.split('class="list')[1] if "deployments" not in path else page
            assert said in page and unsaid not in page.split("Newest")[0], path


def test_filters_search_and_order_live_in_the_address(world: World) -> None:
    world.launch("small", tokens=10_000, model="org/Small-1B")
    world.launch("large", tokens=900_000, model="org/Large-70B", findings=[("a-rule", "warning")])
    world.launch("broken", tokens=None, outcome="failed", findings=[])
    assert shown(text(world, "/dashboard/")) == ["broken", "large", "small"]
    assert shown(text(world, "/dashboard/?state=failed")) == ["broken"]
    assert "annot start" not in text(world, "/dashboard/")  # a server that died while serving counts too
    assert shown(text(world, "/dashboard/?state=warnings")) == ["large"]
    assert shown(text(world, "/dashboard/?q=70b")) == ["large"]
    assert shown(text(world, "/dashboard/?sort=tokens")) == ["large", "small", "broken"]
    assert shown(text(world, "/dashboard/?sort=name")) == ["broken", "large", "small"]


def test_pages_of_the_table_follow_each_other_without_a_gap(world: World) -> None:
    now = timezone.now()
    for number in range(60):
        at = now - timedelta(minutes=number // 3)  # equal times must not lose rows
        Deployment.objects.create(
            team=world.team, key=f"d{number}", name=f"d{number:02d}", launch_count=1, last_upload_at=at
        )
    for order in ("recent", "name", "tokens", "free"):
        seen, path = [], f"/dashboard/?sort={order}"
        while path:
            page = text(world, path)
            seen += shown(page)
            following = re.search(r'href="(\?[^"]*after=[^"]+)"', page)
            path = f"/dashboard/{following[1].replace('&amp;', '&')}" if following else ""
        assert len(seen) == len(set(seen)) == 60, order


def test_a_made_up_cursor_is_no_page(world: World) -> None:
    world.launch()
    assert signed_in(world.vera).get("/dashboard/?after=nonsense").status_code == 404


@pytest.mark.parametrize("path", ["/dashboard/", "/reports/", "/findings/"])
def test_no_page_asks_the_database_row_by_row(world: World, path: str) -> None:
    client = signed_in(world.alice)

    def queries() -> int:
        client.get(path)
        with CaptureQueriesContext(connection) as captured:
            client.get(path)
        return len(captured)

    world.launch("one", findings=[("a-rule", "warning")])
    few = queries()
    for number in range(8):
        world.launch(f"deployment {number}", findings=[("a-rule", "warning"), ("b-rule", "critical")])
    assert queries() <= few


def test_a_deployments_page_does_not_grow_its_queries_with_its_launches(world: World) -> None:
    world.launch(), world.launch()
    client, path = signed_in(world.vera), f"/deployments/{Deployment.objects.get().public_id}/"

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            client.get(path)
        return len(captured)

    queries()
    few = queries()
    for _ in range(6):
        world.launch()
    assert queries() == few


def test_a_deployments_page_draws_history_and_lists_what_changed(world: World) -> None:
    world.launch(tokens=100_000, release="0.5.7")
    world.launch(tokens=None, outcome="failed")
    world.launch(tokens=120_000, release="0.5.9")
    page = text(world, f"/deployments/{Deployment.objects.get().public_id}/")
    assert "KV cache tokens over 3 starts" in page and "h-fail" in page
    assert "SGLang 0.5.7 to 0.5.9" in page or "SGLang 0.5.9 to" in page
    assert "Budgets side by side" in page and page.count("<tr><th scope") >= 3


def test_a_date_at_the_right_edge_ends_there(world: World) -> None:
    world.launch(), world.launch()
    page = signed_in(world.vera).get(f"/deployments/{Deployment.objects.get().public_id}/")
    first, last = page.context["history"].days
    assert first.place == "middle" and (last.x, last.place) == (100.0, "end")
    assert 'x="100.0%" y="11" text-anchor="end"' in page.content.decode()


def test_one_start_makes_no_line_and_says_why(world: World) -> None:
    world.launch()
    assert "it takes two starts" in text(world, f"/deployments/{Deployment.objects.get().public_id}/")


def test_the_baseline_is_pinned_shown_and_taken_out(world: World) -> None:
    stored = world.launch(tokens=123_456)
    world.launch()
    deployment = Deployment.objects.get()
    page, client = f"/deployments/{deployment.public_id}/", signed_in(world.bob)
    client.post(f"{page}baseline/", {"report": stored.pk})
    assert "123,456 tokens" in text(world, page) and "pinned baseline 123,456" in text(world, page)
    client.post(f"{page}baseline/", {"report": ""})
    assert "None pinned" in text(world, page)


def test_renaming_and_merging_by_the_page(world: World) -> None:
    world.launch("one"), world.launch("two")
    one, two = Deployment.objects.order_by("pk")
    client = signed_in(world.bob)
    client.post(f"/deployments/{one.public_id}/change/", {"name": "First"})
    client.post(f"/deployments/{one.public_id}/change/", {"into": two.public_id})
    assert shown(text(world, "/dashboard/")) == ["two"]
    assert signed_in(world.vera).get(f"/deployments/{one.public_id}/")["Location"] == f"/deployments/{two.public_id}/"
    assert text(world, "/reports/?q=two").count('href="/r/') == 2


def test_the_search_finds_by_model_release_tag_deployment_and_verdict(world: World) -> None:
    stored = world.launch("Prod EU", model="org/Kimi-K2.5", release="0.5.9")
    world.launch("other", model="org/Llama", release="0.4.1")
    for words in ("kimi", "0.5.9", "PROD", "kimi prod", "server.log kimi"):
        page = text(world, f"/reports/?q={words}")
        assert stored.upload.public_id in page and page.count('class="cell-link"') == 1, words
    assert "No report fits" in text(world, "/reports/?q=zzzz")
    assert "No report fits" in text(world, "/reports/?q=100%25")


def test_views_are_kept_for_oneself_or_the_team(world: World) -> None:
    world.launch(outcome="failed")
    signed_in(world.vera).post("/views/", {"name": "mine", "query": "state=failed&after=x"})
    assert signed_in(world.vera).post("/views/", {"name": "ours", "for": "team"}).status_code == 403
    signed_in(world.bob).post("/views/", {"name": "ours", "query": "q=kimi", "for": "team"})
    assert SavedView.objects.get(name="mine").query == "state=failed"
    assert "mine" in text(world, "/dashboard/") and "ours" in text(world, "/dashboard/")
    alice = text(world, "/dashboard/", "alice")
    assert ">mine<" not in alice and ">ours<" in alice


def test_findings_are_grouped_by_rule_and_changed_together(world: World) -> None:
    for name in ("one", "two"):
        world.launch(name, findings=[("a-rule", "critical"), ("b-rule", "advice")])
    page = text(world, "/findings/", "bob")
    assert page.index("a-rule") < page.index("b-rule") and "2 deployments" in page
    chosen = list(TrackedFinding.objects.filter(rule="a-rule").values_list("public_id", flat=True))
    until = timezone.localdate() + timedelta(days=10)
    form: dict[str, Any] = {"finding": chosen, "state": "muted", "reason": "new cards next week", "until": str(until)}
    signed_in(world.bob).post("/findings/change/", form)
    assert "a-rule" not in text(world, "/findings/")
    assert "new cards next week" in text(world, "/findings/?state=muted")


@pytest.mark.parametrize("until", ["", "2020-01-01", "9999-99-99", "soon"])
def test_a_mute_without_a_day_to_come_changes_nothing(world: World, until: str) -> None:
    world.launch(findings=[("a-rule", "critical")])
    finding = TrackedFinding.objects.get()
    form = {"finding": finding.public_id, "state": "muted", "reason": "x", "until": until}
    answer = signed_in(world.bob).post("/findings/change/", form, follow=True)
    assert "Nothing was changed" in answer.content.decode()
    finding.refresh_from_db()
    assert finding.state == "open"


# --- The small line ----------------------------------------------------------------------------------------------


def test_nothing_to_draw_draws_nothing() -> None:
    assert spark([]) is None
    assert spark([[None, "incomplete"]]) is None


def test_failed_starts_are_crosses_and_leave_the_line_where_it_was() -> None:
    line = spark([[100, "ready"], [None, "failed"], [200, "ready"]])
    assert line is not None and line.failed == (50.0,)
    assert line.line.startswith("M0.0 ") and line.line.count("V") == 1


def test_a_lone_failed_start_is_a_cross_where_the_newest_stands() -> None:
    line = spark([[5_537_463, "failed"]])
    assert line is not None
    assert (line.line, line.area, line.end, line.failed) == ("", "", None, (100.0,))
    ready = spark([[100, "ready"]])
    assert ready is not None and ready.end is not None and ready.end[0] == 100.0


def test_the_teams_settings_are_reached_from_dashboard_and_account(world: World) -> None:
    world.launch()
    address = f'href="/teams/{world.team.slug}/"'
    assert f"{address}>Settings</a>" in text(world, "/dashboard/")
    assert f"{address}>Team settings</a>" in text(world, "/account/")


def test_a_phone_is_told_what_is_free_and_what_was_found(world: World) -> None:
    world.launch(free=7.43, findings=[("a-rule", "warning"), ("b-rule", "warning")])
    row = text(world, "/dashboard/").split('class="narrow-row"')[1].split("</td>")[0]
    assert "7.43 GiB free" in row and "2 warnings" in row


def test_a_failed_start_is_a_cross_and_no_dot(world: World) -> None:
    launches = [world.launch(tokens=100), world.launch(tokens=900, outcome="failed"), world.launch(tokens=120)]
    launches[1].ready_after_s = None
    drawn = history(launches[::-1], {}, None)
    assert drawn is not None
    kv = next(panel for panel in drawn.panels if panel.kind == "kv")
    assert [dot.word.split(": ")[1] for dot in kv.dots] == ["100", "120"]
    assert [dot.word.split(": ")[1] for dot in kv.failed] == ["failed, 900"]
    assert kv.failed[0].y < min(dot.y for dot in kv.dots)
    assert str(kv.failed[0].y) not in kv.line


def test_a_changes_words_are_whole_or_say_that_they_are_cut() -> None:
    assert shortened(["fraction 0.4 to 0.2"]) == "fraction 0.4 to 0.2"
    assert shortened(["KV dtype fp8_e4m3 to auto", "fraction 0.4 to 0.2"]) == "KV dtype fp8_e4m3 to auto and 1 more"
    assert shortened(["image " + "x" * 80]).endswith("x…")


def test_the_drawing_has_no_words_on_the_baselines_line(world: World) -> None:
    launches = [world.launch(tokens=100), world.launch(tokens=120)]
    deployment = launches[0].upload.deployment
    assert deployment is not None
    pin(deployment, launches[0], by=world.alice)
    page = text(world, f"/deployments/{deployment.public_id}/")
    assert "KV cache tokens, dashed the pinned baseline 100</figcaption>" in page
    assert "pinned baseline" not in "".join(re.findall(r"<text.*?</text>", page))


def test_a_change_of_one_per_cent_is_no_cliff() -> None:
    small, large = spark([[100, "ready"], [101, "ready"]]), spark([[100, "ready"], [200, "ready"]])

    def height(line: Any) -> float:
        first, last = re.findall(r"[M\d.]+ ([\d.]+)|V([\d.]+)", line.line)
        return abs(float(first[0]) - float(last[1]))

    assert height(small) < 2 < 20 < height(large)


def test_what_a_failed_start_had_left_is_no_free_memory_after_start(world: World) -> None:
    launches = [world.launch(), world.launch(outcome="failed"), world.launch(outcome="failed")]
    launches[0].free_gib, launches[1].free_gib, launches[2].free_gib = 4.0, 0.5, 3.0
    launches[1].ready_after_s, launches[2].ready_after_s = None, 60.0
    drawn = history(launches[::-1], {}, None)
    assert drawn is not None
    free = next(panel for panel in drawn.panels if panel.kind == "free")
    assert len(free.dots) == 2
    assert len(free.failed) == 1
