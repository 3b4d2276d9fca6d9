"""Searching a stored log: counts, filters, and patterns that would hang a backtracking engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from reports import log_search
from reports.log_search import BadPattern, search

LINES = [
    "[2026-11-29 09:14:42 TP0] Load weight begin. avail mem=94.04 GB",
    "[2026-11-29 09:14:42 TP10] Load weight begin. avail mem=94.03 GB",
    "a line with neither clock nor rank",
    "[2026-11-29 09:15:01 TP1] WARNING: slow disk",
    "[2026-11-29 09:15:02 TP1] RuntimeError: Not enough memory",
    "[2026-11-29 09:15:02 DP1 TP1] done",
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.write_text("\n".join(LINES) + "\n", "utf-8")
    return path


def test_text_is_found_in_any_case(log: Path) -> None:
    assert search(log, text="AVAIL MEM=").lines == (1, 2)


def test_letters_that_mean_something_in_patterns_are_only_letters(log: Path) -> None:
    assert search(log, text="[2026-11-29 09:14").lines == (1, 2)
    assert search(log, text=".*").lines == ()


def test_a_pattern_stands_between_slashes(log: Path) -> None:
    assert search(log, text=r"/mem=94\.0[0-3]/").lines == (2,)


def test_a_rank_is_the_whole_word_of_the_prefix(log: Path) -> None:
    assert search(log, rank="TP1").lines == (4, 5, 6)
    assert search(log, rank="DP1 TP1").lines == (6,)
    assert search(log, rank="TP0").lines == (1,)


def test_warnings_include_errors(log: Path) -> None:
    assert search(log, level="error").lines == (5,)
    assert search(log, level="warning").lines == (4, 5)


def test_criteria_narrow_each_other(log: Path) -> None:
    assert search(log, text="memory", rank="TP1", first=2).lines == (5,)
    assert search(log, text="avail", first=2, last=5).lines == (2,)


def test_lines_keep_their_numbers_across_blocks(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_search, "BLOCK", 100)
    assert search(log, text="o", level="warning").lines == (4, 5)
    assert search(log, text="/done/").lines == (6,)


def test_letters_beyond_ascii_are_found(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("eins\nschöne Grüße\n", "utf-8")
    assert search(path, text="schöne").lines == (2,)


def test_plain_text_and_filters_work_without_hyperscan(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_search, "hyperscan", None)
    assert search(log, text="AVAIL MEM=").lines == (1, 2)
    assert search(log, rank="TP1", level="error").lines == (5,)
    with pytest.raises(BadPattern, match="plain text only"):
        search(log, text="/a/")


def test_too_many_lines_are_cut_and_said_to_be(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_search, "MOST_LINES", 2)
    found = search(log, text="a")
    assert (found.lines, found.cut) == ((1, 2), True)


@pytest.mark.parametrize("pattern", ["/(/", "/(?=x)/", "/\\1(a)/"])
def test_a_pattern_that_cannot_run_is_refused_in_words(log: Path, pattern: str) -> None:
    with pytest.raises(BadPattern, match="cannot be searched"):
        search(log, text=pattern)


def test_a_pattern_that_would_backtrack_for_ever_ends(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("a" * 60_000 + "\n", "utf-8")
    assert search(path, text="/(a+)+b/").lines == ()


def test_a_search_is_of_a_sensible_length(log: Path) -> None:
    with pytest.raises(BadPattern, match="at most"):
        search(log, text="x" * 500)


def test_a_pattern_that_takes_long_to_compile_is_given_up(log: Path) -> None:
    """Its compiler has two seconds of the processor: without that bound the search would go on for half a minute."""
    pattern = r"/[^a](\w+((\s|\w*.{69,138}.[^a]){1,158}([^a]{2,4}\w*|.*)*(a*.+\bd))*b*b+)/"
    with pytest.raises(BadPattern, match="too much work"):
        search(log, text=pattern)


def test_a_pattern_is_compiled_apart_from_the_site(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_search, "COMPILER", "reports.no_compiler")
    with pytest.raises(BadPattern):
        search(log, text="/a+/")
    assert search(log, text="avail").lines == (1, 2)
