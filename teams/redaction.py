"""What a team hides beside what every team hides: its own expressions, tried on a sample before they are kept.

Plain Python: the process that reads a log imports it, and has no database.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable
from typing import Any

import regex

from kvdiag import bounded
from kvdiag.diagnosis.masking import Masker
from kvdiag.diagnosis.patterns import Pattern

MOST = 30
LONGEST = 300
SAMPLE_LONGEST = 20_000
SAMPLE_S = 2.0  # for all lines of a sample
TRIAL_S = 20.0  # of the clock, for a process that gives itself less of the processor

_NAME = re.compile(r"[a-z][a-z0-9 -]{1,29}")
_BY_NUMBER = re.compile(r"\\[1-9]|\\g<\d|\(\?\(?\d")


class BadPattern(ValueError):
    """An expression that is not kept; the text is a sentence for the person who typed it."""


def checked(name: str, expression: str, *, ignore_case: bool = False) -> dict[str, Any]:
    """An expression as it is kept: {"name", "expression", "ignore_case"}. Raises BadPattern."""
    name = " ".join(name.lower().split())
    if not _NAME.fullmatch(name):
        raise BadPattern("The name is a word or two, in letters, digits and hyphens: it stands for what is hidden.")
    if not expression.strip() or len(expression) > LONGEST:
        raise BadPattern(f"The expression has 1 to {LONGEST} characters.")
    if _BY_NUMBER.search(expression):
        raise BadPattern("Groups cannot be referred to by number here; give them names.")
    entry = {"name": name, "expression": expression, "ignore_case": ignore_case}
    try:
        compiled = _compiled(entry)
    except regex.error as problem:
        raise BadPattern(f"The expression cannot be read: {problem}.") from None
    if compiled.search(""):
        raise BadPattern("The expression also fits where nothing stands; make it ask for at least one character.")
    return entry


def pattern_of(entry: dict[str, Any]) -> Pattern:
    """A kept expression as the engine takes it: all of what it finds is hidden."""
    return Pattern(
        kind=entry["name"].replace(" ", "_"),
        literals=(),
        expression=f"()({entry['expression']})",
        replacement=f"[{entry['name']}]",
        ignore_case=bool(entry.get("ignore_case")),
    )


def patterns_of(settings: dict[str, Any]) -> list[Pattern]:
    """The patterns among a team's settings."""
    return [pattern_of(entry) for entry in settings.get("redaction") or ()]


def tried(entries: Iterable[dict[str, Any]], sample: str) -> tuple[str, int]:
    """The sample as it would be stored, and how many values of it the expressions hide. Raises BadPattern when slow."""
    entries, lines = list(entries), sample[:SAMPLE_LONGEST].splitlines()
    ends = time.monotonic() + SAMPLE_S
    for entry in entries:
        compiled = _compiled(entry)
        for line in lines:
            try:
                found = list(compiled.finditer(line, timeout=max(0.01, ends - time.monotonic())))
            except TimeoutError:
                raise BadPattern("The expression takes too long on this sample.") from None
            if any(not match[0] for match in found):
                raise BadPattern("The expression also fits where nothing stands; make it ask for a character.")
    masker = Masker([pattern_of(entry) for entry in entries])
    shown = "\n".join(masker.mask_in_order(line) for line in lines)
    return shown, sum(masker.counts.get(pattern_of(entry).kind, 0) for entry in entries)


def trial(name: str, expression: str, sample: str, *, ignore_case: bool = False) -> tuple[dict[str, Any], str, int]:
    """`checked` and `tried` for an expression that somebody typed, within bounds. Raises BadPattern."""
    asked = {"name": name, "expression": expression[: LONGEST + 1], "ignore_case": ignore_case}
    given = json.dumps(asked | {"sample": sample[:SAMPLE_LONGEST]}).encode()
    try:
        answer = json.loads(bounded.answer_of("teams.redaction_trial", given, within_s=TRIAL_S))
    except bounded.Refused as refused:
        raise BadPattern(str(refused)) from None
    except bounded.TooMuch:
        raise BadPattern(_TOO_MUCH) from None
    return answer["entry"], answer["shown"], answer["count"]


_TOO_MUCH = "The expression is too much work. Repeat less within it."


def _compiled(entry: dict[str, Any]) -> regex.Pattern[str]:
    pattern = pattern_of(entry)
    return regex.compile(pattern.expression, regex.IGNORECASE if pattern.ignore_case else 0)
