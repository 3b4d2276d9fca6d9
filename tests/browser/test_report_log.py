"""The log viewer in a browser: anchors, gaps, search, filters, and a long log that stays quick."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_report import Visit, stored
from tests.documents import document

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

EVIL = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"
LENGTH = 5_000


@pytest.fixture
def visit(page: Page, live_server: Any) -> Visit:
    return Visit(page, live_server.url)


def lines() -> list[str]:
    """A log of 5,000 lines, with what logs hold: ranks, errors, colours, progress bars, markup, a long line."""
    made = [f"[2026-11-29 09:14:42 TP{n % 8}] line {n}" for n in range(1, LENGTH + 1)]
    made[499] = "\x1b[31mred words\x1b[0m and \x1b]8;;http://example.org\x07a link\x1b]8;;\x07 \x1b[2Kplain"
    made[500] = EVIL
    made[501] = "Loading:   0%|          | 0/64\rLoading:  50%|#####     | 32/64\rLoading: 100%|##########| 64/64"
    made[502] = "x" * 9_000
    made[598:604] = [f"Loading: {n}0%|####      | {n}/9" for n in range(1, 7)]
    made[2999] = "RuntimeError: CUDA out of memory"
    made[3999] = "ValueError: a second error"
    return made


@pytest.fixture
def log(visit: Visit) -> Page:
    page = visit.open(stored(document("kimi-k25-8gpu"), lines()))
    expect(page.locator(".minimap svg")).to_be_attached()
    return page


def go(page: Page, anchor: str) -> None:
    page.evaluate(f"location.hash = '{anchor}'")


def test_a_line_has_an_address_and_its_gap_opens(log: Page) -> None:
    go(log, "L1234")
    line = log.locator("#L1234")
    expect(line).to_contain_text("line 1234")
    expect(line).to_have_class(re.compile("is-target"))
    expect(line).to_be_in_viewport()


def test_an_address_of_a_line_works_from_outside(visit: Visit) -> None:
    address = stored(document("kimi-k25-8gpu"), lines())
    page = visit.open(address + "#L2222-L2224")
    for number in (2222, 2223, 2224):
        expect(page.locator(f"#L{number}")).to_have_class(re.compile("is-target"))
    expect(page.locator("#L2225")).not_to_have_class(re.compile("is-target"))


def test_a_range_is_marked_with_shift(log: Page) -> None:
    go(log, "L700")
    log.locator("#L700 > a").click()
    log.locator("#L703 > a").click(modifiers=["Shift"])
    assert log.evaluate("location.hash") == "#L700-L703"
    expect(log.locator("li.is-target")).to_have_count(4)


def test_back_returns_to_the_line_before(log: Page) -> None:
    go(log, "L700")
    expect(log.locator("#L700")).to_have_class(re.compile("is-target"))
    go(log, "L900")
    expect(log.locator("#L900")).to_have_class(re.compile("is-target"))
    log.go_back()
    expect(log.locator("#L700")).to_have_class(re.compile("is-target"))


def test_text_of_a_log_is_text(log: Page) -> None:
    go(log, "L501")
    expect(log.locator("#L501 code")).to_have_text(EVIL)
    assert log.title() != "broken"
    expect(log.locator("#log img")).to_have_count(0)


def test_colours_are_shown_and_every_other_escape_is_dropped(log: Page) -> None:
    go(log, "L500")
    expect(log.locator("#L500 code")).to_have_text("red words and a link plain")
    expect(log.locator("#L500 .a-red")).to_have_text("red words")
    expect(log.locator("#L500 code a")).to_have_count(0)


def test_a_progress_bar_is_folded_to_its_last_state(log: Page) -> None:
    go(log, "L502")
    expect(log.locator("#L502 code")).to_have_text("Loading: 100%|##########| 64/64")


def test_a_bar_printed_line_by_line_is_folded_too(log: Page) -> None:
    go(log, "L596")
    gap = log.get_by_role("button", name="5 lines of a progress bar, folded to its last state")
    expect(gap).to_be_visible()
    expect(log.locator("#L604")).to_contain_text("60%")
    gap.click()
    expect(log.locator("#L599")).to_contain_text("10%")


def test_a_long_line_is_cut_and_shown_on_demand(log: Page) -> None:
    go(log, "L503")
    more = log.locator("#L503 .log__more")
    expect(more).to_contain_text("7,000 more letters")
    more.click()
    expect(log.locator("#L503 code")).to_have_text("x" * 9_000)


def test_numbers_are_not_copied(log: Page) -> None:
    go(log, "L700")
    expect(log.locator("#L701")).to_be_visible()
    picked = log.evaluate(
        "(() => { const range = document.createRange(); range.setStartBefore(document.querySelector('#L700'));"
        "range.setEndAfter(document.querySelector('#L701')); const chosen = getSelection();"
        "chosen.removeAllRanges(); chosen.addRange(range); return chosen.toString(); })()"
    )
    assert "line 700" in picked and "line 701" in picked
    assert not re.search(r"^\s*70[01]\s*$", picked, re.MULTILINE)


def test_the_whole_log_is_one_scroll(log: Page) -> None:
    log.locator("[data-log-fold]").click()
    frame = log.locator(".log__scroll")
    expect(log.locator("#L1 code")).to_contain_text("line 1")
    frame.evaluate("frame => { frame.scrollTop = frame.scrollHeight; }")
    expect(log.locator(f"#L{LENGTH} code")).to_contain_text(f"line {LENGTH}")
    assert log.locator(".log__body li").count() < 200, "only what is seen is in the page"


def test_search_counts_and_walks(log: Page) -> None:
    log.keyboard.press("/")
    log.keyboard.type("line 12")
    expect(log.locator("[data-log-count]")).to_have_text("111")
    log.keyboard.press("Enter")
    expect(log.locator("[data-log-count]")).to_have_text("1 of 111")
    expect(log.locator("#L12 mark.find")).to_have_text("line 12")
    log.get_by_role("button", name="Next match").click()
    expect(log.locator("[data-log-count]")).to_have_text("2 of 111")
    expect(log.locator("#L120")).to_be_in_viewport()


def test_a_pattern_that_is_none_is_said_to_be_none(log: Page) -> None:
    log.get_by_label("Search the log").fill("/(/")
    expect(log.locator("[data-log-count]")).to_contain_text("cannot be searched")


def test_a_rank_alone_can_be_read(log: Page) -> None:
    log.get_by_label("Rank", exact=True).select_option("TP3")
    first = log.locator(".log__body li").first
    expect(first).to_have_attribute("id", "L3")
    expect(first.locator("code")).to_contain_text("TP3] line 3")
    expect(log.locator(".log__body li").nth(1)).to_have_attribute("id", "L11")
    log.get_by_label("Rank", exact=True).select_option("")
    expect(log.locator(".log__gap").first).to_be_visible()


def test_a_phase_alone_can_be_read(visit: Visit) -> None:
    page = visit.open(stored(document("kimi-k25-8gpu"), lines()))
    page.get_by_label("Phase", exact=True).select_option("weights")
    expect(page.locator(".log__body li").first).to_have_attribute("id", "L142")
    page.locator(".log__scroll").focus()
    page.keyboard.press("End")
    expect(page.locator(".log__body li").last).to_have_attribute("id", "L231")


def test_errors_alone_can_be_read(log: Page) -> None:
    log.get_by_label("Level").select_option("error")
    expect(log.locator(".log__body li")).to_have_count(3)  # with the markup line, which speaks of an error


def test_e_walks_the_errors(log: Page) -> None:
    go(log, "L1000")
    expect(log.locator("#L1000")).to_have_class(re.compile("is-target"))
    log.keyboard.press("e")
    log.wait_for_url(re.compile("#L3000$"))
    expect(log.locator("#L3000")).to_be_in_viewport()
    log.keyboard.press("e")
    log.wait_for_url(re.compile("#L4000$"))
    log.keyboard.press("E")
    log.wait_for_url(re.compile("#L3000$"))


def test_g_goes_to_a_line(log: Page) -> None:
    log.keyboard.press("g")
    log.get_by_role("spinbutton", name="Go to line").fill("4321")
    log.keyboard.press("Enter")
    expect(log.locator("#L4321")).to_be_in_viewport()


def test_findings_are_marked_in_the_minimap(log: Page) -> None:
    expect(log.locator(".minimap .mm-advice")).to_have_count(1)
    assert log.locator(".minimap .mm-fact").count() > 5
    log.locator(".minimap").click(position={"x": 20, "y": 5})
    expect(log.locator(".log__body li[data-line]").first).to_be_visible()


def test_the_viewer_breaks_nothing(visit: Visit) -> None:
    page = visit.open(stored(document("kimi-k25-8gpu"), lines()) + "#L3000")
    expect(page.locator("#L3000")).to_be_in_viewport()
    page.locator("[data-log-fold]").click()
    page.locator("[data-log-wrap]").click()
    expect(page.locator("#L3000")).to_be_in_viewport()
    assert visit.problems == []


# --- Unfolded and wrapped: rows of any height -------------------------------------------------------------------------

TOPS = """() => { const frame = document.querySelector('.log__scroll').getBoundingClientRect();
    return Object.fromEntries(Array.from(document.querySelectorAll('.log__body--virtual li'))
        .map(row => [row.id, row.getBoundingClientRect()])
        .filter(([, at]) => at.bottom > frame.top && at.top < frame.bottom)
        .map(([id, at]) => [id, at.top - frame.top])); }"""


def uneven(length: int) -> list[str]:
    """Lines of one to about twelve rows on a wide screen."""
    return [f"line {n} " + "words " * (n * 37 % 300 if n % 3 == 0 else 2) for n in range(1, length + 1)]


@pytest.fixture
def unfolded(visit: Visit) -> Page:
    page = visit.open(stored(document("kimi-k25-8gpu"), uneven(6_000)))
    page.locator("[data-log-fold]").click()
    expect(page.locator("#L1 code")).to_contain_text("line 1")
    page.locator("#log").scroll_into_view_if_needed()
    page.locator(".log__scroll").evaluate("frame => frame.scrollIntoView({block: 'center'})")
    return page


def over_the_lines(page: Page) -> None:
    box = page.locator(".log__scroll").bounding_box()
    assert box
    page.mouse.move(box["x"] + 200, box["y"] + 200)


def scrolled(page: Page, by: int) -> set[float]:
    """How far the rows that stay in sight moved when the wheel was turned by so many pixels."""
    before = page.evaluate(TOPS)
    page.mouse.wheel(0, by)
    page.wait_for_timeout(60)
    after = page.evaluate(TOPS)
    both = before.keys() & after.keys()
    assert both, "no row of the view before is in sight"
    return {round(before[row] - after[row]) for row in both}


@pytest.mark.parametrize("start", [1, 3_000, 5_900])
def test_every_row_moves_as_far_as_the_wheel(unfolded: Page, start: int) -> None:
    go(unfolded, f"L{start}")
    expect(unfolded.locator(f"#L{start}")).to_be_in_viewport()
    over_the_lines(unfolded)
    unfolded.wait_for_timeout(400)
    for _ in range(12):
        assert scrolled(unfolded, 130) == {130}
    unfolded.wait_for_timeout(400)
    for _ in range(6):
        assert scrolled(unfolded, -130) == {-130}


def test_rows_stay_where_they_are_when_scrolling_has_ended(unfolded: Page) -> None:
    go(unfolded, "L3000")
    over_the_lines(unfolded)
    for _ in range(10):
        unfolded.mouse.wheel(0, 300)
    unfolded.wait_for_timeout(80)
    at_once = unfolded.evaluate(TOPS)
    unfolded.wait_for_timeout(700)
    later = unfolded.evaluate(TOPS)
    assert at_once.keys() == later.keys()
    assert all(abs(at_once[row] - later[row]) <= 1 for row in at_once)


@pytest.mark.parametrize("line", [1, 7, 1_234, 2_999, 5_998, 6_000])
def test_an_address_shows_exactly_its_lines(unfolded: Page, line: int) -> None:
    last = min(line + 2, 6_000)
    go(unfolded, f"L{line}-L{last}")
    for number in range(line, last + 1):
        row = unfolded.locator(f"#L{number}")
        expect(row).to_have_class(re.compile("is-target"))
        expect(row.locator("code")).to_contain_text(f"line {number} ")
    frame = unfolded.locator(".log__scroll").evaluate("frame => frame.clientHeight")
    top = unfolded.evaluate(TOPS)[f"L{line}"]
    assert 0 <= top < frame
    if 100 < line < 5_900:
        assert abs(top - frame / 3) < 1


def test_rows_follow_one_another_without_a_gap_or_an_overlap(unfolded: Page) -> None:
    go(unfolded, "L4444")
    expect(unfolded.locator("#L4444")).to_be_in_viewport()
    rows = unfolded.locator(".log__body--virtual").evaluate(
        "list => Array.from(list.children).map(row => [+row.dataset.line, row.getBoundingClientRect().top, "
        "row.getBoundingClientRect().bottom])"
    )
    assert [row[0] for row in rows] == list(range(rows[0][0], rows[0][0] + len(rows)))
    assert all(abs(below[1] - above[2]) < 0.5 for above, below in zip(rows, rows[1:], strict=False))


def test_both_ends_are_reached(unfolded: Page) -> None:
    frame = unfolded.locator(".log__scroll")
    frame.focus()
    unfolded.keyboard.press("End")
    expect(unfolded.locator("#L6000 code")).to_contain_text("line 6000")
    # Rows are measured as they come into sight, and what is at the end stays there.
    unfolded.wait_for_function(
        """() => Math.abs(document.querySelector("#L6000").getBoundingClientRect().bottom
            - document.querySelector(".log__scroll").getBoundingClientRect().bottom) < 3""",
        timeout=10_000,
    )
    unfolded.keyboard.press("Home")
    expect(unfolded.locator("#L1 code")).to_contain_text("line 1")
    assert frame.evaluate("frame => frame.scrollTop") == 0
    over_the_lines(unfolded)
    go(unfolded, "L5900")
    expect(unfolded.locator("#L5900")).to_be_in_viewport()
    for _ in range(80):
        unfolded.mouse.wheel(0, 600)
    expect(unfolded.locator("#L6000")).to_be_in_viewport()
    go(unfolded, "L100")
    expect(unfolded.locator("#L100")).to_be_in_viewport()
    for _ in range(80):
        unfolded.mouse.wheel(0, -600)
    expect(unfolded.locator("#L1")).to_be_in_viewport()
    unfolded.wait_for_timeout(400)
    assert frame.evaluate("frame => frame.scrollTop") == 0


def test_a_short_log_of_long_lines_scrolls_to_its_end(visit: Visit) -> None:
    page = visit.open(stored(document("kimi-k25-8gpu"), ["x" * 1_900 for _ in range(30)]))
    page.locator("[data-log-fold]").click()
    page.locator(".log__scroll").evaluate("frame => frame.scrollIntoView({block: 'center'})")
    over_the_lines(page)
    for _ in range(40):
        page.mouse.wheel(0, 400)
    expect(page.locator("#L30")).to_be_in_viewport()


def test_a_chosen_text_survives_scrolling(unfolded: Page) -> None:
    go(unfolded, "L3000")
    expect(unfolded.locator("#L3001")).to_be_in_viewport()
    unfolded.wait_for_timeout(300)
    unfolded.evaluate("getSelection().selectAllChildren(document.querySelector('#L3001 code'))")
    over_the_lines(unfolded)
    scrolled(unfolded, 150)
    unfolded.wait_for_timeout(300)
    assert "line 3001" in unfolded.evaluate("getSelection().toString()")


@pytest.mark.parametrize("is_wrapped", [True, False])
def test_a_million_lines_are_one_scroll(visit: Visit, is_wrapped: bool) -> None:
    count = 1_000_000
    page = visit.open(stored(document("kimi-k25-8gpu"), [f"line {n} of many" for n in range(1, count + 1)]))
    page.locator("[data-log-fold]").click()
    if not is_wrapped:
        page.locator("[data-log-wrap]").click()
    expect(page.locator("#L1 code")).to_contain_text("line 1 of")
    for line in (777_777, 1_000_000, 12):
        go(page, f"L{line}")
        expect(page.locator(f"#L{line} code")).to_have_text(f"line {line} of many")
        expect(page.locator(f"#L{line}")).to_be_in_viewport()
    assert page.locator(".log__body li").count() < 200, "only what is seen is in the page"
