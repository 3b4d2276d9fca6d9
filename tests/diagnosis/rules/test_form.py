"""Every rule has the form that pages and readers rely on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvdiag.diagnosis.rules import all_rules, clearing, rule_named
from kvdiag.diagnosis.rules.catalogue import findings_of, pages, read_cases, read_corpus, score, scores_document
from kvdiag.diagnosis.rules.not_provable import NOT_PROVABLE
from kvdiag.diagnosis.rules.rule import SECTIONS, Rule, release_bounds
from kvdiag.diagnosis.rules.scores import scores

ROOT = Path(__file__).parents[3]
LOGS = Path(__file__).parent / "logs"
RULES = all_rules()


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.id)
class TestRule:
    def test_it_has_its_four_sections(self, rule: Rule) -> None:
        assert list(rule.sections) == list(SECTIONS)
        assert all(text.strip() for text in rule.sections.values())

    def test_it_is_named_as_its_file(self, rule: Rule) -> None:
        assert (ROOT / "kvdiag/diagnosis/rules" / f"{rule.id.replace('-', '_')}.py").exists()
        assert rule_named(rule.id) is rule

    def test_its_releases_can_be_compared(self, rule: Rule) -> None:
        if rule.releases is not None:
            since, before = release_bounds(rule.releases)
            assert re.fullmatch(r"\d+\.\d+\.\d+", since)
            assert before is None or re.fullmatch(r"\d+\.\d+\.\d+", before)

    def test_its_remedies_say_what_they_cost_in_one_sentence(self, rule: Rule) -> None:
        for finding in findings_of((LOGS / f"{rule.id}.log").read_text(encoding="utf-8")):
            for remedy in finding["remedies"]:
                assert remedy["cost"].startswith("It costs "), remedy
                assert remedy["cost"].endswith("."), remedy
                assert remedy["direction"] in ("raise", "lower", "set", "remove")

    def test_its_finding_cites_lines(self, rule: Rule) -> None:
        found = [f for f in findings_of((LOGS / f"{rule.id}.log").read_text(encoding="utf-8")) if f["rule"] == rule.id]
        assert all(f["evidence"] and f["summary"] and not f["summary"].endswith(".") for f in found)


def test_no_rule_names_what_no_log_proves() -> None:
    assert not set(NOT_PROVABLE) & {rule.id for rule in RULES}


def test_what_is_told_of_a_silent_rule_is_told_of_a_rule() -> None:
    assert {*clearing._COMPARED, *clearing._FIGURES, *clearing._OF_THE_START} <= {rule.id for rule in RULES}


def test_rules_do_not_see_each_other() -> None:
    names = {rule.id.replace("-", "_") for rule in RULES}
    for name in names:
        text = (ROOT / "kvdiag/diagnosis/rules" / f"{name}.py").read_text(encoding="utf-8")
        seen = set(re.findall(r"diagnosis\.rules\.(\w+) import", text))
        assert not seen & names, f"{name} imports {seen & names}"


def test_the_written_pages_are_those_of_the_rules() -> None:
    counted = score(read_cases(ROOT / "tests/cases"), read_corpus(ROOT / "tests/corpus"))
    written = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs/rules").glob("*.md")}
    told = "is out of step: run python -m kvdiag.diagnosis.rules.catalogue"
    assert written == pages(counted), f"docs/rules {told}"
    kept = ROOT / "kvdiag/diagnosis/rules/scores.json"
    assert kept.read_text(encoding="utf-8") == scores_document(counted), f"scores.json {told}"


def test_rules_are_right_on_the_labelled_logs() -> None:
    counted = scores()
    recall, precision = (
        [tuple(map(int, told.split(" of "))) for told in side if told]
        for side in ((x.recall for x in counted.values()), (x.precision for x in counted.values()))
    )
    assert sum(found for found, _ in recall) >= 0.99 * sum(proven for _, proven in recall)
    assert sum(right for right, _ in precision) >= 0.95 * sum(named for _, named in precision)
