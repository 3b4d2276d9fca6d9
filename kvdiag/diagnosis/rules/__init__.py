"""Rules: one file each, named after the problem; found by themselves."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from kvdiag.diagnosis.rules.rule import RULES, Rule

_FORM = {
    "rule",
    "checking",
    "judgements",
    "thresholds",
    "catalogue",
    "clearing",
    "hints",
    "scores",
    "not_provable",
}  # modules here that are no rules


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, by id."""
    for module in pkgutil.iter_modules(__path__):
        if module.name not in _FORM and not module.name.startswith("_"):
            importlib.import_module(f"{__name__}.{module.name}")
    return tuple(sorted(RULES, key=lambda rule: rule.id))


def rule_named(rule_id: str) -> Rule | None:
    """The rule of that id."""
    return next((rule for rule in all_rules() if rule.id == rule_id), None)
