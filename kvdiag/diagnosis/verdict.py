"""The verdict: one sentence per launch, with direction and size."""

from __future__ import annotations

from kvdiag.diagnosis.rules.checking import Checked
from kvdiag.diagnosis.rules.rule import Case, Severity
from kvdiag.diagnosis.units import format_gib, format_tokens


def verdict(case: Case, checked: Checked) -> str:
    """Plain words for every outcome."""
    head = _state(case)
    loud = [f for f in checked.findings if f.severity in (Severity.CRITICAL, Severity.WARNING)]
    advice = [f for f in checked.findings if f.severity is Severity.ADVICE]
    if loud:
        return f"{head} {loud[0].summary}."
    if case.is_ready and not advice:
        return f"{head} Nothing to fix."
    if advice:
        return f"{head} {advice[0].summary}."
    return head


def _state(case: Case) -> str:
    free = case.free_at_end
    parts = []
    if case.tokens is not None:
        each = f" on each of {len(case.ledgers)} GPUs" if len(case.ledgers) > 1 else ""
        parts.append(f"{format_tokens(case.tokens)} KV tokens{each}")
    if free is not None:
        parts.append(f"{format_gib(free.available)} free")
    facts = ", ".join(parts)
    match case.outcome.outcome:
        case "ready":
            return f"Ready: {facts}." if facts else "Ready."
        case "failed":
            failure = case.outcome.failure
            where = f" at the stage {failure.stage.value.replace('_', ' ')}" if failure and failure.stage else ""
            return f"Failed{where}."
    return f"The log ends before the server is ready{': ' + facts if facts else ''}."
