"""Composed starts of every family, release era, layout and platform: the report gives what each really took."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from kvdiag.diagnosis import diagnose
from kvdiag.diagnosis.compare import compare
from kvdiag.diagnosis.ledger.what_if import Change, Scenario, scenario
from kvdiag.diagnosis.lines import Log
from kvdiag.diagnosis.release import ReleaseRange, release
from tests.diagnosis.sizing.starts import GIB, Start, pages, rows

_COUNTS = re.compile(rb"((?:#tokens: |max_total_num_tokens=|full_layer_tokens=|swa_layer_tokens=))(\d+)")
_SIZES = re.compile(rb"((?:K|V|KV) size: )(\d+\.\d+)")


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What a start really took, in GiB, and what the report should call it; None where the case does not ask.

    tokens    of the target's (full) pool; predicted: by readings and fraction alone, where it differs
    """

    release: str
    family: str
    tokens: int
    budget: float | None = None
    predicted: bool = True
    kv: float | None = None
    window: float | None = None
    index: float | None = None
    states: float | None = None
    slots: int | None = None
    draft: float | None = None
    limited_by: str | None = None
    fraction: float | None = None


Case = Callable[[], tuple[Start, Truth]]
CASES: dict[str, Case] = {}


def start(case: Case) -> Case:
    CASES[case.__name__] = case
    return case


def gqa(layers: int, heads: int, width: int, ranks: int, size: float = 2) -> float:
    """Bytes of one token: heads on a rank × keys and values × layers."""
    return max(1, heads // ranks) * 2 * width * layers * size


def plain(
    version: str,
    model: str,
    architecture: str,
    cell: float,
    fraction: float,
    opening: float | list[float],
    weights: float,
    **more: Any,
) -> tuple[Start, Truth]:
    """A start without a draft: one pool, graphs, and a limit on requests that the release counts itself."""
    latent, page = bool(more.pop("latent", False)), int(more.get("page_size") or 1)
    truth = more.pop("truth", {})
    one = Start(version, model, fraction, opening, **more)
    one.load(architecture, weights)
    budget = one.budget
    tokens = pages(budget * GIB // cell, page)
    pool = (tokens + page) * cell / GIB
    one.pool(tokens, pool, latent=latent)
    requests = rows(tokens, one.context, 5120 if not one.after("0.3.6") else 4096)
    if one.after("0.5.10"):
        requests = min(requests, tokens // 2)
    requests += 1 if one.after("0.3.6") and not one.after("0.4.7") and requests > tokens // 2 else 0
    one.pool_end(requests)
    one.graph(1.1, workspace=0.3)
    one.ready(tokens, requests)
    printed = one.after("0.4.5") or (one.after("0.4.1") and not latent)
    family = "mla" if latent else "mha"
    said = {"kv": pool if printed else None, **truth}
    return one, Truth(release=version, family=family, tokens=tokens, budget=budget, **said)


LLAMA, LLAMA_CLASS = "meta-llama/Llama-3.1-70B-Instruct", "LlamaForCausalLM"
R1, R1_CLASS = "deepseek-ai/DeepSeek-R1", "DeepseekV3ForCausalLM"
SPECULATIVE = {"speculative_num_steps": 3, "speculative_eagle_topk": 1, "speculative_num_draft_tokens": 4}


@start
def llama_8b_without_a_date() -> tuple[Start, Truth]:
    return plain("0.3.0", "meta-llama/Meta-Llama-3-8B", LLAMA_CLASS, 131_072, 0.88, 78.95, 15.02, context=8192)


@start
def qwen2_72b_without_pool_lines() -> tuple[Start, Truth]:
    cell = gqa(80, 8, 128, 8)
    return plain("0.3.6", "Qwen/Qwen2-72B-Instruct", "Qwen2ForCausalLM", cell, 0.82, 78.7, 17.1, tp=8)


@start
def llama_70b_with_a_pool_line_without_tokens() -> tuple[Start, Truth]:
    return plain("0.4.1", LLAMA, LLAMA_CLASS, gqa(80, 8, 128, 4), 0.85, 78.7, 33.0, tp=4, context=131_072)


@start
def qwen3_32b_on_two_ranks() -> tuple[Start, Truth]:
    cell = gqa(64, 8, 128, 2)
    return plain("0.4.6", "Qwen/Qwen3-32B", "Qwen3ForCausalLM", cell, 0.87, 78.6, 30.9, tp=2, context=40_960)


@start
def deepseek_r1_under_dp_attention_in_fp8() -> tuple[Start, Truth]:
    flags = {"page_size": 64, "kv_cache_dtype": "fp8_e4m3"}
    return plain(
        "0.5.1", R1, R1_CLASS, 35_136, 0.85, 138.2, 84.2, tp=8, dp_attention=8, context=163_840, latent=True, **flags
    )


@start
def seven_heads_too_few_for_eight_ranks() -> tuple[Start, Truth]:
    flags = {"page_size": 64, "kv_cache_dtype": "fp8_e5m2"}
    cell = gqa(28, 4, 128, 8, size=1)
    return plain("0.5.9", "Qwen/Qwen2.5-7B-Instruct", "Qwen2ForCausalLM", cell, 0.82, 46.9, 2.2, tp=8, **flags)


@start
def aiter_multiplies_the_printed_fraction() -> tuple[Start, Truth]:
    more = {"attention_backend": "aiter", "fraction_in_effect": 0.9 * 0.85, "truth": {"fraction": 0.9 * 0.85}}
    return plain("0.5.2", LLAMA, LLAMA_CLASS, gqa(80, 8, 128, 8), 0.9, 191.3, 17.0, tp=8, context=131_072, **more)


@start
def aiter_prints_the_product_since_0_5_4() -> tuple[Start, Truth]:
    more = {"attention_backend": "aiter", "truth": {"fraction": 0.765}}
    return plain("0.5.9", LLAMA, LLAMA_CLASS, gqa(80, 8, 128, 8), 0.765, 286.3, 17.0, tp=8, context=131_072, **more)


@start
def one_rank_with_less_memory_sets_the_pool_of_all() -> tuple[Start, Truth]:
    openings = [78.4, 78.5, 72.1, 78.5]
    more = {"truth": {"limited_by": "smallest_rank"}}
    return plain("0.5.12", LLAMA, LLAMA_CLASS, gqa(80, 8, 128, 4), 0.88, openings, 33.0, tp=4, context=131_072, **more)


@start
def a_model_nobody_knows() -> tuple[Start, Truth]:
    cell = gqa(41, 4, 96, 2)
    return plain("0.5.12", "/data/our-own", "OurOwnMoeForCausalLM", cell, 0.87, 78.4, 40.3, tp=2, page_size=16)


@start
def qwen25_14b_of_the_newest_release() -> tuple[Start, Truth]:
    return plain("0.5.23", "Qwen/Qwen2.5-14B-Instruct", "Qwen2ForCausalLM", 196_608, 0.86, 46.9, 27.6)


@start
def a_draft_that_adds_tokens_to_the_pool() -> tuple[Start, Truth]:
    """0.4.3–0.5.6: N·steps·topk + N·draft tokens + 100 on top of the budget; the draft comes after the graphs."""
    flags = {"speculative_num_steps": 5, "speculative_eagle_topk": 8, "speculative_num_draft_tokens": 64}
    one = Start("0.4.9", "meta-llama/Llama-3.1-8B", 0.80, 78.6, limit=48, speculative_algorithm="EAGLE", **flags)
    one.load(LLAMA_CLASS, 15.0)
    budget = one.budget
    tokens = int(budget * GIB // 131_072) + 48 * 5 * 8 + 48 * 64 + 100
    pool, draft = (tokens + 1) * 131_072 / GIB, (tokens + 1) * 4096 / GIB
    one.pool(tokens, pool)
    one.pool_end(48)
    one.graph(1.3, workspace=0.4)
    one.load("LlamaForCausalLMEagle", 0.9)
    one.pool(tokens, draft)
    one.pool_end()
    one.graph(0.3, role="draft")
    one.ready(tokens, 48)
    return one, Truth(release="0.4.9", family="mha", tokens=tokens, budget=budget, kv=pool, draft=draft)


def with_budgeted_draft(
    version: str,
    model: str,
    architectures: tuple[str, str],
    cell: float,
    layers: int,
    draft_cell: float,
    fraction: float,
    opening: float,
    weights: tuple[float, float],
    *,
    freed: float = 0.0,
    **more: Any,
) -> tuple[Start, Truth]:
    """0.5.14 and later: both models load first, and the target's cell carries the draft's layer."""
    latent, page = bool(more.pop("latent", False)), int(more.get("page_size") or 1)
    truth = more.pop("truth", {})
    one = Start(version, model, fraction, opening, limit=64, speculative_algorithm="EAGLE3", **SPECULATIVE, **more)
    one.load(architectures[0], weights[0])
    one.load(architectures[1], weights[1] + freed)
    budget = one.budget
    tokens = pages(budget * GIB // int(cell * (1 + 1 / layers)), page)
    pool, draft = (tokens + page) * cell / GIB, (tokens + page) * draft_cell / GIB
    one.pool(tokens, pool, latent=latent)
    one.pool_end(64, 4)
    one.take(-freed)
    one.pool(tokens, draft, latent=latent)
    one.pool_end()
    one.graph(1.0, kind="verify", workspace=0.6)
    one.graph(0.2, role="draft")
    one.ready(tokens, 64)
    said = {"kv": pool, "family": "mla" if latent else "mha", **truth}
    return one, Truth(release=version, tokens=tokens, budget=budget, draft=draft, **said)


@start
def a_draft_that_the_budget_pays_for() -> tuple[Start, Truth]:
    classes, cell = (LLAMA_CLASS, "LlamaForCausalLMEagle3"), gqa(80, 8, 128, 4)
    return with_budgeted_draft(
        "0.5.14", LLAMA, classes, cell, 80, cell / 80, 0.86, 78.6, (33.0, 0.9), tp=4, context=131_072
    )


@start
def a_latent_draft_that_the_budget_pays_for() -> tuple[Start, Truth]:
    classes = (R1_CLASS, "DeepseekV3ForCausalLMNextN")
    return with_budgeted_draft(
        "0.5.15", R1, classes, 70_272, 61, 1152, 0.85, 138.2, (80.2, 1.5), tp=8, context=163_840, latent=True
    )


@start
def a_draft_whose_own_embedding_is_freed_too_late() -> tuple[Start, Truth]:
    classes, cell = ("Qwen3ForCausalLM", "LlamaForCausalLMEagle3"), gqa(36, 8, 128, 4)
    return with_budgeted_draft(
        "0.5.19",
        "Qwen/Qwen3-8B",
        classes,
        cell,
        36,
        cell / 36,
        0.88,
        78.4,
        (4.2, 0.4),
        tp=4,
        context=40_960,
        freed=0.58,
        truth={"limited_by": "sizing_fault"},
    )


@start
def an_eagle3_head_on_kimi_outside_the_budget() -> tuple[Start, Truth]:
    flags = {"speculative_algorithm": "EAGLE3", **SPECULATIVE}
    one = Start("0.5.9", "moonshotai/Kimi-K2.5", 0.88, 94.04, tp=8, context=262_144, limit=48, **flags)
    one.load("KimiK25ForConditionalGeneration", 72.33)
    budget = one.budget
    tokens = int(budget * GIB // 70_272)
    pool, draft = (tokens + 1) * 70_272 / GIB, (tokens + 1) * 4096 / GIB
    one.pool(tokens, pool, latent=True)
    one.pool_end(48)
    one.graph(1.2, workspace=0.6)
    one.load("LlamaForCausalLMEagle3", 0.95)
    one.pool(tokens, draft)
    one.pool_end()
    one.graph(0.25, role="draft")
    one.ready(tokens, 48)
    return one, Truth(release="0.5.9", family="mla", tokens=tokens, budget=budget, kv=pool, draft=draft)


def windowed(version: str, *, ratio: float = 0.8, limit: int | None = None, radix: bool = True) -> tuple[Start, Truth]:
    """gpt-oss-120b on two ranks: 18 full and 18 window layers of 4 heads × 64 a rank, split as the release does."""
    flags = {"swa_full_tokens_ratio": ratio, "disable_radix_cache": not radix}
    one = Start(version, "openai/gpt-oss-120b", 0.87, 78.5, tp=2, context=131_072, limit=limit, **flags)
    one.load("GptOssForCausalLM", 32.6)
    budget, each = one.budget, 4 * 2 * 64 * 2
    full_cell = window_cell = each * 18
    if not one.after("0.5.9"):
        charged = each * 36 + (window_cell if one.after("0.5.8") else 0)
        full = int(int(budget * GIB // charged) * 36 / (18 + ratio * 18))
        window = int(full * ratio)
    elif not one.after("0.5.11"):
        common = int(budget * GIB // (full_cell + window_cell))
        full = int(common * (full_cell + window_cell) / (full_cell + ratio * window_cell))
        window = int(full * ratio)
    elif not radix and limit:
        window = (128 + 128 + 1 + 1) * limit + 2 * 8192 + 1
        full = int((budget * GIB - window * window_cell) // full_cell)
    else:
        full = int(budget * GIB // (full_cell + ratio * window_cell))
        window = int(full * ratio)
    sizes = one.windows(full, window, full_cell, window_cell)
    requests = limit or rows(full, one.context)
    one.pool_end(requests)
    one.graph(1.2, workspace=0.3)
    one.ready(full, requests)
    fault = "sizing_fault" if version == "0.5.8" else None
    return one, Truth(
        release=version, family="swa", tokens=full, budget=budget, kv=sizes[0], window=sizes[1], limited_by=fault
    )


@start
def windows_by_layers() -> tuple[Start, Truth]:
    return windowed("0.5.5")


@start
def windows_counted_twice() -> tuple[Start, Truth]:
    return windowed("0.5.8")


@start
def windows_profiled_then_split() -> tuple[Start, Truth]:
    return windowed("0.5.10")


@start
def windows_jointly() -> tuple[Start, Truth]:
    return windowed("0.5.12", ratio=0.25)


@start
def windows_by_the_requests_that_may_run() -> tuple[Start, Truth]:
    return windowed("0.5.15", limit=128, radix=False)


@start
def windows_with_labels() -> tuple[Start, Truth]:
    return windowed("0.5.17")


def hybrid(
    version: str, *, tp: int, opening: float, weights: float, limit: int | None = None, radix: bool = True
) -> tuple[Start, Truth]:
    """Qwen3-Next-80B: 12 full layers of 2 heads × 256, and 36 gated delta nets whose states take ρ/(1 + ρ) first."""
    flags = {"mamba_full_memory_ratio": 0.9, "disable_radix_cache": not radix}
    model = "Qwen/Qwen3-Next-80B-A3B-Instruct"
    one = Start(version, model, 0.84, opening, tp=tp, context=262_144, limit=limit, **flags)
    one.load("Qwen3NextForCausalLM", weights)
    budget = one.budget
    convolution = 36 * ((2 * 16 * 128 + 32 * 128) // tp * 3 * 2)
    state = 36 * (32 // tp) * 128 * 128 * 4 + convolution
    padding = 1 if one.after("0.5.17") else 0
    slots = int((budget * GIB * 0.9 / 1.9 - padding * state) // state) if radix else int(limit or 512)
    cell = gqa(12, 2, 256, tp)
    tokens = int((budget * GIB - (slots + padding) * state) // cell)
    states = one.states(slots, state, convolution)
    pool = (tokens + 1) * cell / GIB
    one.pool(tokens, pool)
    requests = limit or min(rows(tokens, one.context), slots // 3)
    one.pool_end(requests)
    one.graph(1.4, workspace=0.3)
    one.ready(tokens, requests)
    return one, Truth(
        release=version, family="mamba", tokens=tokens, budget=budget, kv=pool, states=states, slots=slots
    )


@start
def states_by_ratio() -> tuple[Start, Truth]:
    return hybrid("0.5.4", tp=4, opening=78.7, weights=38.4)


@start
def states_by_requests_without_the_prefix_cache() -> tuple[Start, Truth]:
    return hybrid("0.5.5", tp=4, opening=78.7, weights=38.4, limit=128, radix=False)


@start
def states_with_a_padding_slot() -> tuple[Start, Truth]:
    return hybrid("0.5.23", tp=2, opening=138.5, weights=76.6)


@start
def states_of_draft_tokens() -> tuple[Start, Truth]:
    """Qwen3.5-27B with MTP in 0.5.13: K = B / (s·(1 + D/q)), draft states for min(m, K // q) requests."""
    drafts, each = 4, 3
    flags = {"mamba_full_memory_ratio": 0.9, "speculative_algorithm": "NEXTN", **SPECULATIVE}
    one = Start("0.5.13", "Qwen/Qwen3.5-27B", 0.85, 78.6, tp=2, context=262_144, limit=48, **flags)
    one.load("Qwen3_5ForConditionalGeneration", 26.9)
    budget = one.budget
    convolution = 48 * ((2 * 16 * 128 + 48 * 128) // 2 * 3 * 2)
    state = 48 * (48 // 2) * 128 * 128 * 4 + convolution
    slots = int(budget * GIB * 0.9 / 1.9 // (state * (1 + drafts / each)))
    running = min(48, slots // each)
    cell = gqa(16, 4, 256, 2)
    tokens = int((budget * GIB - slots * state - running * drafts * state) // cell)
    states = one.states(slots, state, convolution, (running + 1) * drafts)
    pool, draft = (tokens + 1) * cell / GIB, (tokens + 1) * cell / 16 / GIB
    one.pool(tokens, pool)
    one.pool_end(running, drafts)
    one.graph(1.1, workspace=0.5)
    one.load("Qwen3_5ForCausalLMMTP", 1.6)
    one.pool(tokens, draft)
    one.pool_end()
    one.graph(0.3, role="draft")
    one.ready(tokens, running)
    truth = {"states": states, "slots": slots, "draft": draft}
    return one, Truth(release="0.5.13", family="mamba", tokens=tokens, budget=budget, kv=pool, **truth)


def sparse(
    version: str,
    charged: int,
    stored: int,
    key: int,
    *,
    layers: int = 61,
    owners: int | None = None,
    model: str = "deepseek-ai/DeepSeek-V3.2",
    architecture: str = "DeepseekV32ForCausalLM",
    **more: Any,
) -> tuple[Start, Truth]:
    """DSA: rows and index keys of a layer in one printed figure; `charged` may be less than `stored`."""
    truth, page = more.pop("truth", {}), int(more.pop("page_size", 64))
    one = Start(version, model, 0.84, 138.1, tp=8, context=163_840, page_size=page, **more)
    one.load(architecture, 85.0)
    budget, keys = one.budget, key * (owners or layers)
    tokens = pages(budget * GIB // (charged * layers + 132 * (owners or layers)), page)
    pool, index = (tokens + page) * (stored * layers + keys) / GIB, (tokens + page) * keys / GIB
    dtype = "float8_e4m3fn" if more.get("kv_cache_dtype") == "fp8_e4m3" else "bfloat16"
    one.pool(tokens, pool, latent=True, dtype=dtype)
    requests = rows(tokens, one.context)
    one.pool_end(requests)
    one.graph(2.0, workspace=1.0)
    one.ready(tokens, requests)
    return one, Truth(
        release=version, family="sparse", tokens=tokens, budget=budget, kv=pool - index, index=index, **truth
    )


@start
def sparse_rows_in_bf16() -> tuple[Start, Truth]:
    return sparse("0.5.9", 1152, 1152, 132)


@start
def sparse_fp8_rows_charged_too_little() -> tuple[Start, Truth]:
    return sparse("0.5.6", 576, 656, 132, kv_cache_dtype="fp8_e4m3", truth={"limited_by": "sizing_fault"})


@start
def sparse_fp8_rows_charged_whole() -> tuple[Start, Truth]:
    return sparse("0.5.17", 656, 656, 132, kv_cache_dtype="fp8_e4m3")


@start
def sparse_index_keys_of_an_npu() -> tuple[Start, Truth]:
    flags = {"attention_backend": "ascend", "device": "npu", "page_size": 128, "ep": 8}
    return sparse("0.5.7", 1152, 1152, 256, truth={"limited_by": "sizing_fault"}, **flags)


@start
def sparse_layers_that_share_an_index() -> tuple[Start, Truth]:
    return sparse(
        "0.5.21", 1152, 1152, 132, layers=78, owners=40, model="zai-org/GLM-5", architecture="GlmMoeDsaForCausalLM"
    )


@start
def deepseek_v4_by_its_printed_rate() -> tuple[Start, Truth]:
    one = Start(
        "0.5.12", "deepseek-ai/DeepSeek-V4-Flash", 0.88, 138.0, tp=4, context=1_048_576, limit=256, page_size=256
    )
    one.load("DeepseekV4ForCausalLM", 45.0)
    budget, rate = one.budget, 3400.21
    tokens = pages(budget * GIB // rate, 256)
    head = f"DSV4 memory calculation: bytes_per_full_token={rate:.2f}"
    one.say(f"{head}, available_bytes={budget:.2f} GB, full_token={tokens}")
    one.take(tokens * rate / GIB)
    one.pool_end(256)
    one.graph(2.2, workspace=1.0)
    one.ready(tokens, 256)
    return one, Truth(release="0.5.12", family="sparse", tokens=tokens, budget=budget)


@start
def an_fp4_pool_whose_line_leaves_its_scales_out() -> tuple[Start, Truth]:
    one = Start("0.5.11", "Qwen/Qwen2.5-7B-Instruct", 0.7, 140.0, kv_cache_dtype="fp4_e2m1")
    one.load("Qwen2ForCausalLM", 15.2)
    budget, values = one.budget, 4 * 2 * 128 * 28 // 2
    tokens = int(budget * GIB // (values + values // 8))
    printed = (tokens + 1) * values / GIB
    one.say("Using KV cache dtype: torch.float4_e2m1fn_x2")
    one.pool(tokens, printed, lost=printed / 8)
    one.pool_end(rows(tokens, one.context))
    one.graph(0.7, workspace=0.2)
    one.ready(tokens, rows(tokens, one.context))
    return one, Truth(release="0.5.11", family="mha", tokens=tokens, budget=budget, kv=printed * 9 / 8)


@start
def pipeline_stages_that_all_take_the_smallest() -> tuple[Start, Truth]:
    one = Start("0.5.10", R1, 0.86, 138.2, tp=4, pp=2, context=163_840)
    layers = {rank: 31 if " PP0" in rank else 30 for rank in one.ranks}
    one.load(R1_CLASS, {rank: 86.0 if " PP0" in rank else 84.5 for rank in one.ranks})
    budget = one.budget
    tokens = int(budget * GIB // (1152 * 31))
    one.pool(tokens, {rank: (tokens + 1) * 1152 * layers[rank] / GIB for rank in one.ranks}, latent=True)
    requests = rows(tokens, one.context)
    one.pool_end(requests)
    one.graph(1.4, workspace=0.6)
    one.ready(tokens, requests)
    return one, Truth(release="0.5.10", family="mla", tokens=tokens, budget=budget, limited_by="smallest_rank")


@start
def a_cap_on_tokens() -> tuple[Start, Truth]:
    one = Start("0.5.12", "Qwen/Qwen3-32B", 0.9, 78.4, tp=2, context=40_960, max_total_tokens=100_000)
    one.load("Qwen3ForCausalLM", 30.9)
    budget, cell = one.budget, gqa(64, 8, 128, 2)
    pool = 100_001 * cell / GIB
    one.pool(100_000, pool)
    one.pool_end(2048)
    one.graph(0.9, workspace=0.3)
    one.ready(100_000, 2048)
    return one, Truth(
        release="0.5.12", family="mha", tokens=100_000, budget=budget, kv=pool, limited_by="max_total_tokens"
    )


@start
def buffers_of_the_loader_still_held() -> tuple[Start, Truth]:
    one = Start("0.5.15", "Qwen/Qwen3-235B-A22B", 0.9, 94.0, tp=4, context=40_960, limit=48)
    one.load("Qwen3MoeForCausalLM", 62.0)
    cell = gqa(94, 4, 128, 4)
    tokens = int((one.budget - 18.0) * GIB // cell)
    pool = (tokens + 1) * cell / GIB
    one.pool(tokens, pool)
    one.pool_end(48)
    one.graph(1.0, workspace=0.3)
    one.ready(tokens, 48)
    truth = {"kv": pool, "predicted": False, "limited_by": "sizing_fault"}
    return one, Truth(release="0.5.15", family="mha", tokens=tokens, **truth)


@start
def lora_buffers_before_the_budget() -> tuple[Start, Truth]:
    flags = {"enable_lora": True, "lora_paths": ["one=/adapters/one"]}
    one = Start("0.5.19", "Qwen/Qwen3-30B-A3B", 0.85, 78.5, tp=2, context=40_960, **flags)
    one.load("Qwen3MoeForCausalLM", 28.5)
    one.take(0.09)
    budget, cell = one.budget, gqa(48, 4, 128, 2)
    tokens = int(budget * GIB // cell)
    pool = (tokens + 1) * cell / GIB
    one.pool(tokens, pool)
    one.pool_end(rows(tokens, one.context))
    one.graph(0.6, kind="prefill", workspace=0.4)
    one.graph(1.1)
    one.ready(tokens, rows(tokens, one.context))
    return one, Truth(release="0.5.19", family="mha", tokens=tokens, budget=budget, kv=pool)


@start
def one_pool_for_each_layer_of_a_draft() -> tuple[Start, Truth]:
    one = Start("0.5.15", "/data/inkling", 0.85, 138.0, tp=4, limit=32, speculative_algorithm="EAGLE", **SPECULATIVE)
    for architecture, size in (("OurOwnMoeForCausalLM", 60.0), *[("OurOwnMoeForCausalLMMTP", 0.8)] * 3):
        one.load(architecture, size)
    cell = gqa(60, 8, 128, 4)
    tokens = int(one.budget * GIB // int(cell * (1 + 3 / 60)))
    pool, draft = (tokens + 1) * cell / GIB, (tokens + 1) * cell / 60 / GIB
    budget = one.budget
    one.pool(tokens, pool)
    one.pool_end(32, 4)
    for _ in range(3):
        one.pool(tokens, draft)
        one.pool_end()
    one.graph(1.1, kind="verify", workspace=0.4)
    one.ready(tokens, 32)
    return one, Truth(release="0.5.15", family="mha", tokens=tokens, budget=budget, kv=pool, draft=3 * draft)


@start
def latent_rows_shared_over_context_parallel_ranks() -> tuple[Start, Truth]:
    """0.5.19: a rank's pool line counts its share, the summary all of them."""
    one = Start("0.5.19", R1, 0.85, 138.2, tp=8, context=163_840, dcp_size=8, page_size=64)
    one.load(R1_CLASS, 80.2)
    budget = one.budget
    tokens = pages(budget * GIB // 70_272, 64)
    pool = (tokens + 64) * 70_272 / GIB
    one.pool(tokens, pool, latent=True)
    requests = min(rows(8 * tokens, one.context), 4 * tokens)
    one.pool_end(requests)
    one.graph(1.4, workspace=0.8)
    one.ready(8 * tokens, requests)
    return one, Truth(release="0.5.19", family="mla", tokens=tokens, budget=budget, kv=pool)


@start
def one_byte_budget_for_both_window_pools() -> tuple[Start, Truth]:
    flags = {"enable_unified_memory": True, "swa_full_tokens_ratio": 0.8}
    one = Start("0.5.17", "openai/gpt-oss-120b", 0.88, 78.5, tp=2, context=131_072, **flags)
    one.load("GptOssForCausalLM", 32.6)
    budget, cell = one.budget, 4 * 2 * 64 * 2 * 18
    tokens = int(budget * GIB // (cell * 1.8))
    size = tokens * cell * 1.8
    head = "[unified-memory-pool]"
    one.say(f"{head} UNIFIED MEMORY POOL ENABLED -- path=SWA hybrid")
    one.say(f"{head} UnifiedKVPool allocated: total_bytes={size / GIB:.2f} GB (={size:.0f} B), 2 sub-pool(s)")
    one.say(
        f"{head}   total_bytes={size:.0f} (={size / GIB:.2f} GB), full_max_total_num_tokens={tokens},"
        f" swa_max_total_num_tokens={int(tokens * 0.8)}, joint_available={tokens} slots"
    )
    one.take(size / GIB)
    one.pool_end(rows(tokens, one.context))
    one.graph(1.2, workspace=0.3)
    one.ready(tokens, rows(tokens, one.context))
    return one, Truth(release="0.5.17", family="swa", tokens=tokens, budget=budget, kv=size / GIB)


@start
def a_pool_sized_again_after_the_graphs() -> tuple[Start, Truth]:
    one = Start("0.5.19", "Qwen/Qwen3-32B", 0.93, 78.5, context=40_960)
    one.load("Qwen3ForCausalLM", 32.3)
    budget, cell = one.budget, 262_144
    most = int(budget * GIB // cell)
    half = f"{(most + 1) * cell / 2 / GIB:.2f} GB"
    one.say(f"KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: {most}, K size: {half}, V size: {half}")
    one.pool_end(2048)
    one.graph(0.7, kind="prefill", workspace=0.6)
    one.graph(1.3)
    tokens = int((one.least - max(one.opening * 0.07, 1.0)) * GIB // cell)
    pool = (tokens + 1) * cell / GIB
    one.take(pool)
    head = f"Post-capture KV sizing: KV cache allocated. dtype: torch.bfloat16, #tokens: {tokens}"
    one.say(f"{head}, KV size: {pool:.2f} GB, avail mem={one.least:.2f} GB")
    one.ready(tokens, 2048)
    return one, Truth(
        release="0.5.19", family="mha", tokens=tokens, budget=budget, kv=pool, predicted=False, limited_by="memory"
    )


@pytest.fixture(scope="module", params=list(CASES))
def found(request: pytest.FixtureRequest) -> tuple[dict[str, Any], Truth]:
    return document(CASES[request.param]), CASES[request.param]()[1]


def document(case: Case, scale: float = 1.0) -> dict[str, Any]:
    """The report on a start; `scale` multiplies what its pool lines and its summary print."""
    raw = case()[0].log
    if scale != 1.0:
        raw = _COUNTS.sub(lambda m: m[1] + str(int(int(m[2]) * scale)).encode(), raw)
        raw = _SIZES.sub(lambda m: m[1] + f"{float(m[2]) * scale:.2f}".encode(), raw)
    (launch,) = diagnose(Log("log.txt", io.BytesIO(raw))).document["launches"]
    return dict(launch)


def booked(rank: dict[str, Any], pool: str, model: str = "target") -> float:
    return sum(entry["gib"] for entry in rank["entries"] if (entry["pool"], entry["model"]) == (pool, model))


def test_it_is_ready_and_of_its_release(found: tuple[dict[str, Any], Truth]) -> None:
    launch, truth = found
    version = launch["version"]
    known = ReleaseRange.read(version["exact"], version["from"], version["before"])
    assert launch["outcome"] == "ready"
    assert known.reaches(truth.release) is not False
    assert known.before is None or known.before > release(truth.release)
    assert launch["not_understood"] == []


def test_every_rank_s_ledger_closes_and_explains_the_start(found: tuple[dict[str, Any], Truth]) -> None:
    launch, truth = found
    wanted = {
        ("kv_cache", "target"): truth.kv,
        ("swa_kv_cache", "target"): truth.window,
        ("indexer_cache", "target"): truth.index,
        ("mamba_state", "target"): truth.states,
        ("kv_cache", "draft"): truth.draft,
    }
    for rank in launch["ranks"]:
        taken = sum(entry["gib"] for entry in rank["entries"])
        assert rank["opening_gib"] - taken == pytest.approx(rank["free_gib"], abs=1e-4)
        unexplained = [entry for entry in rank["entries"] if entry["pool"] in ("unexplained", "other")]
        assert sum(abs(entry["gib"]) for entry in unexplained) < 0.12, unexplained
        for (pool, model), size in wanted.items():
            if size is not None:
                assert booked(rank, pool, model) == pytest.approx(size, abs=0.035), (pool, model)


def test_family_tokens_and_limit_are_the_true_ones(found: tuple[dict[str, Any], Truth]) -> None:
    launch, truth = found
    cache = launch["kv_cache"]
    assert cache["family"] == truth.family
    assert cache["tokens"] == truth.tokens
    assert truth.slots is None or {rank["mamba_slots"] for rank in launch["ranks"]} == {truth.slots}
    if truth.limited_by is not None:
        assert cache["limited_by"] == truth.limited_by, cache["limit"]
    else:
        assert cache["limited_by"] not in ("unknown", "sizing_fault"), cache["limit"]


def test_budget_and_tokens_follow_from_readings_and_fraction(found: tuple[dict[str, Any], Truth]) -> None:
    launch, truth = found
    budget = launch["kv_cache"]["budget"]
    assert budget is not None
    if truth.fraction is not None:
        assert budget["mem_fraction_static"] == pytest.approx(truth.fraction)
    if truth.budget is not None:
        assert budget["kv_gib"] == pytest.approx(truth.budget, abs=0.11)  # 0.09 of them a LoRA buffer no line prints
    if truth.predicted:
        assert abs(budget["error_percent"]) < 0.3


def test_a_healthy_start_raises_no_alarm(found: tuple[dict[str, Any], Truth]) -> None:
    launch, truth = found
    loud = [x["rule"] for x in launch["findings"] if x["severity"] in ("critical", "warning")]
    assert [rule for rule in loud if rule != "pool-below-one-request"] == []


def test_no_change_gives_the_start_back(found: tuple[dict[str, Any], Truth]) -> None:
    launch, truth = found
    same = scenario(launch, Change())
    assert same.refused is None and same.tokens is not None
    assert same.tokens.after == launch["kv_cache"]["tokens"]
    if same.free_gib is not None:
        assert same.free_gib.after == same.free_gib.before


def test_a_larger_fraction_holds_more_and_leaves_less(found: tuple[dict[str, Any], Truth]) -> None:
    launch, _ = found
    last: Scenario | None = None
    for fraction in (0.6, 0.7, 0.8, 0.85, 0.9, 0.95):
        now = scenario(launch, Change(mem_fraction_static=fraction))
        if now.refused is None and last is not None and last.refused is None:
            assert now.tokens is not None and last.tokens is not None
            assert now.tokens.after >= last.tokens.after
            if now.free_gib is not None and last.free_gib is not None:
                assert now.free_gib.after <= last.free_gib.after + 1e-9
        last = now


def test_a_comparison_with_another_start_adds_up(found: tuple[dict[str, Any], Truth]) -> None:
    launch, _ = found
    other = document(CASES["a_draft_that_the_budget_pays_for"])
    for one, two in ((launch, other), (other, launch), (launch, launch)):
        said = compare(one, two)
        for part in (said, said["free"]):
            if part and part["gib"]["difference"] is not None:
                steps = sum(step["gib"] for step in part["steps"])
                assert steps == pytest.approx(part["gib"]["difference"], abs=1e-6)
        if said["tokens"]["difference"] is not None:
            assert sum(step["tokens"] or 0 for step in said["steps"]) == said["tokens"]["difference"]


def test_pool_lines_scaled_down_move_no_prediction(request: pytest.FixtureRequest, found: Any) -> None:
    """A prediction comes from readings and fraction: with other tokens and sizes in the pool's lines it stays."""
    launch, truth = found
    name = request.node.callspec.params["found"]
    scaled = document(CASES[name], 0.8)
    one, two = launch["kv_cache"], scaled["kv_cache"]
    assert two["budget"]["kv_gib"] == one["budget"]["kv_gib"]
    if truth.predicted and one["tokens"] != two["tokens"] and truth.limited_by != "max_total_tokens":
        assert two["budget"]["tokens"] == pytest.approx(one["budget"]["tokens"], rel=0.005)
        assert two["limited_by"] in ("unknown", "sizing_fault"), two["limit"]


def entries(launch: dict[str, Any]) -> dict[str, list[tuple[str, str, float]]]:
    return {
        rank["id"]: sorted((e["pool"], e["model"], round(e["gib"], 2)) for e in rank["entries"] if abs(e["gib"]) > 0.02)
        for rank in launch["ranks"]
    }


NEEDS_ARGUMENTS = ("sparse_index_keys_of_an_npu", "lora_buffers_before_the_budget")  # the platform; that LoRA is on


@pytest.mark.parametrize("name", [name for name in CASES if name not in NEEDS_ARGUMENTS])
def test_without_its_arguments_a_start_s_ledger_is_the_same(name: str) -> None:
    raw = CASES[name]()[0].log
    bare = b"".join(line for line in raw.splitlines(keepends=True) if b"server_args=" not in line)
    (launch,) = diagnose(Log("log.txt", io.BytesIO(bare))).document["launches"]
    assert entries(launch) == entries(document(CASES[name]))
    budget, truth = launch["kv_cache"]["budget"], CASES[name]()[0].fraction
    assert budget is None or budget["mem_fraction_static"] == pytest.approx(truth)  # SGLang's own, and confirmed
