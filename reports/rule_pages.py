"""The rule catalogue: every rule of the engine with its sections, as pages."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from reports import words

_SERVING = (
    *("retract", "exhausted", "transient", "pd-", "slot-leak", "dispatch-limit", "image-preprocess"),
    *("longer-than-pool", "single-request", "update-weights", "colocate", "workload"),
)

# The part of a start a rule watches; the page's filter. By the words of its id, since a rule names its problem.
_GROUPS = (
    ("host", "Host", ("host", "hicache", "offload", "dev-shm", "hugepages", "uma-")),
    ("graphs", "CUDA graphs", ("graph", "capture")),
    ("serving", "Serving", _SERVING),
)


@dataclass(frozen=True, slots=True)
class Block:
    """A paragraph, a list or lines in mono within a section."""

    kind: str  # text | list | code
    text: str = ""
    items: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShownRule:
    """One rule as its page shows it."""

    id: str
    title: str
    severity: str
    group: str
    sections: tuple[tuple[str, tuple[Block, ...]], ...] = ()
    releases: str = ""
    needs: tuple[str, ...] = ()
    sees: str = ""
    recall: str = ""
    precision: str = ""
    shown_by: tuple[str, ...] = ()


def rules_context(rule_id: str) -> dict[str, Any] | None:
    """The list, and the rule of that id in full (the first one without an id). None for an unknown id."""
    from kvdiag.diagnosis.rules import all_rules

    rules = sorted((shown_rule(rule) for rule in all_rules()), key=lambda rule: (_weight(rule.severity), rule.title))
    chosen = next((rule for rule in rules if rule.id == rule_id), None)
    if rule_id and chosen is None:
        return None
    counts = Counter(rule.group for rule in rules)
    names = {key: name for key, name, _ in _GROUPS} | {"start": "Start-up"}
    groups = [(key, names[key], counts[key]) for key in ("start", "graphs", "serving", "host") if counts[key]]
    return {"rules": rules, "rule": chosen, "groups": groups}


def shown_rule(rule: Any) -> ShownRule:
    """A rule of the engine, its docstring's sections cut into blocks."""
    from kvdiag.diagnosis.rules.scores import RuleScore, scores

    severity = getattr(rule.severity, "value", rule.severity)
    counted = scores().get(rule.id, RuleScore())
    return ShownRule(
        recall=counted.recall,
        precision=counted.precision,
        shown_by=(*counted.corpus, *counted.named),
        id=rule.id,
        title=rule.title.rstrip("."),
        severity=severity if severity in words.SEVERITIES else "info",
        group=next((key for key, _, marks in _GROUPS if any(mark in rule.id for mark in marks)), "start"),
        sections=tuple((name, blocks_of(text)) for name, text in rule.sections.items()),
        sees=_first_sentence(next((text for name, text in rule.sections.items() if name == "What it sees"), "")),
        releases=_releases(getattr(rule, "releases", None)),
        needs=tuple(_spaced(getattr(event, "__name__", str(event))) for event in getattr(rule, "needs", ()) or ()),
    )


def _first_sentence(text: str) -> str:
    """The first sentence of a section, for the list; a full stop within a quotation ends none."""
    flat = " ".join(text.split())
    ends = (match.end() for match in re.finditer(r"[.](?=\s|$)", flat))
    return next((flat[:end] for end in ends if end > 20 and flat[:end].count('"') % 2 == 0), flat)


def _weight(severity: str) -> int:
    return words.SEVERITIES.index(severity)


def _spaced(name: str) -> str:
    """KVPoolAllocated → "KV pool allocated"."""
    parts = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z][a-z]+|[A-Z]+|\d+", name)
    return " ".join([parts[0], *(part if part.isupper() else part.lower() for part in parts[1:])]) if parts else name


def _releases(value: Any) -> str:
    if not value:
        return ""
    if isinstance(value, str):
        return value
    first, before = (getattr(value, "first", None), getattr(value, "before", None))
    if isinstance(value, tuple) and len(value) == 2:
        first, before = value
    if first and before:
        return f"SGLang {first} or later, before {before}"
    return f"SGLang {first} or later" if first else f"SGLang before {before}" if before else ""


def blocks_of(text: str) -> tuple[Block, ...]:
    """Paragraphs; lines that begin with "- " become a list, lines indented by four more spaces stay as they are."""
    blocks: list[Block] = []
    for part in re.split(r"\n\s*\n", text.strip("\n")):
        lines = part.splitlines()
        if all(line.startswith("    ") for line in lines if line.strip()) and lines:
            blocks.append(Block("code", "\n".join(line[4:] for line in lines)))
        elif lines and lines[0].lstrip().startswith("- "):
            items: list[str] = []
            for line in lines:
                stripped = line.strip()
                if stripped.startswith("- "):
                    items.append(stripped[2:])
                elif items:
                    items[-1] += " " + stripped
            blocks.append(Block("list", items=tuple(items)))
        elif part.strip():
            blocks.append(Block("text", " ".join(line.strip() for line in lines)))
    return tuple(blocks)
