"""Logs whose cause a person has named: every rule is held to what their lines prove, and to what would be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvdiag.diagnosis.rules import all_rules
from kvdiag.diagnosis.rules.catalogue import LabelledCase, findings_of, read_cases

CASES = read_cases(Path(__file__).parents[2] / "cases")
OPPOSITE = {"raise": "lower", "lower": "raise"}
MOST_BESIDE = 3  # findings beyond the true ones that a report may carry


def offered(findings: list[dict]) -> set[tuple[str, str]]:
    return {(r["flag"].lstrip("-"), r["direction"]) for f in findings for r in f["remedies"]}


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.slug)
class TestCase:
    def test_what_the_lines_prove_is_named(self, case: LabelledCase) -> None:
        named = {f["rule"] for f in findings_of(case.text)}
        known = {rule.id for rule in all_rules()}
        assert case.expected & known <= named or case.is_healthy

    def test_remedies_that_follow_are_offered_and_not_contradicted(self, case: LabelledCase) -> None:
        found = offered(findings_of(case.text))
        wanted = {(flag.lstrip("-"), direction) for flag, direction in case.remedies}
        assert wanted <= found
        for flag, direction in wanted:
            against = (flag, OPPOSITE.get(direction, ""))
            assert against in wanted or against not in found

    def test_advice_that_would_be_wrong_is_not_given(self, case: LabelledCase) -> None:
        found = offered(findings_of(case.text))
        assert not found & {(flag.lstrip("-"), direction) for flag, direction in case.traps}

    def test_claims_that_would_be_wrong_are_not_made(self, case: LabelledCase) -> None:
        assert not {f["rule"] for f in findings_of(case.text)} & case.trap_findings

    def test_little_is_named_beside_the_cause(self, case: LabelledCase) -> None:
        beside = {f["rule"] for f in findings_of(case.text)} - case.expected - case.possible
        assert len(beside) <= MOST_BESIDE

    def test_a_healthy_log_gets_no_warning(self, case: LabelledCase) -> None:
        loud = [f["rule"] for f in findings_of(case.text) if f["severity"] in ("critical", "warning")]
        assert not loud or not case.is_healthy

    def test_no_flag_is_turned_both_ways(self, case: LabelledCase) -> None:
        found = offered(findings_of(case.text))
        assert not [flag for flag, direction in found if direction == "raise" and (flag, "lower") in found]
