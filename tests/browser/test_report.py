"""The report page in a browser: reading, walking, asking what if; nothing goes outside or breaks the policy."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from ingest.arrival import folder_of
from ingest.models import State, StoredReport, Upload
from ingest.stored import columns_of
from tests.documents import document, with_ranks

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

Open = Callable[..., Page]


class Visit:
    """A page that notes every error, refused style or script, and request to elsewhere."""

    def __init__(self, page: Page, site: str) -> None:
        self.page, self.site = page, site
        self.problems: list[str] = []
        page.on("console", lambda said: self.problems.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self._look_at(request.url))

    def _look_at(self, url: str) -> None:
        if not url.startswith((self.site, "data:", "blob:")):
            self.problems.append(url)

    def open(self, path: str, *, charts: bool = False) -> Page:
        """The page at a path; without its five megabytes of Plotly where a test looks at no live chart."""
        if not charts:
            empty = {"body": "", "content_type": "text/javascript"}
            self.page.route("**/plotly.min*.js", lambda route: route.fulfill(**empty))
        self.page.goto(self.site + path)
        return self.page


@pytest.fixture
def visit(page: Page, live_server: Any) -> Visit:
    return Visit(page, live_server.url)


def stored(made: dict[str, Any], lines: list[str] | None = None) -> str:
    """The address of a report, with a masked log of these lines behind it."""
    upload = Upload.objects.create(state=State.READY, phase="ready")
    if lines is not None:
        folder = folder_of(upload.public_id) / "masked"
        folder.mkdir(parents=True)
        (folder / "a.log").write_text("\n".join(lines) + "\n", "utf-8")
        made["upload"]["files"][0]["lines"] = len(lines)
        upload.files = [{"name": "a.log", "path": "masked/a.log", "lines": len(lines)}]
        upload.save()
    StoredReport.objects.create(upload=upload, engine=made["engine"], **columns_of(made))
    return f"/r/{upload.public_id}/"


def violations(page: Page) -> list[str]:
    return [f"{each['id']}: {each['nodes'][0]['html'][:160]}" for each in Axe().run(page).response["violations"]]


@pytest.mark.parametrize("name", ["kimi-k25-8gpu", "llama-two-launches", "lone-oom-line", "not-sglang"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_report_has_no_barrier_and_no_error(visit: Visit, name: str, scheme: str) -> None:
    visit.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page = visit.open(stored(document(name)), charts=True)
    page.wait_for_load_state("networkidle")
    for part in page.locator("details:not(.menu):not(.navmenu)").all():
        part.evaluate("part => { part.open = true; }")
    assert violations(page) == []
    assert visit.problems == []


@pytest.mark.parametrize("width", [320, 390, 768, 1440])
def test_no_page_is_wider_than_its_screen(visit: Visit, width: int) -> None:
    visit.page.set_viewport_size({"width": width, "height": 900})
    for name in ("kimi-k25-8gpu", "llama-two-launches", "lone-oom-line"):
        page = visit.open(stored(document(name)), charts=True)
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("path", ["/rules/", "/compare/", "/design/"])
def test_pages_beside_the_report_have_no_barrier(visit: Visit, path: str) -> None:
    page = visit.open(path, charts=True)
    page.wait_for_load_state("networkidle")
    assert violations(page) == []
    assert visit.problems == []


def test_the_comparison_has_no_barrier(visit: Visit) -> None:
    address = stored(document("llama-two-launches"))
    page = visit.open(f"/compare/?r={address.strip('/').split('/')[-1]}", charts=True)
    page.wait_for_load_state("networkidle")
    expect(page.locator("#plot-budgets .main-svg").first).to_be_visible()
    assert violations(page) == []
    assert visit.problems == []


def test_charts_are_drawn_and_follow_the_unit(visit: Visit) -> None:
    page = visit.open(stored(document("kimi-k25-8gpu")), charts=True)
    expect(page.locator("#plot-budget .main-svg").first).to_be_visible()
    expect(page.locator("#plot-budget")).to_contain_text("Weights 72.33")
    page.get_by_role("button", name="tokens", exact=True).click()
    expect(page.locator("#twin-budget tbody tr").nth(1)).to_contain_text("159,215")
    expect(page.locator("#plot-budget")).to_contain_text("159,215")
    page.reload()
    expect(page.get_by_role("button", name="tokens", exact=True)).to_have_attribute("aria-pressed", "true")


def test_every_rank_can_be_seen(visit: Visit) -> None:
    page = visit.open(stored(document("kimi-k25-8gpu")), charts=True)
    expect(page.locator("#plot-budget .main-svg").first).to_be_visible()
    page.get_by_role("button", name="Every rank").click()
    expect(page.locator("#plot-budget")).to_contain_text("TP7")


def test_a_click_on_a_segment_leads_to_its_line(visit: Visit) -> None:
    page = visit.open(stored(document("kimi-k25-8gpu")), charts=True)
    bar = page.locator("#plot-budget .main-svg").first
    expect(bar).to_be_visible()
    page.locator("#plot-budget").scroll_into_view_if_needed()
    box = page.locator("#plot-budget").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] * 0.32)
    expect(page.locator("#plot-budget .hoverlayer")).to_contain_text("Weights")
    page.mouse.click(box["x"] + box["width"] * 0.3, box["y"] + box["height"] * 0.32)
    page.wait_for_url(re.compile("#L231$"))


def test_a_click_on_a_segment_opens_the_finding_that_rests_on_it(visit: Visit) -> None:
    page = visit.open(stored(document("kimi-k25-8gpu")), charts=True)
    expect(page.locator("#plot-budget .main-svg").first).to_be_visible()
    finding = page.locator(".finding", has_text="mla-kv-replicated")
    assert finding.get_attribute("open") is None
    page.locator("#plot-budget").scroll_into_view_if_needed()
    box = page.locator("#plot-budget").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.81, box["y"] + box["height"] * 0.3)
    hover = page.locator("#plot-budget .hoverlayer")
    for said in ("KV cache", "10.42 GiB", "% of the first reading", "printed, L247"):
        expect(hover).to_contain_text(said)
    page.mouse.click(box["x"] + box["width"] * 0.81, box["y"] + box["height"] * 0.3)
    page.wait_for_url(re.compile("#L247$"))
    expect(finding).to_have_attribute("open", "")


@pytest.mark.parametrize(("unit", "figure"), [("GB", "11.19"), ("%", "11.1"), ("GiB", "10.42")])
def test_every_unit_changes_drawing_and_table_alike(visit: Visit, unit: str, figure: str) -> None:
    page = visit.open(stored(document("kimi-k25-8gpu")), charts=True)
    expect(page.locator("#plot-budget .main-svg").first).to_be_visible()
    page.get_by_role("button", name="tokens", exact=True).click()
    page.get_by_role("button", name=unit, exact=True).click()
    row = page.locator("#twin-budget tbody tr", has_text="KV cache").first
    expect(row.locator("td").first).to_have_text(figure)
    expect(page.locator("#twin-budget [data-unit-name]")).to_have_text(unit)
    expect(page.locator("#plot-budget")).to_contain_text(figure)


def test_launches_lie_on_a_strip_of_the_log(visit: Visit) -> None:
    page = visit.open(stored(document("llama-two-launches")))
    expect(page.get_by_role("navigation", name="Launches").get_by_role("link")).to_have_count(2)
    expect(page.locator(".restarts rect")).to_have_count(2)
    expect(page.locator(".restarts__current")).to_have_count(1)
    first, second = (float(rect.get_attribute("x") or -1) for rect in page.locator(".restarts rect").all())
    assert first < second


def test_the_side_list_follows_the_reader(visit: Visit) -> None:
    page = visit.open(stored(document("kimi-k25-8gpu")))
    page.wait_for_load_state("networkidle")
    for anchor in ("waterfall", "findings", "log"):
        page.locator(f".side a[href='#{anchor}']").click()
        expect(page.locator(f"#{anchor}")).to_be_in_viewport()
        expect(page.locator(".side a[aria-current]")).to_have_attribute("href", f"#{anchor}")
        expect(page.locator(".side")).to_be_in_viewport()


def test_nothing_is_animated_where_motion_is_not_wanted(visit: Visit) -> None:
    visit.page.emulate_media(reduced_motion="reduce")
    page = visit.open(stored(document("kimi-k25-8gpu")), charts=True)
    expect(page.locator("#plot-budget .main-svg").first).to_be_visible()
    page.get_by_role("button", name="Every rank").click()
    assert page.evaluate("document.getAnimations().filter(each => each.playState === 'running').length") == 0
    assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"


def test_what_if_works_as_a_form_without_a_script(browser: Any, live_server: Any) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(live_server.url + stored(document("kimi-k25-8gpu")))
    panel = page.locator("#whatif")
    expect(panel.locator('[data-out="tokens"]')).to_have_text("159,277")
    panel.get_by_label("--kv-cache-dtype").select_option("fp8_e4m3")
    panel.get_by_role("button", name="Work it out").click()
    page.wait_for_url(re.compile(r"\?launch=1&wf\.kv_cache_dtype=fp8_e4m3#whatif$"))
    expect(panel.locator('[data-out="tokens"]')).to_contain_text("≈ 318,")
    expect(panel.get_by_label("--kv-cache-dtype")).to_have_value("fp8_e4m3")
    expect(panel.locator("svg.still")).to_be_visible()
    panel.get_by_role("link", name="Back to observed").click()
    expect(panel.locator('[data-out="tokens"]')).to_have_text("159,277")
    context.close()


def test_ten_launches_stand_side_by_side(visit: Visit) -> None:
    ids = [stored(document("kimi-k25-8gpu")).strip("/").split("/")[-1] for _ in range(11)]
    page = visit.open("/compare/?" + "&".join(f"r={each}" for each in ids), charts=True)
    expect(page.locator("#plot-budgets .main-svg").first).to_be_visible()
    expect(page.locator("#twin-compare thead th")).to_have_count(10)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert violations(page) == []
    assert visit.problems == []


def test_a_change_is_copied_without_its_signs(visit: Visit) -> None:
    visit.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = visit.open(stored(document("llama-refused")))
    page.locator(".finding").first.get_by_role("button", name="Copy").click()
    expect(page.locator(".toast")).to_have_text("Copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.splitlines()[0] == "python -m sglang.launch_server \\"
    assert "  --mem-fraction-static 0.90" in copied and "0.80" not in copied
    assert not copied.endswith("\\")


def test_n_and_p_walk_the_findings(visit: Visit) -> None:
    page = visit.open(stored(document("kimi-k25-8gpu")))
    page.wait_for_load_state("networkidle")
    page.keyboard.press("n")
    page.keyboard.press("n")
    second = page.locator(".finding").nth(1)
    expect(second).to_have_attribute("open", "")
    expect(second.locator("summary")).to_be_focused()
    page.keyboard.press("p")
    expect(page.locator(".finding").first.locator("summary")).to_be_focused()


def test_keys_are_explained_on_a_question_mark(visit: Visit) -> None:
    page = visit.open(stored(document("kimi-k25-8gpu")))
    page.wait_for_load_state("networkidle")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("next, previous finding")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_launch_has_an_address_of_its_own(visit: Visit) -> None:
    page = visit.open(stored(document("llama-two-launches")))
    page.get_by_role("navigation", name="Launches").get_by_text("Launch 1").click()
    page.wait_for_url(re.compile(r"\?launch=1"))
    expect(page.locator(".verdict__turn")).to_have_text("Lower the fraction")


def test_arguments_can_be_filtered(visit: Visit) -> None:
    page = visit.open(stored(document("kimi-k25-8gpu")))
    page.get_by_label("Filter arguments").fill("fraction")
    shown = page.locator("#config-groups [data-words]:visible")
    expect(shown).to_have_count(1)
    page.get_by_label("Filter arguments").fill("nothing like it")
    expect(page.locator("#config-groups [data-none]")).to_be_visible()


def test_what_if_answers_and_keeps_the_scenario_in_the_address(visit: Visit) -> None:
    page = visit.open(stored(document("kimi-k25-8gpu")))
    panel = page.locator("#whatif")
    panel.scroll_into_view_if_needed()
    expect(panel.locator('[data-out="tokens"]')).to_have_text("159,277")
    panel.get_by_label("--mem-fraction-static").evaluate(
        "knob => { knob.value = '0.9'; knob.dispatchEvent(new Event('input', {bubbles: true})); }"
    )
    expect(panel.locator('[data-out="tokens"]')).to_contain_text("≈ 188,0")
    expect(panel.locator("#whatif-diff .add")).to_have_text("--mem-fraction-static 0.9")
    page.wait_for_url(re.compile("wf.mem_fraction_static=0.9"))
    page.reload()
    expect(panel.locator('[data-out="tokens"]')).to_contain_text("≈ 188,0")
    panel.get_by_role("button", name="Back to observed").click()
    expect(panel.locator('[data-out="tokens"]')).to_have_text("159,277")


def test_below_an_error_of_the_panel_no_figure_stands(visit: Visit) -> None:
    page = visit.open(stored(document("kimi-k25-8gpu")), charts=True)
    panel = page.locator("#whatif")
    panel.scroll_into_view_if_needed()
    panel.get_by_label("Tokens in one request").fill("99999999")
    expect(panel.locator('[data-out="verdict-text"]')).to_contain_text("tokens in one request is at most 131,072")
    for key in ("tokens", "requests", "free"):
        expect(panel.locator(f'[data-out="{key}"]')).to_have_text("not known")
        expect(panel.locator(f'[data-out="{key}-note"]')).not_to_contain_text("observed")
    expect(panel.locator("#plot-whatif")).to_be_hidden()
    page.reload()
    expect(panel.locator('[data-out="tokens"]')).to_have_text("not known")
    expect(panel.locator("#plot-whatif")).to_be_hidden()
    panel.get_by_role("button", name="Back to observed").click()
    expect(panel.locator('[data-out="tokens"]')).to_have_text("159,277")
    expect(panel.locator("#plot-whatif")).to_be_visible()


def test_an_impossible_scenario_shows_no_figure(visit: Visit) -> None:
    page = visit.open(stored(document("kimi-k25-8gpu")) + "?wf.mem_fraction_static=0.72#whatif")
    panel = page.locator("#whatif")
    expect(panel.locator('[data-out="verdict"]')).to_have_class(re.compile("notice--critical"))
    expect(panel.locator('[data-out="tokens"]')).to_have_text("none")


def test_the_choice_of_colours_is_kept(visit: Visit) -> None:
    page = visit.open(stored(document("kimi-k25-8gpu")), charts=True)
    page.get_by_role("button", name="Dark colours").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert visit.problems == []


def test_a_chart_can_be_taken_along(visit: Visit, tmp_path: Path) -> None:
    page = visit.open(stored(document("kimi-k25-8gpu")), charts=True)
    expect(page.locator("#plot-budget .main-svg").first).to_be_visible()
    taken = {}
    for kind in ("CSV", "PNG", "SVG"):
        page.locator("#budget summary[aria-label='Export']").click()
        with page.expect_download() as download:
            page.locator("#budget .menu__list").get_by_text(kind).click()
        taken[kind] = tmp_path / kind
        download.value.save_as(taken[kind])
    table = taken["CSV"].read_text("utf-8-sig")
    assert "Weights,72.33" in table
    assert taken["PNG"].read_bytes().startswith(b"\x89PNG")
    assert "<svg" in taken["SVG"].read_text("utf-8")
    assert visit.problems == []


def test_the_page_reads_without_a_script(browser: Any, live_server: Any) -> None:
    address = stored(document("llama-refused"))
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(live_server.url + address)
    expect(page.locator(".verdict__line")).to_contain_text("The weights take 65.86")
    expect(page.locator("#plot-budget svg.still")).to_be_visible()
    expect(page.locator(".finding").first).to_contain_text("--mem-fraction-static 0.90")
    expect(page.locator(".needs-js:visible")).to_have_count(0)
    context.close()


def test_nothing_moves_when_the_charts_arrive(visit: Visit) -> None:
    visit.page.add_init_script(
        "window.moved = 0; new PerformanceObserver(list => list.getEntries().forEach(entry => "
        "{ if (!entry.hadRecentInput) window.moved += entry.value; })).observe({type: 'layout-shift', buffered: true});"
    )
    page = visit.open(stored(document("kimi-k25-8gpu")), charts=True)
    expect(page.locator("#plot-budget .main-svg").first).to_be_visible()
    page.wait_for_load_state("networkidle")
    assert page.evaluate("window.moved") < 0.02
    page.locator("#plot-waterfall").scroll_into_view_if_needed()
    expect(page.locator("#plot-waterfall .main-svg").first).to_be_visible()
    page.wait_for_timeout(200)
    assert page.evaluate("window.moved") < 0.02


def test_a_drawing_far_below_is_live_once_the_reader_comes_near(visit: Visit) -> None:
    page = visit.open(stored(document("kimi-k25-8gpu")), charts=True)
    expect(page.locator("#plot-budget .main-svg").first).to_be_visible()
    waterfall = page.locator("#plot-waterfall")
    expect(waterfall.locator("svg.still")).to_have_count(1)
    waterfall.scroll_into_view_if_needed()
    expect(waterfall.locator(".main-svg").first).to_be_visible()
    expect(waterfall.locator("svg.still")).to_have_count(0)
    assert visit.problems == []


def test_paper_has_every_drawing_in_the_unit_of_its_table(visit: Visit) -> None:
    page = visit.open(stored(document("kimi-k25-8gpu")), charts=True)
    expect(page.locator("#plot-budget .main-svg").first).to_be_visible()
    expect(page.locator("svg.still").first).to_be_attached()
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    expect(page.locator("#plot-waterfall .main-svg").first).to_be_attached()
    expect(page.locator(".plot[data-figure] svg.still")).to_have_count(0)


def test_paper_shows_every_finding(visit: Visit) -> None:
    page = visit.open(stored(document("kimi-k25-8gpu")))
    page.wait_for_load_state("networkidle")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    for finding in page.locator(".finding").all():
        expect(finding.locator(".finding__body")).to_be_visible()
    expect(page.locator(".topbar")).to_be_hidden()


def test_512_ranks_can_be_read(visit: Visit) -> None:
    page = visit.open(stored(with_ranks(512, odd=40)), charts=True)
    expect(page.locator("#plot-budget .main-svg").first).to_be_visible()
    expect(page.locator("#plot-budget")).to_contain_text("× 500")
    assert page.locator("#plot-budget .ytick").count() <= 16
    assert visit.problems == []


def test_a_rank_among_512_is_pointed_at_and_found_by_keys(visit: Visit) -> None:
    page = visit.open(stored(with_ranks(512, odd=40)))
    drawing, told = page.locator(".ranks__drawing"), page.locator("[data-ranks-told]")
    drawing.scroll_into_view_if_needed()
    box = drawing.bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 39.5 / 512, box["y"] + 40)
    expect(told).to_have_text("TP39: 6.53 GiB free, 0.90 less than 500 others")
    page.mouse.move(box["x"] + box["width"] * 100.5 / 512, box["y"] + 40)
    expect(told).to_have_text("TP100: 7.43 GiB free, as 500 of 512")
    drawing.focus()
    page.keyboard.press("ArrowRight")
    expect(told).to_contain_text("TP101")
    page.keyboard.press("PageDown")
    expect(told).to_contain_text("TP119")
    page.keyboard.press("End")
    expect(told).to_contain_text("TP511")
    assert violations(page) == []
    assert visit.problems == []


@pytest.mark.parametrize("width", [320, 1440])
@pytest.mark.parametrize("count", [64, 512])
def test_many_ranks_fit_the_screen(visit: Visit, width: int, count: int) -> None:
    visit.page.set_viewport_size({"width": width, "height": 900})
    page = visit.open(stored(with_ranks(count, odd=13)), charts=True)
    page.locator("#plot-budget").scroll_into_view_if_needed()
    expect(page.locator("#plot-budget .main-svg").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    expect(page.locator(".ranks__lane").first).to_be_visible()


def test_the_file_to_keep_opens_from_disk_without_a_barrier(page: Page, tmp_path: Path) -> None:
    from reports.offline import offline_page

    file = tmp_path / "report.html"
    file.write_text(offline_page(document("llama-two-launches")), "utf-8")
    problems: list[str] = []
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    page.on("request", lambda request: problems.append(request.url) if not request.url.startswith("file:") else None)
    page.goto(file.as_uri())
    expect(page.locator("article")).to_have_count(2)
    assert violations(page) == []
    assert problems == []


@pytest.mark.parametrize("width", [390, 1280])
def test_names_values_and_flags_are_not_broken_in_the_middle(visit: Visit, width: int) -> None:
    made = document("kimi-k25-8gpu")
    launch = made["launches"][0]
    sizes = list(range(1, 60))
    launch["arguments"] |= {
        "expert_distribution_recorder_buffer_size": {"value": 1000, "origin": "given"},
        "eplb_min_rebalancing_utilization_threshold": {"value": 1.0, "origin": "given"},
        "cuda_graph_bs": {"value": sizes, "origin": "given"},
    }
    launch["findings"][0]["summary"] = "Too little is asked for and much of the card stays free: --mem-fraction-static"
    visit.page.set_viewport_size({"width": width, "height": 900})
    page = visit.open(stored(made))
    high, line = "element.getBoundingClientRect().height", "parseFloat(getComputedStyle(element).lineHeight)"
    lines = f"element => Math.round({high} / {line})"
    for name, value in (("expert_distribution", "1000"), ("eplb_min", "1.0")):
        row = page.locator(f'#config-groups [data-words^="{name}"]')
        assert row.locator("dd").inner_text() == value
        assert row.locator("dd").evaluate(lines) == 1
    listed = page.locator('#config-groups [data-words^="cuda_graph_bs"]')
    assert listed.locator("dt").evaluate(lines) == 1
    assert listed.locator("dd").bounding_box()["width"] > 0.8 * listed.bounding_box()["width"]  # type: ignore[index]
    assert page.locator(".finding__head h3 code").first.evaluate("element => element.getClientRects().length") == 1
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
