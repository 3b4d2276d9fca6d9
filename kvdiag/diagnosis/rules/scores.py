"""How each rule does on the labelled logs, as the catalogue last counted it: for the rule pages."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources

FILE = "scores.json"


@dataclass(frozen=True, slots=True)
class RuleScore:
    """A rule on the labelled logs.

    recall     named among the logs that prove its label, such as "3 of 3"; "" where none does
    precision  true among the logs that name it; "" where none does
    named      the labelled logs that name it; `corpus` the real logs without a label that do
    """

    recall: str = ""
    precision: str = ""
    named: tuple[str, ...] = ()
    corpus: tuple[str, ...] = ()


@cache
def scores() -> dict[str, RuleScore]:
    """Every rule's score by its id; {} where the file is not there."""
    try:
        kept = json.loads(resources.files("kvdiag.diagnosis.rules").joinpath(FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return {
        rule: RuleScore(each["recall"], each["precision"], tuple(each["named"]), tuple(each["corpus"]))
        for rule, each in kept.items()
    }
