"""Databases kept in the user's cache: taken when they are ours and whole, made anew in every other case."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from kvdiag.diagnosis.databases import database

hyperscan = pytest.importorskip("hyperscan")

WORDS = [b"Load weight begin", b"Memory pool end"]
TEXT = b"a Load weight begin b Memory pool end c"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "kvdiag"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One number for each time that something is compiled."""
    made: list[int] = []

    class Counted(hyperscan.Database):  # type: ignore[misc]
        def compile(self, *given: Any, **named: Any) -> Any:
            made.append(1)
            return super().compile(*given, **named)

    monkeypatch.setattr(hyperscan, "Database", Counted)
    return made


def make(words: list[bytes] = WORDS) -> Any:
    return database(words, range(len(words)), [0] * len(words), literal=True)


def hits(made: Any) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    made.scan(TEXT, match_event_handler=lambda number, start, end, flags, context: found.append((number, end)))
    return found


def only_file(cache: Path) -> Path:
    (file,) = cache.iterdir()
    return file


def test_the_second_start_compiles_nothing_and_finds_the_same(cache: Path, compiled: list[int]) -> None:
    first = hits(make())
    assert first == [(0, 19), (1, 37)]
    assert hits(make()) == first
    assert len(compiled) == 1


def test_other_words_flags_or_another_vectorscan_are_another_database(
    compiled: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    make()
    assert hits(make([b"pool end"])) == [(0, 37)]
    database(WORDS, [0, 1], [hyperscan.HS_FLAG_CASELESS] * 2)
    monkeypatch.setattr(hyperscan, "__version__", "99")
    make()
    assert len(compiled) == 4


def test_only_the_user_may_read_what_is_kept(cache: Path) -> None:
    make()
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert stat.S_IMODE(only_file(cache).stat().st_mode) == 0o600


@pytest.mark.parametrize("damage", ["emptied", "cut", "changed", "another's text", "noise"])
def test_a_damaged_file_is_made_anew(cache: Path, compiled: list[int], damage: str) -> None:
    wanted = hits(make())
    file = only_file(cache)
    whole = file.read_bytes()
    middle = len(whole) - 200
    file.write_bytes(
        {
            "emptied": b"",
            "cut": whole[:-50],
            "changed": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :],
            "another's text": whole.replace(b"Load weight begin", b"Load weight ended", 1),
            "noise": os.urandom(4096),
        }[damage]
    )
    assert hits(make()) == wanted
    assert len(compiled) == 2
    assert file.read_bytes() == whole


def test_what_another_could_have_written_is_not_taken(cache: Path, compiled: list[int], tmp_path: Path) -> None:
    make()
    file = only_file(cache)
    file.chmod(0o666)
    make()
    assert len(compiled) == 2
    elsewhere = tmp_path / "elsewhere"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    make()
    assert len(compiled) == 3
    file.unlink()
    os.mkfifo(file)  # must not block
    make()
    assert len(compiled) == 4


def test_nothing_is_written_into_a_folder_that_others_can_write_to(cache: Path) -> None:
    cache.mkdir()
    cache.chmod(0o777)
    make()
    assert list(cache.iterdir()) == []


def test_nothing_is_written_through_a_link(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    cache.symlink_to(tmp_path / "elsewhere")
    make()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_place_that_cannot_be_written_to_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert hits(make()) == [(0, 19), (1, 37)]


def test_a_user_without_a_home_is_no_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "absent" / "\udcff"))
    assert hits(make()) == [(0, 19), (1, 37)]


def test_databases_of_earlier_releases_are_forgotten_in_time(cache: Path) -> None:
    for number in range(12):
        make([b"word %d" % number])
    assert len(list(cache.iterdir())) == 8
