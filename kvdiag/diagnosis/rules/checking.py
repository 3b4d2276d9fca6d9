"""All rules on one case: findings in order, what passed, and what could not run."""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass, field

from kvdiag.diagnosis.rules import all_rules
from kvdiag.diagnosis.rules.rule import Case, Finding, Rule

log = logging.getLogger(__name__)


@dataclass
class Checked:
    """What the rules say of a case."""

    findings: list[Finding] = field(default_factory=list)
    passed: list[Rule] = field(default_factory=list)
    not_run: list[tuple[Rule, str]] = field(default_factory=list)


def check_all(case: Case) -> Checked:
    """Run every rule; one that raises is named as not run and logged, and the others go on."""
    checked = Checked()
    for rule in all_rules():
        missing = [kind.__name__ for kind in rule.needs if not case.launch.has(kind)]
        if missing:
            checked.not_run.append((rule, f"the log has no {', '.join(missing)}"))
            continue
        try:
            found = [
                dataclasses.replace(x, rule=rule.id, severity=x.severity or rule.severity) for x in rule.check(case)
            ]
        except Exception:
            log.exception("rule %s failed", rule.id)
            checked.not_run.append((rule, "it failed on this log; the failure is in kvdiag's own log"))
            continue
        if found:
            checked.findings.extend(found)
        else:
            checked.passed.append(rule)
    checked.findings.sort(key=lambda x: (x.severity.weight if x.severity else 9, -x.stake, x.rule))
    return checked
