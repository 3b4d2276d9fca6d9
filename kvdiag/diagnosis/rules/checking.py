"""All rules on one case: findings in order, what passed and why, what does not apply, and what could not run."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

from kvdiag.diagnosis.defaults import comes_later
from kvdiag.diagnosis.rules import all_rules
from kvdiag.diagnosis.rules._pricing import FRACTION
from kvdiag.diagnosis.rules._promises import completed
from kvdiag.diagnosis.rules.clearing import cleared_suspects, figures_of, unseen
from kvdiag.diagnosis.rules.rule import Case, Cleared, Direction, Finding, Remedy, Rule, Severity

HEALTHY = "no-fault"
NEEDS_AT_LEAST = ("pool-below-one-request", "weights-exceed-static-budget", "negative-token-budget")
"""Rules that raise the fraction to the least value that serves; the others raise it as far as it may go."""
NOTHING_SEEN = "the log shows nothing of the kind"


@dataclass(frozen=True, slots=True)
class Passed:
    """A rule that looked and found nothing, with the figures it looked at."""

    rule: Rule
    because: str

    @property
    def id(self) -> str:
        """The rule's id."""
        return self.rule.id

    @property
    def title(self) -> str:
        """The rule's title."""
        return self.rule.title


@dataclass
class Checked:
    """What the rules say of a case.

    passed          looked, and found nothing
    not_applicable  the launch has nothing that the rule is about
    not_run         the log lacks what the rule needs, or the rule failed
    cleared         suspects an operator is likely to have, and why each is innocent
    """

    findings: list[Finding] = field(default_factory=list)
    passed: list[Passed] = field(default_factory=list)
    not_applicable: list[tuple[Rule, str]] = field(default_factory=list)
    not_run: list[tuple[Rule, str]] = field(default_factory=list)
    cleared: list[Cleared] = field(default_factory=list)


def _log(rule: str) -> None:
    import logging  # costs every other diagnosis its loading

    logging.getLogger(__name__).exception("rule %s failed", rule)


def check_all(case: Case, on_failure: Callable[[str], None] | None = None) -> Checked:
    """Run every rule; one that raises is named as not run, and the others go on.

    on_failure  called within the exception with the rule's id; else the failure is logged with its trace
    """
    checked = Checked()
    for rule in all_rules():
        idle = rule.idle_because(case)
        if idle is not None:
            checked.not_applicable.append((rule, idle))
            continue
        missing = [kind for kind in rule.needs if not case.launch.has(kind)]
        if missing:
            checked.not_run.append((rule, f"the log has no {', '.join(line_names(missing))}"))
            continue
        try:
            found = [_completed(x, rule, case) for x in rule.check(case)]
        except Exception:
            (on_failure or _log)(rule.id)
            checked.not_run.append((rule, "it failed on this log; the failure is in kvdiag's own log"))
            continue
        if found:
            checked.findings.extend(found)
        elif (missing_figures := unseen(rule.id, case)) is not None:
            checked.not_run.append((rule, missing_figures))
        else:
            checked.passed.append(Passed(rule, figures_of(rule.id, case) or NOTHING_SEEN))
    named = {x.rule for x in checked.findings}
    checked.findings = [
        dataclasses.replace(x, part_of="") if x.part_of and x.part_of not in named else x for x in checked.findings
    ]
    if any(x.severity in (Severity.CRITICAL, Severity.WARNING) for x in checked.findings):
        checked.findings = [x for x in checked.findings if x.rule != HEALTHY]  # its figures alone are healthy
    checked.findings.sort(key=_order)
    checked.findings = with_one_fraction(checked.findings)
    checked.cleared = cleared_suspects(case, checked.findings)
    return checked


def with_one_fraction(findings: list[Finding]) -> list[Finding]:
    """The findings with one value for --mem-fraction-static, where several would lower it, or raise it, to their own.

    The lowest of those that lower it serves all. Of those that raise it the first does, where it is not less than
    what another needs at the least; else the highest.
    """
    offers = [(x, r) for x in findings for r in x.remedies if r.flag == FRACTION and r.to is not None]
    grave = [(x, r) for x, r in offers if x.severity in (Severity.CRITICAL, Severity.WARNING)] or offers
    down = min((r for _, r in grave if r.direction is Direction.LOWER), key=_fraction_of, default=None)
    raising = [(x, r) for x, r in grave if r.direction is not Direction.LOWER]
    up = next((r for _, r in raising), None)
    least = max((_fraction_of(r) for x, r in raising if x.rule in NEEDS_AT_LEAST), default=0.0)
    if up is not None and _fraction_of(up) < least:
        up = max((r for _, r in raising), key=_fraction_of)

    def agreed(remedy: Remedy) -> Remedy:
        one = down if remedy.direction is Direction.LOWER else up
        if remedy.flag != FRACTION or remedy.to is None or one is None or one.to == remedy.to:
            return remedy
        return dataclasses.replace(one, direction=remedy.direction)

    return [dataclasses.replace(x, remedies=tuple(agreed(r) for r in x.remedies)) for x in findings]


def _fraction_of(remedy: Remedy) -> float:
    return float(remedy.to or 0)


def _completed(finding: Finding, rule: Rule, case: Case) -> Finding:
    """A finding with its rule's name and severity; each line is cited once, no flag is offered that came later or that
    the launch has already, and each remedy says what it promises."""
    first = {(e.line.file, e.line.number): e for e in reversed(finding.evidence)}
    kept = tuple(e for e in finding.evidence if first[e.line.file, e.line.number] is e)
    known = (x for x in finding.remedies if not comes_later(_name(x), case.launch.releases) and not _holds(case, x))
    offers = tuple(offer for x in known if (offer := completed(case, x)) is not None)
    severity = finding.severity or rule.severity
    ranks = tuple(rank for rank in finding.ranks if rank) or finding.ranks
    return dataclasses.replace(finding, rule=rule.id, severity=severity, ranks=ranks, evidence=kept, remedies=offers)


def _name(remedy: Remedy) -> str:
    return remedy.flag.lstrip("-").replace("-", "_")


def _holds(case: Case, remedy: Remedy) -> bool:
    """Whether a launch has already what a remedy would set."""
    if remedy.direction is not Direction.SET:
        return False
    now = case.launch.value(_name(remedy))
    return now is True if remedy.to is None else now is not None and str(now) == remedy.to


def _order(finding: Finding) -> tuple[int, int, float, str]:
    """The worst first, a cause before its symptoms, then by what is at stake."""
    weight = finding.severity.weight if finding.severity else 9
    return weight, bool(finding.part_of), -finding.stake, finding.rule


_LINES = {
    "WeightsLoaded": '"Load weight end"',
    "KVPoolAllocated": '"KV Cache is allocated"',
    "PoolEnd": '"Memory pool end"',
    "GraphEnd": "end of a graph capture",
}


def line_names(kinds: list[type]) -> list[str]:
    """Events as a reader of the log knows them."""
    return [f"{_LINES.get(kind.__name__, kind.__name__)} line" for kind in kinds]


__all__ = ["Checked", "Cleared", "Passed", "check_all"]
