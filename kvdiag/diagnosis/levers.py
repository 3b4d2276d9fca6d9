"""Levers: what each way of getting more out of a launch would buy and cost. Offers from what-if, not findings."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from kvdiag.diagnosis.ledger.what_if import Change, Scenario, scenario_of
from kvdiag.diagnosis.rules._pricing import is_npu
from kvdiag.diagnosis.rules.rule import Case

HICACHE_RATIO = 4.0  # host tokens for each device token, where no host tier is on
STEP = 0.02  # fractions are turned in such steps


def levers(case: Case) -> list[dict[str, Any]]:
    """The levers of a launch as the document has them: what, its scenario's figures, what it costs.

    Only for a launch with a pool; a lever that the log cannot price is left out.
    """
    if case.sizing is None or case.tokens is None or case.fraction is None:
        return []
    found = []
    for name, what, change in _changes(case):
        answer = scenario_of(case.sizing, change, case.launch.arguments)
        if not answer.refused and answer.tokens is not None and answer.tokens.after is not None:
            found.append(_lever(name, what, answer))
    return found


def _changes(case: Case) -> Iterator[tuple[str, str, Change]]:
    launch = case.launch
    assert case.sizing is not None and case.fraction is not None
    now = scenario_of(case.sizing, Change(), launch.arguments)
    keeps = now.keeps_wanted
    if keeps is not None and keeps > case.fraction + 0.0005:
        yield "fraction", "the largest fraction that keeps the wanted free memory", Change(mem_fraction_static=keeps)
        beyond = math.floor(keeps / STEP + 1) * STEP
        if beyond < 1:
            yield "fraction-beyond", "one step further", Change(mem_fraction_static=round(beyond, 3))
    dtype = str(launch.value("kv_cache_dtype") or "auto")
    if dtype in ("auto", "bfloat16", "bf16", "float16") and not is_npu(case):
        yield "fp8-kv", "an 8-bit KV cache", Change(kv_cache_dtype="fp8_e4m3")
    tp = launch.number_of("tp_size")
    if (
        str(case.sizing.inputs.family) in ("mla", "sparse")
        and tp
        and tp > 1
        and not launch.value("enable_dp_attention")
    ):
        yield "dp-attention", "a KV cache of its own on each rank", Change(dp_attention=int(tp))
    # A memory that host and GPU share has no second tier: what the host's pool took would be missing on the GPU.
    if not launch.value("enable_hierarchical_cache") and not case.sizing.inputs.unified_memory:
        yield "host-tier", "a host tier for evicted prefixes", Change(hicache_ratio=HICACHE_RATIO)
    if any(ledger.draft_pools for ledger in case.ledgers):
        yield "no-draft", "no draft model", Change(draft=False)


def _lever(name: str, what: str, answer: Scenario) -> dict[str, Any]:
    document = answer.to_document()
    return {
        "lever": name,
        "what": what,
        "flags": document["flags"],
        **{key: document[key] for key in ("fraction", "tokens", "total_tokens", "free_gib", "requests", "host_gb")},
        "costs": _costs(answer),
    }


def _costs(answer: Scenario) -> list[str]:
    """What speaks against it; at the least the free memory it takes, or what its price rests on."""
    costs = list(answer.cautions)
    free = answer.free_gib
    if free is not None and free.before is not None and free.after is not None and free.after < free.before - 0.01:
        costs.append(f"{free.before - free.after:.2f} GiB less for activations and graphs")
    return costs or [text for text in answer.validity if not text.startswith("graphs, workspaces")][:1]
