"""The sizing of every corpus log: coherent, and resting on readings and fraction alone."""

import io
import json
import math
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.compare import compare
from kvdiag.diagnosis.ledger.what_if import Change, scenario
from kvdiag.diagnosis.lines import Log

CORPUS = Path(__file__).parents[2] / "corpus"
CASES = sorted(path.parent.name for path in CORPUS.glob("*/log.txt"))
_TOKENS = re.compile(rb"(#tokens: )(\d+)")
_SIZES = re.compile(rb"((?:K|V|KV) size: )(\d+\.\d+)")


@cache
def text(case: str) -> bytes:
    return (CORPUS / case / "log.txt").read_bytes()


@cache
def launches(case: str, scale: float = 1.0) -> tuple[dict[str, Any], ...]:
    found = text(case)
    if scale != 1.0:
        found = _TOKENS.sub(lambda m: m[1] + str(int(int(m[2]) * scale)).encode(), found)
        found = _SIZES.sub(lambda m: m[1] + f"{float(m[2]) * scale:.2f}".encode(), found)
    return tuple(diagnose(Log("log.txt", io.BytesIO(found))).document["launches"])


def with_budget() -> list[str]:
    return [case for case in CASES if b"mem_fraction_static" in text(case) and b"#tokens" in text(case)]


@pytest.mark.parametrize("case", with_budget())
def test_pool_lines_scaled_by_0_8_do_not_move_the_budget(case):
    for true, scaled in zip(launches(case), launches(case, 0.8), strict=True):
        one, two = true["kv_cache"]["budget"], scaled["kv_cache"]["budget"]
        assert (one is None) == (two is None)
        if one is None:
            continue
        assert (one["kv_gib"], one["reserve_gib"]) == (two["kv_gib"], two["reserve_gib"])
        if one["tokens"] is not None:
            assert two["tokens"] == pytest.approx(one["tokens"], rel=0.004)  # two decimals of a smaller pool
        was, now = true["kv_cache"], scaled["kv_cache"]
        if was["tokens"] == now["tokens"] or not one["kv_gib"] or one["kv_gib"] < 1:
            continue
        assert now["limited_by"] in ("unknown", "sizing_fault", "max_total_tokens"), now["limit"]
        if now["limited_by"] == "unknown":
            assert now["limit"]["unexplained_gib"] is not None


@pytest.mark.parametrize("case", CASES)
def test_no_change_returns_the_launch_and_no_suggestion_is_incoherent(case):
    for launch in launches(case):
        found = scenario(launch, Change())
        named = launch["kv_cache"].get("fractions") or {}
        start, keep = named.get("smallest_that_starts"), named.get("keeps_wanted_free")
        assert start is None or 0 < start <= 1
        assert keep is None or (start is not None and start <= keep < 1)
        if found.refused is not None:
            continue
        assert found.tokens is not None and found.tokens.after is not None
        if launch["kv_cache"]["tokens"] is not None:
            assert found.tokens.after == launch["kv_cache"]["tokens"]
        last = found
        for fraction in (0.5, 0.7, 0.85, 0.9, 0.95):
            then = scenario(launch, Change(mem_fraction_static=fraction))
            json.dumps(then.to_document(), allow_nan=False)
            if then.refused is None:
                assert then.tokens is not None and then.tokens.after > 0
                if last.refused is None and last.fraction and last.fraction.after <= fraction:
                    assert then.tokens.after >= last.tokens.after
            last = then


@pytest.mark.parametrize("case", CASES)
def test_every_pair_with_its_neighbour_adds_up(case):
    neighbour = CASES[(CASES.index(case) + 1) % len(CASES)]
    for one in launches(case):
        for two in launches(neighbour):
            found = compare(one, two)
            for part in (found, found["free"]):
                if part and part["gib"]["difference"] is not None:
                    assert math.isclose(sum(s["gib"] for s in part["steps"]), part["gib"]["difference"], abs_tol=1e-6)
            if found["tokens"]["difference"] is not None and found["steps"]:
                assert sum(s["tokens"] or 0 for s in found["steps"]) == found["tokens"]["difference"]


def test_budgets_that_a_build_prints_itself_are_those_of_readings_and_fraction():
    checked = 0
    for case in CASES:
        for launch in launches(case):
            budget = launch["kv_cache"]["budget"]
            if budget is not None and budget["measured_gib"] is not None:
                expected = budget["kv_gib"] - (budget["state_gib"] or 0.0)
                assert budget["measured_gib"] == pytest.approx(expected, abs=0.13), case
                checked += 1
    assert checked == 5


def test_a_fraction_that_sglang_chose_is_pinned_where_a_change_would_move_it():
    (launch,) = launches("qwq-32b-4xl4-ecs")
    found = scenario(launch, Change(tp_size=8))
    assert found.command is not None and "--tp-size 8" in found.command
    assert "--mem-fraction-static 0.85" in found.command
    assert any("pins 0.85" in said for said in found.validity)
    assert "--mem-fraction-static" not in (scenario(launch, Change(context_length=8192)).command or "")
