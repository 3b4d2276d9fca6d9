"""Findings as their cards show them: evidence, change, expected effect, cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kvdiag.diagnosis.text import context_of, request_length
from kvdiag.diagnosis.units import one_sided, times_or_percent
from reports import words
from reports.budget import spell_ranks
from reports.commands import DiffLine, command_diff, command_to_copy
from reports.configuration import spelled
from reports.document import Launch, LineRef, dig, line_refs, listed
from reports.log_pieces import EvidenceLine, pieces_of

# Findings below these start folded, whatever their number.
_ALWAYS_OPEN = ("critical", "warning")


EFFECT_NAMES = {
    "kv_tokens": "KV tokens",
    "total_tokens": "KV tokens, all GPUs",
    "kv_gib": "KV cache",
    "free_gib": "Free when ready",
    "free_at_overflow_gib": "Free when it overflowed",
    "batch_gib": "Asked for by the batch",
    "draft_kv_gib": "Draft KV cache",
    "weights_gib": "Weights",
    "cuda_graphs_gib": "CUDA graphs",
    "host_gib": "Host memory",
    "requests": "Requests at once",
    "running_requests": "Requests at once",
}


@dataclass(frozen=True, slots=True)
class Effect:
    """One row of a remedy's expected effect, already in words."""

    name: str
    before: str
    after: str
    span: str


@dataclass(frozen=True, slots=True)
class ShownRemedy:
    """A change with its command, what it is expected to do and what it costs. `note` says what else to know.

    copied    what its button copies; "" for none
    as_under  the rule whose finding offers the same and shows it; "" where this one does
    """

    title: str
    diff: tuple[DiffLine, ...]
    copied: str
    effects: tuple[Effect, ...]
    cost: str
    note: str = ""
    as_under: str = ""


@dataclass(frozen=True, slots=True)
class ShownFinding:
    """One finding as its card shows it. `anchor` never changes for a rule within a launch."""

    rule: str
    anchor: str
    severity: str
    confidence: str
    summary: str
    why: str
    formula: str
    ranks: str
    evidence: tuple[EvidenceLine, ...]
    more_evidence: int
    remedies: tuple[ShownRemedy, ...]
    open: bool


def shown_findings(launch: Launch) -> list[ShownFinding]:
    """A launch's findings in the document's order within each severity, each with an anchor of its own."""
    context, arguments = context_of(launch), dig(launch, "arguments") or {}
    shown: list[ShownFinding] = []
    for anchor, rule, finding in anchored(launch):
        severity = finding.get("severity") if finding.get("severity") in words.SEVERITIES else "info"
        shown.append(
            _shown(finding, rule, anchor, str(severity), first=not shown, context=context, arguments=arguments)
        )
    return shown


def anchored(launch: Launch) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """A launch's findings as they are shown, each with its anchor and its rule."""
    found = [finding for finding in listed(launch, "findings") if isinstance(finding, dict)]
    found.sort(key=lambda finding: _rank(str(finding.get("severity"))))
    seen: Counter[str] = Counter()
    for finding in found:
        rule = str(finding.get("rule") or "finding")
        seen[rule] += 1
        yield anchor_of(rule, seen[rule]), rule, finding


def anchor_of(rule: str, number: int) -> str:
    """The anchor of a launch's first, second, … finding of a rule."""
    return f"finding-{rule}" if number == 1 else f"finding-{rule}-{number}"


def _rank(severity: str) -> int:
    return words.SEVERITIES.index(severity) if severity in words.SEVERITIES else len(words.SEVERITIES)


def _shown(
    finding: dict[str, Any],
    rule: str,
    anchor: str,
    severity: str,
    *,
    first: bool,
    context: int | None,
    arguments: dict[str, Any],
) -> ShownFinding:
    lines: dict[Any, tuple[str, list[Any]]] = {}
    for piece in listed(finding, "evidence"):
        refs = line_refs(piece.get("line"))
        key = refs[0] if refs else piece.get("text")
        lines.setdefault(key, (str(piece.get("text") or ""), []))[1].append(piece.get("value"))
    evidence = [
        EvidenceLine(key if isinstance(key, LineRef) else None, pieces_of(text, *figures))
        for key, (text, figures) in lines.items()
    ]
    return ShownFinding(
        rule=rule,
        anchor=anchor,
        severity=severity,
        confidence=str(finding.get("confidence") or ""),
        summary=str(finding.get("summary") or rule),
        why=str(finding.get("why") or ""),
        formula=str(finding.get("formula") or ""),
        ranks=spell_ranks([str(rank) for rank in listed(finding, "ranks")]) if any(listed(finding, "ranks")) else "",
        evidence=tuple(evidence[:4]),
        more_evidence=max(0, len(evidence) - 4),
        remedies=tuple(_remedy(remedy, context, arguments) for remedy in listed(finding, "remedies")),
        open=first or severity in _ALWAYS_OPEN,
    )


def _remedy(remedy: dict[str, Any], context: int | None, arguments: dict[str, Any]) -> ShownRemedy:
    """A remedy's words; `context` is the length of request that its counts of requests are of."""
    verb = {"raise": "Raise", "lower": "Lower", "set": "Set", "remove": "Remove"}.get(str(remedy.get("direction")), "")
    flag = str(remedy.get("flag") or "")
    to = remedy.get("to")
    if not flag.startswith("--") and flag.islower():
        verb, flag = ("", flag.capitalize()) if verb in ("Set", "") else (verb, flag)  # "Upgrade to …"
    title = " ".join(part for part in (verb, flag, f"to {to}" if to not in (None, "") else "") if part)
    if as_under := str(remedy.get("as_under") or ""):
        return ShownRemedy(title, (), "", (), "", as_under=as_under)
    length = request_length(remedy, context)
    of = f" of {words.tokens(length)} tokens" if length else ""
    effects = tuple(
        effect
        for name, change in (dig(remedy, "effect") or {}).items()
        if isinstance(change, dict)
        for effect in [_effect(str(name), change, of=of if name == "requests" else "")]
        if effect
    )
    words_of = (str(remedy.get("cost") or ""), str(remedy.get("note") or ""))
    copied = command_to_copy([remedy], arguments)
    return ShownRemedy(title, tuple(command_diff(remedy)), copied, effects, *words_of)


def _effect(name: str, change: dict[str, Any], *, of: str = "") -> Effect | None:
    before, after, low, high = (change.get(key) for key in ("from", "to", "low", "high"))
    if after is None and before is None:
        return None
    is_gib = name.endswith("_gib")
    spell = words.gib if is_gib else words.tokens if isinstance(after or before, int) else spelled
    unit = " GiB" if is_gib else ""
    word, to = one_sided(low, high) or ("≈", after)
    guess = words.about(to) if name.endswith("tokens") and isinstance(to, int) else spell(to)
    span = []
    if isinstance(before, (int, float)) and isinstance(after, (int, float)) and before > 0:
        moved = words.signed_gib(after - before) if is_gib else times_or_percent(before, after)
        span += [moved.replace(" ", "\u00a0")] if moved else []
    if low is not None and high is not None and spell(low) != spell(high):
        span.append(f"{spell(low)} to {spell(high)}")
    return Effect(
        f"Requests{of}" if of else EFFECT_NAMES.get(name, name.replace("_gib", "").replace("_", " ").capitalize()),
        spell(before) if before is not None else "none",
        f"{word} {guess}{unit}" if after is not None else "none",
        ", ".join(span),
    )
