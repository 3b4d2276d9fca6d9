"""The rule pages: `python -m kvdiag.diagnosis.rules.catalogue` writes docs/rules/ and scores.json from the rules, the
labelled cases and the corpus of real logs.

For each rule its sections, releases, the cases that fire it, and how often it is right on them: recall is the share of
the cases that prove its label in which it is named, precision the share of the cases that name it in which it is true;
a symptom that is attached to its cause is no claim of its own.
"""

from __future__ import annotations

import argparse
import io
import json
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.rules import all_rules
from kvdiag.diagnosis.rules.not_provable import NOT_PROVABLE
from kvdiag.diagnosis.rules.rule import SECTIONS, Rule
from kvdiag.diagnosis.rules.scores import FILE
from kvdiag.diagnosis.rules.thresholds import DEFAULT_THRESHOLDS, Unit
from kvdiag.diagnosis.texts import Log
from kvdiag.diagnosis.wording import EXAMINED


@dataclass(frozen=True)
class LabelledCase:
    """A log whose cause a person has named.

    expected  labels that its lines prove; `possible` those that are true besides, from what no log shows
    """

    slug: str
    text: str
    expected: frozenset[str]
    possible: frozenset[str]
    remedies: tuple[tuple[str, str], ...] = ()
    traps: tuple[tuple[str, str], ...] = ()
    trap_findings: frozenset[str] = frozenset()
    is_healthy: bool = False


@dataclass
class Score:
    """How a rule does on the labelled cases, by their slugs."""

    named: list[str] = field(default_factory=list)
    right: list[str] = field(default_factory=list)
    proven: list[str] = field(default_factory=list)
    corpus: list[str] = field(default_factory=list)

    @property
    def recall(self) -> str:
        """Named among proven, as a fraction of cases; "" where no case proves the label."""
        return f"{len(set(self.proven) & set(self.named))} of {len(self.proven)}" if self.proven else ""

    @property
    def precision(self) -> str:
        """True among named; "" where no case names it."""
        return f"{len(self.right)} of {len(self.named)}" if self.named else ""


def read_cases(folder: Path) -> list[LabelledCase]:
    """The labelled cases of a folder, by slug."""
    return [_read_case(path) for path in sorted(folder.glob("*.json"))]


def _read_case(path: Path) -> LabelledCase:
    case: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return LabelledCase(
        slug=path.stem,
        text=command(case["args"], case["log"]) + case["log"] + "\n",
        expected=frozenset(case["expected"]),
        possible=frozenset(case["possible"]),
        remedies=tuple((x["flag"], x["direction"]) for x in case["remedies"]),
        traps=tuple((x["flag"], x["direction"]) for x in case["traps"]),
        trap_findings=frozenset(case["trap_findings"]),
        is_healthy=case["healthy"],
    )


def command(arguments: Mapping[str, Any], log: str) -> str:
    """The launch command as one pastes it above a log; "" where the log prints its arguments itself."""
    if not arguments or "server_args=" in log:
        return ""
    words = ["python3", "-m", "sglang.launch_server"]
    for flag, value in arguments.items():
        if value is False:
            continue
        words += ["--" + flag.lstrip("-").replace("_", "-")] + ([] if value is True else [str(value)])
    return shlex.join(words) + "\n"


@lru_cache(maxsize=512)
def findings_of(text: str, name: str = "log") -> list[dict[str, Any]]:
    """The findings of all launches of a log, as the document has them; to be read only."""
    document = diagnose(Log(name, io.BytesIO(text.encode()))).document
    return [finding for launch in document["launches"] for finding in launch["findings"]]


def read_corpus(folder: Path) -> dict[str, str]:
    """The real logs of the corpus by name."""
    return {p.parent.name: p.read_text(encoding="utf-8", errors="replace") for p in sorted(folder.glob("*/log.txt"))}


def score(cases: Iterable[LabelledCase], corpus: Mapping[str, str]) -> dict[str, Score]:
    """The score of each rule on the cases, and the logs of the corpus that it fires on."""
    scores = {rule.id: Score() for rule in all_rules()}
    for case in cases:
        for label in case.expected & set(scores):
            scores[label].proven.append(case.slug)
        claims = {f["rule"] for f in findings_of(case.text) if not f["part_of"] or f["rule"] in case.expected}
        for name in sorted(claims):
            scores[name].named.append(case.slug)
            if name in case.expected | case.possible or (case.is_healthy and name == "no-fault"):
                scores[name].right.append(case.slug)
    for log, text in corpus.items():
        for name in sorted({finding["rule"] for finding in findings_of(text, log)}):
            scores[name].corpus.append(log)
    return scores


def scores_document(scores: Mapping[str, Score]) -> str:
    """scores.json: what the rule pages of the site show."""
    kept = {
        rule: {"recall": x.recall, "precision": x.precision, "named": x.named, "corpus": x.corpus}
        for rule, x in scores.items()
    }
    return json.dumps(kept, indent=1) + "\n"


def pages(scores: Mapping[str, Score]) -> dict[str, str]:
    """Every page by its file name."""
    found = {"README.md": _index(scores), "not-provable.md": _not_provable(), "thresholds.md": _thresholds()}
    for rule in all_rules():
        found[f"{rule.id}.md"] = _page(rule, scores[rule.id])
    return found


def _page(rule: Rule, result: Score) -> str:
    lines = [f"# {rule.id}", "", f"{rule.title}.", "", f"Severity: {rule.severity.value}."]
    if rule.releases:
        lines.append(f"Releases: {releases_in_words(rule.releases)}.")
    if rule.needs:
        lines.append("Needs: " + ", ".join(kind.__name__ for kind in rule.needs) + ".")
    for name in SECTIONS:
        lines += ["", f"## {name}", "", rule.sections[name]]
    lines += ["", "## On labelled cases", ""]
    if result.named or result.proven:
        told = [
            f"recall {result.recall}" if result.recall else "",
            f"precision {result.precision}" if result.precision else "",
        ]
        lines.append(f"{', '.join(x for x in told if x).capitalize()}.")
        lines += ["", *(f"- {slug}" for slug in result.named)]
    else:
        lines.append("None of the labelled cases shows it; a composed log does, in its test.")
    if result.corpus:
        lines += ["", "## In the corpus", "", *(f"- {name}" for name in result.corpus)]
    return "\n".join(lines) + "\n"


def releases_in_words(releases: str) -> str:
    """ "0.5.3.." as "0.5.3 to 0.5.23, the last one examined"."""
    first, dots, last = releases.partition("..")
    if not dots:
        return first
    return (
        f"{first} to {last}"
        if first and last
        else f"{first} to {EXAMINED[-1]}, the last one examined"
        if first
        else f"up to {last}"
    )


def _index(scores: Mapping[str, Score]) -> str:
    rows = [
        f"| [{rule.id}]({rule.id}.md) | {rule.severity.value} | {rule.title} |"
        f" {releases_in_words(rule.releases) if rule.releases else ''} |"
        f" {scores[rule.id].recall} | {scores[rule.id].precision} |"
        for rule in all_rules()
    ]
    return "\n".join(
        [
            "# Rules",
            "",
            "Written by `python -m kvdiag.diagnosis.rules.catalogue` from the rules and the labelled cases"
            " in `tests/cases`.",
            "Recall: cases that prove the label in which it is named. Precision: cases that name it in"
            " which it is true.",
            "",
            "A finding is *certain* where the arithmetic closes or SGLang says so itself, *likely* where the evidence"
            " fits one cause best, and *possible* where it fits that cause among others.",
            "A remedy gives its figures with the interval that the printed digits allow, or says which line is missing;"
            " a value that no figure gives is marked as a starting value, with what to check afterwards.",
            "",
            "Labels that no log can prove are in [not-provable.md](not-provable.md);"
            " what counts as thin, large or low is in [thresholds.md](thresholds.md).",
            "",
            "| rule | severity | what it names | releases | recall | precision |",
            "| --- | --- | --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


def _not_provable() -> str:
    lines = [
        "# What no log proves",
        "",
        "These causes are known, and no rule names them: the lines of a log do not show them.",
        "",
    ]
    for label, reason in NOT_PROVABLE.items():
        lines += [f"- **{label}**: {reason}"]
    return "\n".join(lines) + "\n"


def _thresholds() -> str:
    rows = []
    for one in DEFAULT_THRESHOLDS.each():
        ends = f"{one.least:,g} to {one.most:,g}" + (" GiB" if one.unit is Unit.GIB else "")
        rows.append(f"| `{one.name}` | {one.told(one.default)} | {ends} | {one.meaning} |")
    return "\n".join(
        [
            "# Thresholds",
            "",
            "Written by `python -m kvdiag.diagnosis.rules.catalogue`. Every rule takes its thresholds from here, and"
            " anybody may hold others:",
            "",
            "```",
            "kvdiag diagnose --threshold free_wanted=8 --threshold weights_near_limit=0.9 server.log",
            "kvdiag diagnose --thresholds ours.toml server.log",
            "kvdiag thresholds",
            "```",
            "",
            "The TOML file holds the same names, one a line: `free_wanted = 8`. A number is in the unit of the table;"
            ' text may carry one: `"512 MiB"`, `"85 %"`. In Python:'
            ' `diagnose(log, thresholds=Thresholds.read({"free_wanted": 8}))`. A name that is none, and a value that'
            " cannot be meant, are refused with a sentence. The report names those that were held otherwise.",
            "",
            "| threshold | kvdiag's own | may be | meaning |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


def main() -> None:
    """Write the pages; pages of rules that are gone are removed."""
    parser = argparse.ArgumentParser(description="Write the rule pages from the rules and the labelled cases.")
    parser.add_argument("--cases", type=Path, default=Path("tests/cases"))
    parser.add_argument("--corpus", type=Path, default=Path("tests/corpus"))
    parser.add_argument("--out", type=Path, default=Path("docs/rules"))
    options = parser.parse_args()
    scores = score(read_cases(options.cases), read_corpus(options.corpus))
    (Path(__file__).parent / FILE).write_text(scores_document(scores), encoding="utf-8")
    written = pages(scores)
    options.out.mkdir(parents=True, exist_ok=True)
    for old in options.out.glob("*.md"):
        if old.name not in written:
            old.unlink()
    for name, text in written.items():
        (options.out / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
