"""Thresholds held otherwise: read, refused with a sentence, carried by a diagnosis and named in its report."""

from __future__ import annotations

import dataclasses
import io
import re
from pathlib import Path
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.cli import UNREADABLE, main
from kvdiag.diagnosis.ledger.what_if import Change, scenario
from kvdiag.diagnosis.markdown import to_markdown
from kvdiag.diagnosis.rules.thresholds import DEFAULT_THRESHOLDS, Thresholds
from kvdiag.diagnosis.texts import Log
from kvdiag.diagnosis.units import from_gib

KIMI = Path(__file__).parents[2] / "corpus" / "kimi-k25-8gpu" / "log.txt"


def document(**thresholds: object) -> dict[str, Any]:
    held = Thresholds.read(thresholds) if thresholds else None
    return diagnose(Log("log", io.BytesIO(KIMI.read_bytes())), thresholds=held).document


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"free_wanted": 8}, "free_wanted", from_gib(8)),
        ({"free_wanted": "8 GiB"}, "free_wanted", from_gib(8)),
        ({"memory_is_short": "512 MiB"}, "memory_is_short", from_gib(0.5)),
        ({"weights_near_limit": "90 %"}, "weights_near_limit", 0.9),
        ({"pool_tiny_tokens": "16,384"}, "pool_tiny_tokens", 16_384),
    ],
)
def test_a_threshold_is_read_from_a_number_or_from_text(given: dict[str, object], name: str, value: float) -> None:
    assert getattr(Thresholds.read(given), name) == value


def test_what_is_not_given_stays_as_it_is() -> None:
    assert Thresholds.read({}) == DEFAULT_THRESHOLDS
    assert Thresholds.read({"retractions": 3}) == dataclasses.replace(DEFAULT_THRESHOLDS, retractions=3)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"free_wantd": 3}, "no threshold is called 'free_wantd': did you mean free_wanted"),
        ({"colour": 3}, "no threshold is called 'colour'; docs/rules/thresholds.md lists them"),
        ({"free_wanted": "lots"}, "free_wanted is a size in GiB, not 'lots'"),
        ({"free_wanted": "5 %"}, "free_wanted is a size in GiB, not '5 %'"),
        ({"thin_share": "1 GiB"}, "thin_share is a share from 0 to 1, not '1 GiB'"),
        ({"retractions": 2.5}, "retractions is a whole number of retractions, not '2.5'"),
        ({"retractions": True}, "retractions is a whole number of retractions, not 'True'"),
        ({"free_wanted": float("nan")}, "free_wanted is a size in GiB, not 'nan'"),
        ({"free_wanted": 5000}, "free_wanted lies between 0.1 and 64 GiB, not at 5000"),
        ({"thin_share": -0.1}, "thin_share lies between 0 and 1, not at -0.1"),
        ({"free_wanted": 1}, "free_wanted_least (1.5 GiB) is more than free_wanted (1 GiB)"),
        ({"context_least": 4, "context_most": 2}, "context_least (4 GiB) is more than context_most (2 GiB)"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_sentence(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(sentence)):
        Thresholds.read(given)


def test_every_threshold_has_a_meaning_and_a_default_within_its_ends() -> None:
    for one in DEFAULT_THRESHOLDS.each():
        assert one.meaning
        assert one.least <= one.default <= one.most, one.name
        assert Thresholds.read({one.name: one.default}) == DEFAULT_THRESHOLDS, one.name


def test_every_threshold_is_asked_for_by_some_rule() -> None:
    engine = Path(__file__).parents[3] / "kvdiag" / "diagnosis"
    text = "\n".join(p.read_text() for p in engine.rglob("*.py") if p.name != "thresholds.py")
    through_wanted = {"free_wanted", "free_wanted_card", "free_wanted_least"}
    unused = [x.name for x in DEFAULT_THRESHOLDS.each() if f".{x.name}" not in text and x.name not in through_wanted]
    assert not unused


def test_a_diagnosis_holds_to_them_and_its_report_names_them() -> None:
    ours = document(free_wanted=20)
    assert ours["thresholds"] == [
        {
            "name": "free_wanted",
            "value": 20,
            "default": 5,
            "unit": "GiB",
            "meaning": "free memory wanted at the end on a card of `free_wanted_card` and more",
        }
    ]
    found = {f["rule"] for f in ours["launches"][0]["findings"]}
    plain = document()
    assert "thin-slack-after-capture" in found
    assert "thin-slack-after-capture" not in {f["rule"] for f in plain["launches"][0]["findings"]}
    assert "thresholds" not in plain
    assert "free_wanted 20 GiB instead of 5" in to_markdown(ours)


def test_sizing_and_what_if_want_as_much_free_as_the_rules() -> None:
    (launch,) = document(free_wanted=7)["launches"]
    assert launch["kv_cache"]["wanted_free_gib"] == 7
    again = scenario(launch, Change(mem_fraction_static=0.9))
    assert again.wanted_free_gib == 7
    assert launch["kv_cache"]["fractions"]["keeps_wanted_free"] == again.keeps_wanted
    (plain,) = document()["launches"]
    assert plain["kv_cache"]["fractions"]["keeps_wanted_free"] > again.keeps_wanted


def test_the_command_line_takes_them_singly_and_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours = tmp_path / "ours.toml"
    ours.write_text('free_wanted = 20\nmemory_is_short = "512 MiB"\n')
    assert main(["diagnose", "--thresholds", str(ours), "--threshold", "free_wanted=7", str(KIMI)]) == 0
    told = capsys.readouterr().out
    assert "free_wanted 7 GiB instead of 5; memory_is_short 0.5 GiB instead of 1" in told
    assert main(["diagnose", "--thresholds", str(ours), str(KIMI)]) == 1
    assert main(["thresholds", "--thresholds", str(ours)]) == 0
    assert "20 GiB (kvdiag's own: 5 GiB)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--threshold", "free_wanted"], "--threshold takes NAME=VALUE, not 'free_wanted'"),
        (["--threshold", "free=3"], "no threshold is called 'free'"),
        (["--thresholds", "nowhere.toml"], "nowhere.toml: No such file or directory"),
    ],
)
def test_the_command_line_refuses_before_it_reads(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", *arguments, str(KIMI)]) == UNREADABLE
    shown = capsys.readouterr()
    assert sentence in shown.err
    assert not shown.out
