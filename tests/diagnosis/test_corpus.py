"""Every corpus log against what a person read in it by eye, and against the report as it was accepted."""

import json
import math
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.lines import Log

CORPUS = Path(__file__).parent.parent / "corpus"
CASES = sorted(path.parent.name for path in CORPUS.glob("*/facts.toml"))
STAGES = {"oom_weights": "weights", "oom_kv": "kv_cache", "oom_graph": "cuda_graph", "oom_runtime": "serving"}


@cache
def document(case: str) -> dict[str, Any]:
    with (CORPUS / case / "log.txt").open("rb") as stream:
        return diagnose(Log("log.txt", stream)).document


def facts(case: str) -> dict[str, Any]:
    return tomllib.loads((CORPUS / case / "facts.toml").read_text(encoding="utf-8"))


def figures(rank: dict[str, Any], model: str) -> dict[str, Any]:
    def reading(moment: str) -> float | None:
        found = [r["available_gib"] for r in rank["readings"] if (r["moment"], r["model"]) == (moment, model)]
        return found[-1] if found else None

    def booked(*pools: str) -> float | None:
        sizes = [e["gib"] for e in rank["entries"] if e["pool"] in pools and e["model"] == model]
        return sum(sizes) if sizes else None

    draft = rank["draft"] or {}
    return {
        "avail_before_load_gb": reading("weights_begin"),
        "weights_gb": booked("weights"),
        "avail_after_load_gb": reading("weights_end"),
        "kv_tokens": rank["kv_tokens"] if model == "target" else draft.get("kv_tokens"),
        "kv_gb": rank["kv_gib"] if model == "target" else draft.get("kv_gib"),
        "avail_after_pool_gb": reading("pool_end"),
        "graph_gb": booked("cuda_graphs"),
        "avail_after_graph_gb": reading("cuda_graph_end"),
        "mamba_slots": rank["mamba_slots"],
        "mamba_gb": rank["mamba_gib"],
    }


def same(got: Any, want: Any, step: float = 0.0055) -> bool:
    if isinstance(want, bool | str) or got is None:
        return bool(got == want) or str(got).lower() == str(want).lower()
    return math.isclose(got, want, abs_tol=step)


@pytest.mark.parametrize("case", CASES)
def test_outcome_is_what_a_person_read(case: str) -> None:
    want = facts(case)["outcome"]
    launches = document(case)["launches"]
    last = launches[-1] if launches else {"outcome": None, "failure": None}
    if want in STAGES:
        assert (last["outcome"], last["failure"]["stage"]) == ("failed", STAGES[want])
    elif want == "host_oom":
        assert (last["outcome"], last["failure"]["kind"]) == ("failed", "host_oom")
    else:
        assert last["outcome"] == {"error": "failed", "oom_unknown": "failed"}.get(want, want)


@pytest.mark.parametrize("case", CASES)
def test_figures_are_those_a_person_read(case: str) -> None:
    launches = document(case)["launches"]
    wrong = []
    for number, want in enumerate(facts(case).get("launches", [])):
        launch = launches[number]
        ranks = {rank["id"]: rank for rank in launch["ranks"]}
        for name, figures_wanted in want.get("ranks", {}).items():
            rank = ranks.get(name) or (launch["ranks"][0] if len(ranks) == len(want["ranks"]) == 1 else None)
            assert rank is not None, f"no rank {name} among {sorted(ranks)}"
            for model, part in (("target", figures_wanted), ("draft", figures_wanted.get("draft", {}))):
                got = figures(rank, model)
                wrong += [
                    f"{name} {model} {key}: {value}, not {got[key]}"
                    for key, value in part.items()
                    if key in got and not same(got[key], value, 0.0105 if key in ("kv_gb", "mamba_gb") else 0.0055)
                ]
        for key, value in want.get("limits", {}).items():
            got_limit = launch["limits"].get(key.replace("_gb", "_gib"))
            wrong += [] if same(got_limit, value) else [f"{key}: {value}, not {got_limit}"]
        for key, value in want.get("arguments", {}).items():
            argument = launch["arguments"].get(key, {}).get("value")
            wrong += [] if same(argument, value, 1e-9) else [f"{key}: {value}, not {argument}"]
    assert not wrong


@pytest.mark.parametrize("case", CASES)
def test_the_ledger_of_every_rank_closes(case: str) -> None:
    for launch in document(case)["launches"]:
        for rank in launch["ranks"]:
            if rank["opening_gib"] is not None:
                taken = sum(entry["gib"] for entry in rank["entries"])
                assert math.isclose(rank["opening_gib"] - taken, rank["free_gib"], abs_tol=1e-4), rank["id"]


@pytest.mark.parametrize("case", [case for case in CASES if facts(case).get("healthy")])
def test_a_healthy_log_has_no_warning(case: str) -> None:
    loud = [
        finding["rule"]
        for launch in document(case)["launches"]
        for finding in launch["findings"]
        if finding["severity"] in ("critical", "warning")
    ]
    assert loud == []


@pytest.mark.parametrize("case", CASES)
def test_the_report_is_the_accepted_one(case: str, request: pytest.FixtureRequest) -> None:
    path = CORPUS / case / "expected.json"
    got = json.loads(json.dumps(document(case)))
    if request.config.getoption("--accept"):
        path.write_text(json.dumps(got, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
    if not path.exists():
        pytest.fail("no report was accepted yet: pytest --accept writes it")
    assert got == json.loads(path.read_text(encoding="utf-8"))
