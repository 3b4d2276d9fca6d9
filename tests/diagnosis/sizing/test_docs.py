"""docs/sizing.md says how many real launches stand behind each cell; the data say the same."""

import re
import statistics
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from kvdiag.diagnosis.ledger.sizing import size_inputs
from kvdiag.diagnosis.release import ReleaseRange
from tests.diagnosis.sizing.launches import STARTUPS, startup
from tests.diagnosis.sizing.test_corpus_sizing import CASES, CORPUS, launches

DOCS = Path(__file__).parents[3] / "docs" / "sizing.md"
ERAS = {
    "before 0.4.3": ("0.2.0", "0.4.3"),
    "0.4.3–0.4.8": ("0.4.3", "0.4.9"),
    "0.4.9–0.5.6": ("0.4.9", "0.5.7"),
    "0.5.7–0.5.8": ("0.5.7", "0.5.9"),
    "0.5.9–0.5.10": ("0.5.9", "0.5.11"),
    "0.5.11–0.5.13": ("0.5.11", "0.5.14"),
    "0.5.14 and later": ("0.5.14", None),
}
FAMILIES = ("mha", "mla", "dsa", "swa", "mamba", "dsv4")


def era(releases: ReleaseRange) -> str:
    return next((name for name, (first, end) in ERAS.items() if releases.within(first, end)), "not told")


def counted() -> tuple[Counter, Counter]:
    startups = Counter(
        (era(ReleaseRange.read(figures.get("version_for_model"))), figures["kv_family"]) for figures in STARTUPS
    )
    logs: Counter = Counter()
    for case in CASES:
        facts = CORPUS / case / "facts.toml"
        if facts.exists() and tomllib.loads(facts.read_text(encoding="utf-8")).get("origin") == "composed":
            continue
        for launch in launches(case):
            cache, version = launch["kv_cache"], launch["version"]
            if cache["budget"] and cache["budget"]["tokens"] and cache["tokens"]:
                releases = ReleaseRange.read(version["exact"], version["from"], version["before"])
                logs[era(releases), cache["inputs"]["family"]] += 1
    return startups, logs


def table() -> str:
    """The table as the page has it: startups kept as figures + real logs of the corpus, by release and family."""
    startups, logs = counted()
    lines = [
        "| releases | MHA | MLA | DSA | window | linear | DeepSeek-V4 |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in (*ERAS, "not told"):
        cells = " | ".join(f"{startups[name, family]} + {logs[name, family]}" for family in FAMILIES)
        lines.append(f"| {name} | {cells} |")
    return "\n".join(lines)


def test_the_table_of_real_launches_is_what_the_data_count(request: pytest.FixtureRequest) -> None:
    text, made = DOCS.read_text(encoding="utf-8"), table()
    if request.config.getoption("--accept"):
        text = re.sub(r"\| releases \| MHA \|.*?(?=\n\n)", made, text, count=1, flags=re.S)
        DOCS.write_text(text, encoding="utf-8")
    assert made in text, "pytest tests/diagnosis/sizing/test_docs.py --accept"


def test_the_errors_that_the_page_names_are_those_of_the_startups() -> None:
    errors = []
    for figures in STARTUPS:
        budget = size_inputs(startup(figures)).budget
        assert budget is not None and budget.tokens is not None
        share = abs(budget.tokens.value / figures["kv_tokens"] - 1)
        errors.append((100 * share, share * figures["kv_gb"]))
    over = [gib for percent, gib in errors if percent > 0.5]
    text = DOCS.read_text(encoding="utf-8")
    assert f"All {len(errors)} startups" in text and f"{len(over)} are over" in text
    assert max(over) < 0.08
    assert f"median error is {statistics.median(percent for percent, _ in errors):.2f} %" in text
