"""What the log viewer shows first: the lines a report rests on, and the gaps between them."""

from __future__ import annotations

from reports.document import LineRef
from reports.log_excerpt import excerpt, marks_of, viewer_data
from tests.documents import document, with_ranks


def fetched(refs: list[LineRef]) -> dict[LineRef, str]:
    return {ref: f"line {ref.line}" for ref in refs}


def test_lines_and_gaps_cover_the_log_without_overlap() -> None:
    at = 1
    for item in excerpt(document("kimi-k25-8gpu"), fetched):
        if item.kind == "line":
            assert item.ref.line == at
            at += 1
        else:
            assert item.first == at
            at = item.last + 1
    assert at == 403


def test_a_finding_s_line_is_marked_with_its_severity() -> None:
    marks = marks_of(document("llama-refused"))
    assert marks[LineRef(0, 246)] == "critical"
    assert marks[LineRef(0, 198)] == "warning"


def test_a_line_of_two_findings_keeps_the_graver_mark() -> None:
    made = document("kimi-k25-8gpu")
    first, second = made["launches"][0]["findings"][:2]
    second["evidence"] = first["evidence"]
    second["severity"] = "critical"
    assert marks_of(made)[LineRef(0, 239)] == "critical"


def test_without_the_log_only_lines_the_report_carries_are_shown() -> None:
    lines = [item.ref.line for item in excerpt(document("kimi-k25-8gpu")) if item.kind == "line"]
    assert lines == [160, 239, 247, 327, 333]


def test_one_rank_stands_for_all_that_say_the_same() -> None:
    lines = [item.ref.line for item in excerpt(document("kimi-k25-8gpu"), fetched) if item.kind == "line"]
    assert 231 in lines and 232 not in lines
    assert marks_of(document("kimi-k25-8gpu"))[LineRef(0, 232)] == "fact"


def test_a_cut_by_our_limit_is_told_apart_from_a_gap() -> None:
    made = document("kimi-k25-8gpu")
    made["upload"]["files"][0]["gap"] = {"first_line": 60, "last_line": 90, "bytes": 4096}
    kinds = [item.kind for item in excerpt(made, fetched) if item.kind != "line"]
    assert kinds.count("cut") == 1


def test_several_files_name_theirs_in_the_anchor() -> None:
    made = document("llama-refused")
    made["upload"]["files"].append(dict(made["upload"]["files"][0], name="second.log"))
    evidence = made["launches"][0]["findings"][0]["evidence"]
    evidence[0]["line"] = {"file": 1, "line": 7}
    anchors = [item.ref.anchor for item in excerpt(made) if item.kind == "line"]
    assert "F2L7" in anchors


def test_hundreds_of_ranks_do_not_flood_the_viewer() -> None:
    made = with_ranks(512)
    assert len(viewer_data(made)["marks"]) < 1000
    assert len(excerpt(made, fetched)) < 400
