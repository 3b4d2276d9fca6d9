"""docs/sizing.md says how many real launches stand behind each cell; the data say the same."""

import re
import tomllib
from collections import Counter
from pathlib import Path

from kvdiag.diagnosis.release import ReleaseRange
from tests.diagnosis.sizing.launches import STARTUPS
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


def test_the_table_of_real_launches_is_true():
    startups, logs = counted()
    text = DOCS.read_text(encoding="utf-8").partition("## What stands behind it")[2]
    documented = 0
    for name in (*ERAS, "not told"):
        row = re.search(rf"^\| {re.escape(name)} \|(.*)\|$", text, re.M)
        assert row is not None, name
        cells = [tuple(int(n) for n in re.findall(r"\d+", cell)) for cell in row[1].split("|")]
        assert [cell[0] for cell in cells] == [startups[name, family] for family in FAMILIES], name
        documented += sum(cell[1] for cell in cells)
    assert documented <= sum(logs.values()), logs
