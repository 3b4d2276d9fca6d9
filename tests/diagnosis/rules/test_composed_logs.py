"""A composed log for every rule that fires it, and for many one just short of its threshold that does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvdiag.diagnosis.rules import all_rules
from kvdiag.diagnosis.rules.catalogue import findings_of

LOGS = Path(__file__).parent / "logs"
SILENT = sorted(LOGS.glob("*.silent.log"))
OPPOSITE = {"raise": "lower", "lower": "raise"}


@pytest.mark.parametrize("rule", [rule.id for rule in all_rules()])
def test_every_rule_has_a_log_that_fires_it(rule: str) -> None:
    findings = findings_of((LOGS / f"{rule}.log").read_text(encoding="utf-8"))
    assert rule in {f["rule"] for f in findings}


@pytest.mark.parametrize("path", SILENT, ids=lambda p: p.name.removesuffix(".silent.log"))
def test_just_short_of_its_evidence_a_rule_is_silent(path: Path) -> None:
    findings = findings_of(path.read_text(encoding="utf-8"))
    assert path.name.removesuffix(".silent.log") not in {f["rule"] for f in findings}


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.log")), ids=lambda p: p.name.removesuffix(".log"))
def test_no_report_turns_a_flag_both_ways_in_one_launch(path: Path) -> None:
    import io

    from kvdiag.diagnosis import diagnose
    from kvdiag.diagnosis.texts import Log

    document = diagnose(Log(path.name, io.BytesIO(path.read_bytes()))).document
    for launch in document["launches"]:
        found = {(r["flag"], r["direction"]) for f in launch["findings"] for r in f["remedies"]}
        assert not [flag for flag, way in found if (flag, OPPOSITE.get(way)) in found]
        assert not [n for n in launch["not_run"] if "failed" in n["because"]]


def test_no_log_is_kept_for_a_rule_that_is_gone() -> None:
    known = {rule.id for rule in all_rules()}
    assert {path.name.removesuffix(".log").removesuffix(".silent") for path in LOGS.glob("*.log")} <= known


VARIANTS = sorted((Path(__file__).parent / "variants").glob("*.log"))


@pytest.mark.parametrize("path", VARIANTS, ids=lambda p: p.stem)
def test_a_cause_is_named_in_other_wordings_and_in_fragments(path: Path) -> None:
    named = {f["rule"] for f in findings_of(path.read_text(encoding="utf-8"))}
    assert path.name.split(".")[0] in named
    assert len(named) <= 4
