"""A report for the terminal and for pasting."""

from __future__ import annotations

import unicodedata
from typing import Any

from kvdiag.diagnosis.report import Report


def render(report: Report, form: str) -> str:
    """The report as json (one line), text or markdown."""
    if form == "json":
        return report.to_json() + "\n"
    return printable("\n".join(_lines(report.document))) + "\n"


def printable(text: str) -> str:
    """Text without control codes: a log's words must not drive a terminal."""
    return "".join(c if c in "\n\t" or not unicodedata.category(c).startswith("C") else "�" for c in text)


def _lines(document: dict[str, Any]) -> list[str]:
    out: list[str] = []
    for launch in document["launches"]:
        out.append(f"Launch {launch['number']}, lines {launch['first_line']} to {launch['last_line']}")
        out.append(f"  {launch['verdict']}")
        for finding in launch["findings"]:
            out.append(f"  {finding['severity']}: {finding['summary']}  [{finding['rule']}]")
            out += [f"      L{e['line']}  {e['text'][:160]}" for e in finding["evidence"]]
            for remedy in finding["remedies"]:
                to = f" to {remedy['to']}" if remedy["to"] else ""
                out.append(f"    → {remedy['direction']} {remedy['flag']}{to}. {remedy['cost']}")
        out.append("")
    return out
